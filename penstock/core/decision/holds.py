"""Demand that may buy nothing new: the lease of its source lapsed, or its source restarted and has not reported usage.

It is placed after everything else, spares included, on what is left of READY slices and slices in flight. So it never changes
what is launched.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.plan import Plan
from penstock.core.decision.priority import HostsByRef, place_by_priority
from penstock.model.runs import Fault, FaultCode, Run
from penstock.model.snapshot import Snapshot, SourceTerms

_ELSEWHERE = Fault(code=FaultCode.NO_CAPACITY, message="placed in another step")
"""Keeps runs out of a step of placing."""


class Hold(NamedTuple):
    """Why the demand of a source buys nothing new, and whether the slices that hold it count as needed."""

    message: str
    keeps: bool


class Holds:
    """The sources whose demand may buy nothing new at the moment of a snapshot, and when time alone changes that."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.ends: list[datetime] = []
        """Later moments at which a hold of some demand begins or ends."""
        self.by_source: dict[str, Hold] = {}
        self._runs = snapshot.workload.runs
        present = {run.source for run in self._runs} if snapshot.sources else set()
        for name in sorted(present & snapshot.sources.keys()):
            terms = snapshot.sources[name]
            hold = hold_of(name, terms, snapshot.now)
            if hold is not None:
                self.by_source[name] = hold
            self.ends += [end for end in (terms.lease_ends, terms.usage_due) if end is not None and end > snapshot.now]

    def __bool__(self) -> bool:
        return bool(self.by_source)

    @property
    def lapsed(self) -> frozenset[str]:
        """Sources whose demand keeps no slice."""
        return frozenset(name for name, hold in self.by_source.items() if not hold.keeps)

    def of(self, run: Run) -> Hold | None:
        """Why the entries of a run buy nothing new, if so."""
        return self.by_source.get(run.source)

    @property
    def buying(self) -> tuple[Run, ...]:
        """All runs; those that may buy nothing new with a fault, so that they are not placed."""
        if not self.by_source:
            return self._runs
        return tuple(run if run.source not in self.by_source else run._replace(fault=_ELSEWHERE) for run in self._runs)

    def kept(self, *, keeps: bool) -> tuple[Run, ...]:
        """All runs; those that are not held for this reason with a fault, so that they are not placed."""
        names = {name for name, hold in self.by_source.items() if hold.keeps is keeps}
        return tuple(run if run.source in names else run._replace(fault=_ELSEWHERE) for run in self._runs)


def hold_of(source: str, terms: SourceTerms, now: datetime) -> Hold | None:
    """Why the demand of a source buys nothing new at a moment; None if it may buy."""
    if terms.lease_ends is not None and terms.lease_ends <= now:
        return Hold(
            f"the lease of source {source} lapsed at {_clock(terms.lease_ends)}: nothing new is bought for it", keeps=False
        )
    if terms.usage_due is not None and terms.usage_due > now:
        silent = f"source {source} began a new epoch and has not reported usage yet"
        return Hold(f"{silent}: nothing new is bought for it until it does, or {_clock(terms.usage_due)}", keeps=True)
    return None


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def place_held(plan: Plan, holds: Holds, hosts: HostsByRef) -> None:
    """Place what may buy nothing new by the rules of `priority`: demand of restarted sources, then that of lapsed leases.

    The first keeps its slices from being given back; the second does not.
    """
    if not holds:
        return
    fleet = plan.fleet
    shapes, conserve = fleet.snapshot.workload.shapes, fleet.snapshot.config.conserve_accelerators
    unplaced = plan.unplaced
    for keeps in (True, False):
        plan.unplaced, plan.counts_use = [], keeps
        cursors = ShapeCursors(shapes, fleet.matcher, conserve=conserve, buys=False)
        place_by_priority(plan, cursors, holds.kept(keeps=keeps), hosts)
        plan.held_unplaced += plan.unplaced
    plan.unplaced, plan.counts_use = unplaced, True
    _keep(plan, [counts.busy for counts in fleet.counts])


def _keep(plan: Plan, busy: Sequence[int]) -> None:
    """Raise the target of each group to the slices that are needed now."""
    for g, group in enumerate(plan.fleet.groups):
        plan.target[g] = max(plan.target[g], min(group.max_slices, busy[g] + plan.required[g]))
