"""Give slices back: the drains that a finished plan orders, and the slices on their way that it does not need."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from penstock.core.decision.consolidation import consolidations
from penstock.core.decision.floors import StandingResult
from penstock.core.decision.held_for_gangs import held_for_gangs
from penstock.core.decision.holds import Holds
from penstock.core.decision.keeps import Keeping
from penstock.core.decision.plan import Plan
from penstock.core.decision.pressure import victims
from penstock.core.decision.surplus import surpluses
from penstock.model.decision import Drain, Withheld
from penstock.model.left_behind import LeftBehind
from penstock.model.slices import DrainCause, Slice, SliceState

MOST_DRAINS = 500
"""Drains that one decision orders. Each is a signal, of which a run may have 2,000 under way; the next decision goes on."""


class GiveBack(NamedTuple):
    """Slices to drain; slices on their way that nothing needs; and when the next drain is due, if nothing else changes.

    `outgrown` are slices whose drains for consolidation are cancelled, because their work fits nowhere any more; `withheld` are
    slices that could go and that something keeps; `waiting_since` says since when gangs wait, by shape.
    """

    drains: tuple[Drain, ...]
    unneeded: tuple[str, ...]
    outgrown: tuple[str, ...]
    next_at: datetime | None
    withheld: tuple[Withheld, ...]
    waiting_since: dict[str, datetime]


def give_back(plan: Plan, standing: StandingResult, holds: Holds, replacing: dict[str, Withheld]) -> GiveBack:
    """What the plan leaves over, unless something keeps it, and what drains to be replaced.

    `replacing` says what slices wait for that are to be replaced.
    """
    snapshot, replacements = plan.fleet.snapshot, plan.fleet.replacements
    due = _Due(snapshot.now)
    for drain in replacements.drains.values():
        due.replace(drain)
    for piece in plan.fleet.given_up:
        due.call_off(piece, DrainCause.UNCLAIMED, force=True)
    for piece in plan.fleet.excess:
        due.call_off(piece, DrainCause.ABOVE_MAXIMUM)
    unused = surpluses(plan)
    gangs = held_for_gangs(plan, unused, lapsed=holds.lapsed)
    keeping = Keeping(plan, standing, lapsed=holds.lapsed, held_for_gangs=gangs.until)
    for surplus in unused:
        group, spared = surplus.group, surplus.spared(keeping.keeps)
        for piece in spared.on_their_way:
            due.call_off_later(piece, group.cancel_after_seconds)
        if surplus.g in plan.wanted:
            for piece in victims(plan.fleet, surplus.g, spared.most, keeping.keeps):
                due.call_off(piece, DrainCause.PRESSURE)
            continue
        for piece in spared.idle:
            due.drain_idle(piece, group.idle_timeout_seconds, price=group.price, cause=DrainCause.IDLE)
    _judge_removed_groups(plan, due)
    consolidated = _consolidate(plan, standing, due)
    drains = due.drains()
    moments = [*due.moments, *keeping.moments]
    kept = {piece.id: Withheld(piece.id, keep.code, keep.until) for piece, keep in keeping.kept} | replacing
    going = {drain.slice_id for drain in drains}
    if len(drains) > MOST_DRAINS or replacing != replacements.waiting:  # Others may use what was counted for these.
        moments.append(snapshot.now + timedelta(seconds=snapshot.config.evaluation.interval_seconds))
    return GiveBack(
        drains=drains[:MOST_DRAINS],
        unneeded=tuple(due.unneeded),
        outgrown=consolidated,
        next_at=min(moments, default=None),
        withheld=tuple(each for slice_id, each in kept.items() if slice_id not in going),
        waiting_since=gangs.waiting_since,
    )


def _consolidate(plan: Plan, standing: StandingResult, due: "_Due") -> tuple[str, ...]:
    """Empty slices whose work fits elsewhere, with what is left of the budget; returns those whose drains are cancelled."""
    fleet, replacements = plan.fleet, plan.fleet.replacements
    if fleet.snapshot.config.consolidation is None:
        return ()
    budget = replacements.budget
    leaving = {*due.slice_ids, *replacements.waiting, *replacements.reserved}
    most_of = {group.name: budget.left(g) for g, group in enumerate(fleet.groups)}
    found = consolidations(plan, standing, leaving=leaving, most=budget.cluster_left, most_of=most_of)
    for move in found.moves:
        piece = move.piece
        drain = Drain(
            slice_id=piece.id,
            group=piece.group,
            cause=DrainCause.CONSOLIDATION,
            detail=move.detail,
            receivers=move.receivers,
        )
        due.replace(drain)
    due.moments += [] if found.next_at is None else [found.next_at]
    due.moments += [edge for g in range(len(fleet.groups)) for edge in budget.edges(g)]
    return tuple(piece.id for piece in found.outgrown)


class _Due:
    """Drains that are due now, each slice once, and the moments at which others will be."""

    def __init__(self, now: datetime) -> None:
        self.unneeded: list[str] = []
        self.moments: list[datetime] = []
        self._now = now
        self._at_once: dict[str, Drain] = {}
        self._idle: list[tuple[datetime, float, str, Drain]] = []

    @property
    def slice_ids(self) -> Iterator[str]:
        """The slices that drain."""
        return chain(self._at_once, (slice_id for _, _, slice_id, _ in self._idle))

    def replace(self, drain: Drain) -> None:
        """Drain at once, because other slices take its place or the cloud takes the slice."""
        self._at_once.setdefault(drain.slice_id, drain)

    def call_off(self, piece: Slice, cause: DrainCause, *, force: bool = False) -> None:
        """Drain at once."""
        drain = Drain(slice_id=piece.id, group=piece.group, cause=cause, force=force, idle_since=piece.idle_since)
        self._at_once.setdefault(piece.id, drain)

    def call_off_later(self, piece: Slice, seconds: float) -> None:
        """Call a slice off that is on its way, once nothing has needed it for so long."""
        self.unneeded.append(piece.id)
        if self._is_over(piece.unneeded_since or self._now, seconds):
            self.call_off(piece, DrainCause.NOT_NEEDED)

    def drain_idle(self, piece: Slice, seconds: float, *, price: float, cause: DrainCause) -> None:
        """Drain an idle slice, once it has been idle for so long."""
        assert piece.idle_since is not None
        if self._is_over(piece.idle_since, seconds) and piece.id not in self._at_once:
            drain = Drain(slice_id=piece.id, group=piece.group, cause=cause, idle_since=piece.idle_since)
            self._idle.append((piece.idle_since, -price, piece.id, drain))

    def _is_over(self, since: datetime, seconds: float) -> bool:
        end = since + timedelta(seconds=seconds)
        if end > self._now:
            self.moments.append(end)
        return end <= self._now

    def drains(self) -> tuple[Drain, ...]:
        """Those that wait for nothing first; then the longest idle first, and of equals the dearer."""
        return (*self._at_once.values(), *(drain for *_, drain in sorted(self._idle, key=itemgetter(0, 1, 2))))


def _judge_removed_groups(plan: Plan, due: _Due) -> None:
    """Slices of groups that are not configured any more: nothing needs them, and nothing that runs on them is stopped."""
    snapshot = plan.fleet.snapshot
    for piece in snapshot.slices:
        if piece.group in plan.fleet.number or piece.drain is not None or piece.id in plan.fleet.protected:
            continue
        left = piece.left or LeftBehind()
        if piece.state.in_flight and not (piece.queued and left.keep_queued):
            due.call_off_later(piece, left.cancel_after_seconds)
        elif piece.state is SliceState.READY and piece.idle_since is not None:
            end = piece.idle_since + timedelta(seconds=left.idle_timeout_seconds)
            stale_at = snapshot.stale_at.get(piece.id)
            if stale_at is None or max(snapshot.now, end) < stale_at:
                due.moments += [] if stale_at is None else [stale_at]
                price = left.price_per_hour or 0.0
                due.drain_idle(piece, left.idle_timeout_seconds, price=price, cause=DrainCause.GROUP_REMOVED)
