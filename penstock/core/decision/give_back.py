"""Give slices back: the drains that a finished plan cancels or orders, and the slices on their way that it does not need."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from penstock.core.decision.fleet import longest_idle
from penstock.core.decision.plan import Plan, Unit
from penstock.model.cluster import DEFAULT_CANCEL_SECONDS, DEFAULT_IDLE_SECONDS
from penstock.model.decision import Drain, Tier
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.model.snapshot import Snapshot

MOST_DRAINS = 500
"""Drains that one decision orders. Each is a signal, of which a run may have 2,000 under way; the next decision goes on."""


class GiveBack(NamedTuple):
    """Slices to drain; slices on their way that nothing needs; and when the next drain is due, if nothing else changes."""

    drains: tuple[Drain, ...]
    unneeded: tuple[str, ...]
    next_at: datetime | None


def reclaimed(plan: Plan) -> tuple[Sequence[Unit], tuple[str, ...]]:
    """The units that are left to launch, and the slices whose drains are cancelled instead, the newest drains first."""
    taken = [before - after for before, after in zip(plan.fleet.reclaimable_counts(), plan.headroom.reclaimable, strict=True)]
    slice_ids = tuple(piece.id for g, count in enumerate(taken) for piece in plan.fleet.reclaimable[g][:count])
    if not slice_ids:
        return plan.units, ()
    return [rest for unit in plan.units for rest in _without_reclaimed(unit, taken)], slice_ids


def _without_reclaimed(unit: Unit, left: list[int]) -> Iterator[Unit]:
    """The unit without the slices that are taken back; `left` counts them down by group."""
    times = unit.times
    while times and any(left[g] for g, _ in unit.parts):
        parts = []
        for g, slices in unit.parts:
            back = min(slices, left[g])
            left[g] -= back
            if slices > back:
                parts.append((g, slices - back))
        times -= 1
        if parts:
            yield Unit(tuple(parts), 1, unit.cause)
    if times:
        yield unit._replace(times=times)


def give_back(plan: Plan) -> GiveBack:
    """What the plan leaves over. A group that opens slices in this decision gives none back."""
    waiting = _groups_that_demand_waits_for(plan)
    surpluses = [_Surplus(plan, g, waiting=g in waiting) for g, opened in enumerate(plan.opened) if not opened]
    due = _Due(plan.fleet.snapshot)
    for piece in plan.fleet.given_up:
        due.call_off(piece, DrainCause.UNCLAIMED, force=True)
    for piece in chain.from_iterable(plan.fleet.excess):
        due.call_off(piece, DrainCause.ABOVE_MAXIMUM)
    for surplus in surpluses:
        surplus.judge(due)
    _judge_removed_groups(plan, due)
    return due.result(plan.fleet.snapshot.config.evaluation.interval_seconds)


class _Due:
    """Drains that are due now, and the moments at which others will be."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._stale_at = snapshot.stale_at
        self._at_once: list[Drain] = []
        self._idle: list[tuple[datetime, float, str, Drain]] = []
        self._unneeded: list[str] = []
        self._moments: list[datetime] = []

    def call_off(self, piece: Slice, cause: DrainCause, *, force: bool = False) -> None:
        """Drain at once."""
        self._at_once.append(Drain(slice_id=piece.id, group=piece.group, cause=cause, force=force))

    def call_off_later(self, piece: Slice, seconds: float) -> None:
        """Call a slice off that is on its way, once nothing has needed it for so long."""
        self._unneeded.append(piece.id)
        if self._is_over(piece.unneeded_since or self._now, seconds):
            self.call_off(piece, DrainCause.NOT_NEEDED)

    def drain_idle(self, piece: Slice, seconds: float, *, price: float, cause: DrainCause) -> None:
        """Drain an idle slice, once it has been idle for so long."""
        assert piece.idle_since is not None
        stale_at = self._stale_at.get(piece.id)
        if stale_at is not None and max(self._now, piece.idle_since + timedelta(seconds=seconds)) >= stale_at:
            return
        if stale_at is not None:
            self._moments.append(stale_at)
        if self._is_over(piece.idle_since, seconds):
            drain = Drain(slice_id=piece.id, group=piece.group, cause=cause, idle_since=piece.idle_since)
            self._idle.append((piece.idle_since, -price, piece.id, drain))

    def _is_over(self, since: datetime, seconds: float) -> bool:
        end = since + timedelta(seconds=seconds)
        if end > self._now:
            self._moments.append(end)
        return end <= self._now

    def result(self, interval_seconds: float) -> GiveBack:
        """The longest idle drain first, and of equals the dearer."""
        drains = (*self._at_once, *(drain for *_, drain in sorted(self._idle, key=itemgetter(0, 1, 2))))
        if len(drains) > MOST_DRAINS:
            self._moments.append(self._now + timedelta(seconds=interval_seconds))
        return GiveBack(drains[:MOST_DRAINS], tuple(self._unneeded), min(self._moments, default=None))


class _Surplus:
    """The slices of one group that the plan does not use, the first to go first."""

    def __init__(self, plan: Plan, g: int, *, waiting: bool) -> None:
        """`waiting` if demand that the group could take is unmet, or is placed on slices that are not READY."""
        fleet, counts = plan.fleet, plan.fleet.counts[g]
        self._group = fleet.groups[g]
        self._waiting = waiting
        self._target = plan.target[g]
        self._serving = counts.ready + counts.in_flight
        arriving = [(piece, each.used) for piece, each in plan.arriving_slices if each.group == g and not piece.returning]
        self._used = {piece.id for piece, used in arriving if used}
        self._stalled = [piece for piece, owner in fleet.stalled if owner == g]
        self._arriving = sorted((piece for piece, _ in reversed(arriving)), key=lambda piece: piece.started)
        """Slices in flight, those not started first, then the newest first."""
        ready = [(piece, each) for piece, each in plan.ready_slices if each.group == g and piece.state is SliceState.READY]
        head = fleet.head(g) if self._group.protect_first and self._target else None
        idle = (piece for piece, each in ready if piece.idle_since and not each.busy and not each.used and piece.id != head)
        self._idle = sorted(idle, key=longest_idle)
        """READY slices that usage shows idle and that hold no entry, the longest idle first, without a protected head."""

    def judge(self, due: _Due) -> None:
        """First what is not needed on its way, then what is idle."""
        spare = max(0, self._serving - self._target)
        free = (piece for piece in self._arriving if piece.id not in self._used and not self._keeps_its_place(piece))
        unneeded = list(islice(free, spare))
        stalled = [piece for piece in self._stalled if not self._keeps_its_place(piece)]
        for piece in (*unneeded, *stalled):
            due.call_off_later(piece, self._group.cancel_after_seconds)
        for piece in self._idle[: spare - len(unneeded)]:
            due.drain_idle(piece, self._group.idle_timeout_seconds, price=self._group.price, cause=DrainCause.IDLE)

    def _keeps_its_place(self, piece: Slice) -> bool:
        """Whether a slice in a cloud's queue stays there: it may have waited for days."""
        if piece.queued and self._group.keep_queued:
            return True
        return self._waiting and (piece.queued or piece in self._stalled)


def _judge_removed_groups(plan: Plan, due: _Due) -> None:
    """Slices of groups that are not configured any more: nothing needs them, and nothing that runs on them is stopped."""
    for piece in plan.fleet.snapshot.slices:
        if piece.group in plan.fleet.number or piece.drain is not None:
            continue
        if piece.state.in_flight:
            due.call_off_later(piece, DEFAULT_CANCEL_SECONDS)
        elif piece.state is SliceState.READY and piece.idle_since is not None:
            seconds = DEFAULT_IDLE_SECONDS if piece.left is None else piece.left.idle_timeout_seconds
            due.drain_idle(piece, seconds, price=0.0, cause=DrainCause.GROUP_REMOVED)


def _groups_that_demand_waits_for(plan: Plan) -> set[int]:
    """Groups that could take demand which is unmet, or placed on slices that are not READY."""
    runs, shapes = plan.fleet.snapshot.workload.runs, plan.fleet.snapshot.workload.shapes
    waiting = {runs[number].shape for number, _, _ in plan.unplaced}
    waiting |= {runs[each.run].shape for each in plan.assignments if each.tier is not Tier.READY}
    return {g for s in waiting for g in plan.fleet.matcher.candidates(shapes[s]).order}
