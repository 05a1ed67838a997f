"""Durable loops: the autoscaler, a slice's lifecycle, the inventory of a location, and short checks."""
