"""What decides: pure functions from values to values, with no clock, randomness, I/O or logging."""
