"""The values everything else speaks in: frozen, validated, and free of behaviour that decides."""
