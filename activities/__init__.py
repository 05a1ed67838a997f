"""The activities of the workflows: every call to Temporal and to clouds."""
