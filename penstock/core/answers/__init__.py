"""Answers computed from a state: the evaluation, the status, explanations, remedies."""
