"""Google Cloud: Cloud TPU slices and Compute Engine machines. Nothing of Google's is imported until one is opened."""
