"""The durable loop compared with bare Temporal: latency, throughput, and size of the histories."""
