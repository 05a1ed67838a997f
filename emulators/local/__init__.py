"""Hosts on this machine: slices of real processes, owned by a daemon."""
