"""What sees and does: everything that touches the world outside, for workflows to call."""
