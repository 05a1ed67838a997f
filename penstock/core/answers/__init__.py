"""Answers to queries, computed from a state: status, decision summary, explanations, remedies."""
