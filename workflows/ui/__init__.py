"""What the Temporal UI shows of workflows, in Markdown."""
