"""Preview a configuration: the difference between the decision that is due now and the one that it would lead to."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from penstock.contract.answers import DrainSummary
from penstock.contract.effects import BlockEffect, Effects, LaunchEffect, UnmetEffect
from penstock.core.answers.held import held_because
from penstock.core.answers.outdating import outdating
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.summary import tasks_in
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import ConfigApplied
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleDown
from penstock.model.decision import Decision, Drain
from penstock.model.slices import Availability, DrainTerms, Slice
from penstock.model.snapshot import Snapshot


class _Decided(NamedTuple):
    """A state, the snapshot of it, and the decision on that."""

    state: AutoscalerState
    snapshot: Snapshot
    decision: Decision

    @classmethod
    def on(cls, state: AutoscalerState) -> "_Decided":
        """Decide on a state."""
        snapshot = snapshot_of(state).snapshot
        return cls(state, snapshot, decide(snapshot))

    @property
    def drains(self) -> dict[str, Drain]:
        """The drains by slice; none if they are only shown."""
        is_on = self.snapshot.config.scale_down is ScaleDown.ON
        return {drain.slice_id: drain for drain in self.decision.drains} if is_on else {}

    @property
    def unmet(self) -> int:
        """Tasks that are unmet."""
        workload = self.snapshot.workload
        return sum(tasks_in(span, workload) for unmet in self.decision.unmet for span in unmet.spans)

    @property
    def cancelled(self) -> set[str]:
        """Slices whose drains the decision cancels."""
        return set(self.decision.cancelled_drains)


def preview(state: AutoscalerState, config: ClusterConfig, now: datetime) -> Effects:
    """What would be launched, drained, called off, cancelled or blocked otherwise if the configuration were applied now.

    Drains that wait for a timeout count once it is over: a slice that the group may give back later is not listed yet. Slices
    that are to be replaced are counted in all, also those that wait for the disruption budget.
    """
    before = _Decided.on(state)
    after = _Decided.on(apply(state, ConfigApplied(at=now, config=config)))
    slices = after.state.by_id
    new = [drain for name, drain in after.drains.items() if name not in before.drains]
    ready = [drain for drain in new if slices[drain.slice_id].state.was_ready]
    return Effects(
        at=after.snapshot.now,
        held=held_because(state, now),
        launches=_launches(before.decision, after.decision),
        drains=_summaries(ready),
        called_off=_summaries(drain for drain in new if drain not in ready),
        spared=_summaries(drain for name, drain in before.drains.items() if name not in after.drains),
        cancelled=_cancelled(before, after),
        outdated=outdating(before.snapshot, after.snapshot),
        blocked=(*_blocked(before.decision, after.decision), *_deferred(before.decision, after.decision)),
        unmet=UnmetEffect(before=before.unmet, after=after.unmet),
        cost_per_hour_before=before.decision.cost_per_hour.after,
        cost_per_hour_after=after.decision.cost_per_hour.after,
        removed=_removed(state, config),
    )


def _summaries(drains: Iterable[Drain]) -> tuple[DrainSummary, ...]:
    return tuple(map(DrainSummary.of, drains))


def _launches(before: Decision, after: Decision) -> tuple[LaunchEffect, ...]:
    old, new = before.launched(), after.launched()
    names = [name for name in sorted({*old, *new}) if old.get(name, 0) != new.get(name, 0)]
    return tuple(LaunchEffect(group=name, before=old.get(name, 0), after=new.get(name, 0)) for name in names)


def _cancelled(before: _Decided, after: _Decided) -> tuple[DrainSummary, ...]:
    """Drains under way that only the wanted configuration cancels, at once or by its first decision."""
    found = []
    for piece in before.state.draining:
        ends = after.state.by_id[piece.id].drain is None or piece.id in after.cancelled
        if ends and piece.id not in before.cancelled:
            found.append(_drain_of(piece))
    return tuple(found)


def _drain_of(piece: Slice) -> DrainSummary:
    terms = piece.drain or DrainTerms(cause="")
    return DrainSummary(slice=piece.id, group=piece.group, cause=terms.cause, detail=terms.detail)


def _blocked(before: Decision, after: Decision) -> tuple[BlockEffect, ...]:
    """Groups that could add slices, or are new, and could add none."""
    free = {group.name for group in before.groups if group.availability is Availability.AVAILABLE}
    known = {group.name for group in before.groups}
    return tuple(
        BlockEffect(group=group.name, reason=f"{group.availability}{f': {group.reason}' if group.reason else ''}")
        for group in after.groups
        if group.availability is not Availability.AVAILABLE and (group.name in free or group.name not in known)
    )


def _deferred(before: Decision, after: Decision) -> tuple[BlockEffect, ...]:
    """Groups of which a launch limit would defer more slices."""
    old: Counter[tuple[str, str]] = Counter()
    for item in before.deferred:
        old[item.group, item.limit] += item.slices
    return tuple(
        BlockEffect(group=item.group, reason=f"{item.slices} deferred: {item.message}")
        for item in after.deferred
        if item.slices > old[item.group, item.limit]
    )


def _removed(state: AutoscalerState, config: ClusterConfig) -> dict[str, int]:
    """Slices of groups that only the present configuration has, by group."""
    configured = {group.name for group in state.config.groups} if state.config else set[str]()
    counts = Counter(piece.group for piece in state.slices if piece.group in configured and config.group(piece.group) is None)
    return dict(sorted(counts.items()))
