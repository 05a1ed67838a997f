"""Clouds that are not there: each a program of its own, for trying things out and for tests."""
