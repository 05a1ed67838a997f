"""The Temporal workflows: autoscaler, slice lifecycle, inventory of a location, verify and doctor."""
