"""Durable loops: the autoscaler, a slice's life, the inventory of a location, and short checks."""
