"""Emulator of Google's Cloud TPU and Compute Engine APIs: the real protocols, machines that cost nothing, faults on request."""
