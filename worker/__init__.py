"""The composition root: what a worker process is made of."""
