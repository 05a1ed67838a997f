"""Frozen, validated value types: configuration, demand, slices, snapshot, decision. No decision logic."""
