"""Files that people write, read into values: every mistake at once, each with its place and its fix."""
