"""Penstock: a durable autoscaler for slices of accelerators."""
