"""Emulated clouds for tests and trials; each runs as its own process and stores its state in an SQLite file."""
