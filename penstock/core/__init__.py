"""The pure core: decide, evaluate, apply, explain. No clock, randomness, I/O, logging or Temporal.

Subpackages: `decision` (a snapshot in, a decision out), `slices` (lifecycle, watch and audit of slices), `state` (events and how
they change the autoscaler's state), `answers` (evaluation, status and explanations of a state).
"""

from penstock.core.answers.evaluate import evaluate as evaluate
from penstock.core.answers.explain import explain as explain
from penstock.core.decision.decide import decide as decide
from penstock.core.state.apply import apply as apply
