"""The pure core: decide, evaluate, apply, explain. No clock, randomness, I/O, logging or Temporal.

The rooms behind this door: `decision` (a snapshot in, a decision out), `slices` (one slice's lifecycle, watch and audit), `state`
(events and how they change the autoscaler's state), `answers` (what a state answers).
"""

from penstock.core.answers.evaluate import evaluate as evaluate
from penstock.core.answers.explain import explain as explain
from penstock.core.decision.decide import decide as decide
from penstock.core.state.apply import apply as apply
