"""The Markdown that the Temporal UI shows as the details of workflows."""
