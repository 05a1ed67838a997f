"""The service: a process that runs Penstock's workflows and activities for a Temporal server."""
