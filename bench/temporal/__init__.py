"""The durable loop beside bare Temporal: latency, throughput, and what it leaves in histories."""
