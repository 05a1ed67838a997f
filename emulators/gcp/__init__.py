"""Google's Cloud TPU and Compute Engine APIs here: real protocols, machines that cost nothing, faults on request."""
