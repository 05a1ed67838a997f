"""Single slices: their lifecycle, what a watch notifies them of, and the audit against cloud and workflows."""
