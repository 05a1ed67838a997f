"""Not an emulator but a daemon: slices of real processes on this machine, behind the simulated cloud's HTTP API."""
