"""Parse the files that people write, and report every problem at once, with its line and its fix."""
