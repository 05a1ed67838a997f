"""The simulated cloud: an HTTP server of slices that cost nothing, with latencies and faults on request."""
