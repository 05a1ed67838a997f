"""Google Cloud: Cloud TPU slices and Compute Engine machines. Google's client libraries are imported on first use."""
