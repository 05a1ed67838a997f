"""The public contract: durable names, messages, answers, error codes and metrics."""
