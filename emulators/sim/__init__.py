"""The simulated cloud: slices that cost nothing, and faults on request."""
