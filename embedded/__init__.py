"""The launcher behind `make run`: a Temporal server, emulated clouds, a worker and a cluster on one machine."""
