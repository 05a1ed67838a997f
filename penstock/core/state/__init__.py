"""The autoscaler's state: events, how each changes the state, and how signals and updates become events."""
