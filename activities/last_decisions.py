"""The last decisions that this process made on large clusters: queries answer from them instead of deciding anew."""

from typing import NamedTuple

from penstock.contract.orders import Orders
from penstock.core.answers.snapshot import SnapshotWithIds
from penstock.model.decision import Decision

MOST_KEPT = 8
"""Clusters whose last decision is kept, the latest ones: at a hundred thousand tasks one takes some 50 MB."""


class LastDecision(NamedTuple):
    """A decision, what it was made on, and the orders that the workflow records of it."""

    view: SnapshotWithIds
    decision: Decision
    orders: Orders


class LastDecisions:
    """By cluster. What is lost with the process costs nothing but time: who asks is then told to decide on the dump."""

    def __init__(self) -> None:
        self._kept: dict[str, LastDecision] = {}

    def keep(self, cluster: str, last: LastDecision) -> None:
        """Keep the decision instead of the cluster's last one."""
        self.forget(cluster)
        self._kept[cluster] = last
        while len(self._kept) > MOST_KEPT:
            self.forget(next(iter(self._kept)))

    def forget(self, cluster: str) -> None:
        """Keep no decision of the cluster."""
        self._kept.pop(cluster, None)

    def of(self, cluster: str, recorded: Orders | None) -> LastDecision | None:
        """The cluster's last decision; None if the workflow has recorded another one since, or none at all."""
        last = self._kept.get(cluster)
        return last if last is not None and recorded is not None and last.orders.at >= recorded.at else None


LAST_DECISIONS = LastDecisions()
"""Those of this process. The activity that evaluates fills it; queries of the workflow read it, as they read the clock: an
answer may depend on it, a command never does."""
