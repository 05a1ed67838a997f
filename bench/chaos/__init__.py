"""Churn on a real service: processes killed, calls failed, resources stolen; then everything is counted."""
