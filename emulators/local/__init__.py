"""Local hosts: slices of real processes on this machine, owned by a daemon with the simulated cloud's HTTP API."""
