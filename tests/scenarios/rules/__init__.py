"""Placement and launch rules by subject: each a sentence, a small snapshot and the expected decision."""
