"""What the state answers: the evaluation, the status, explanations, remedies."""
