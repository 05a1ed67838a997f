"""What programs may rely on: durable names, messages, and answers."""
