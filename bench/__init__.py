"""Benchmarks: decisions compared with the best public planners, and the durable loop with bare Temporal."""
