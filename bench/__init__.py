"""Benchmarks: what a decision costs, and how good it is, beside the best public planners."""
