"""Reasons to keep a slice that its group can spare: one predicate, which says why, and until when."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from penstock.core.decision.floors import StandingResult
from penstock.core.decision.plan import Plan
from penstock.core.decision.protections import held_after_stockout
from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Code, KeptCode, Tier
from penstock.model.runs import FaultCode
from penstock.model.shape import Shape
from penstock.model.slices import Slice, SliceState, StandingRequest


class Keep(NamedTuple):
    """Why a slice is kept, and until when, if time alone ends that."""

    code: KeptCode
    until: datetime | None = None


class Keeping:
    """Says of the slices that groups can spare what keeps them. The first reason that holds is told.

    Another reason is another rule: a method that takes a slice and the number of its group. What it keeps takes nobody's place:
    the next slice of the group may go instead.
    """

    def __init__(
        self, plan: Plan, standing: StandingResult, *, lapsed: Collection[str], held_for_gangs: Mapping[str, datetime]
    ) -> None:
        """`lapsed` are sources of demand that keep no slice; `held_for_gangs` says until when slices are held, by slice id."""
        self.kept: list[tuple[Slice, Keep]] = []
        self.moments: list[datetime] = []
        """When time alone ends what keeps some slice, or begins to keep one."""
        self._plan, self._standing, self._snapshot = plan, standing, plan.fleet.snapshot
        self._lapsed = lapsed
        self._held_for_gangs = held_for_gangs
        self._stalled = {piece.id for piece, _ in plan.fleet.stalled}
        self._rules = (
            self._protected,
            self._head,
            self._resync,
            self._untried,
            self._queued,
            self._gang,
            self._stockout,
            self._stale,
        )

    def keeps(self, piece: Slice, g: int) -> bool:
        """Whether a slice of a group stays though the group can spare it; notes why.

        Demand and usage keep no slice of a group that pressure drives.
        """
        rules = (self._protected, self._head, self._queued) if g in self._plan.wanted else self._rules
        keep = next((keep for rule in rules if (keep := rule(piece, g)) is not None), None)
        if keep is None:
            return False
        self.kept.append((piece, keep))
        self.moments += [] if keep.until is None else [keep.until]
        return True

    def _group(self, g: int) -> ScaleGroup:
        return self._plan.fleet.groups[g]

    def _protected(self, piece: Slice, _g: int) -> Keep | None:
        """An operator keeps it, or its controller asked not to disturb what runs there."""
        if piece.id not in self._plan.fleet.protected:
            return None
        kept = piece.kept_until is not None and piece.kept_until > self._snapshot.now
        return Keep(KeptCode.PROTECTED, piece.kept_until) if kept else Keep(KeptCode.DO_NOT_DISRUPT)

    def _head(self, piece: Slice, g: int) -> Keep | None:
        """The oldest READY slice, if the group protects it, as one that pressure drives always does, and needs any."""
        protects = (self._group(g).protect_first or g in self._plan.wanted) and self._plan.target[g] > 0
        return Keep(KeptCode.HEAD) if protects and piece.id == self._plan.fleet.head(g) else None

    def _resync(self, _piece: Slice, _g: int) -> Keep | None:
        """Demand was lost: what it needs is not known, in any group, until it is sent again or its lease lapses."""
        return self._lost_demand

    @cached_property
    def _lost_demand(self) -> Keep | None:
        now = self._snapshot.now
        ends = [terms.lease_ends for terms in self._snapshot.sources.values() if terms.resync is not None]
        left = [end for end in ends if end is None or end > now]
        if not left:
            return None
        known = [end for end in left if end is not None]
        return Keep(KeptCode.RESYNC, max(known) if len(known) == len(left) else None)

    def _untried(self, _piece: Slice, g: int) -> Keep | None:
        """Demand or a standing request that may need the group was not tried, or is not known to need it yet."""
        return Keep(KeptCode.UNTRIED) if self._untried_groups >> g & 1 else None

    @cached_property
    def _untried_groups(self) -> int:
        workload, outcomes = self._snapshot.workload, self._standing.outcomes
        runs = [run for run in workload.runs if run.fault is not None and run.fault.code is FaultCode.NO_CAPACITY]
        runs += [workload.runs[number] for number in self._plan.untried]
        shapes = {run.shape for run in runs if run.source not in self._lapsed}
        owners = {outcome.owner for outcome in outcomes if outcome.code is Code.EFFORT_SPENT}
        wanted = chain(_wanted_by(self._snapshot.standing, owners), _wanted_by(self._snapshot.standing_in_doubt))
        return self._candidates(chain((workload.shapes[s] for s in shapes), wanted))

    def _queued(self, piece: Slice, g: int) -> Keep | None:
        """A slice in a cloud's queue, where it may have waited for days, and one that the cloud is slow to create."""
        if not piece.state.in_flight:
            return None
        if piece.queued and self._group(g).keep_queued:
            return Keep(KeptCode.QUEUED)
        waits = piece.queued or piece.id in self._stalled
        return Keep(KeptCode.QUEUED) if waits and self._wanted_groups >> g & 1 else None

    @cached_property
    def _wanted_groups(self) -> int:
        """Groups that could take demand or standing requests which are unmet, or met on slices that are not READY, as bits."""
        plan, workload = self._plan, self._snapshot.workload
        waiting = chain(
            (number for number, _, _ in chain(plan.unplaced, plan.held_unplaced)),
            (each.run for each in plan.assignments if each.tier is not Tier.READY),
        )
        shapes = {run.shape for number in waiting if (run := workload.runs[number]).source not in self._lapsed}
        refused = {outcome.owner for outcome in self._standing.outcomes if not outcome.met}
        groups = self._candidates(chain((workload.shapes[s] for s in shapes), _wanted_by(self._snapshot.standing, refused)))
        for g, slices in enumerate(self._standing.slices):
            groups |= (slices > plan.fleet.counts[g].ready) << g
        return groups

    def _candidates(self, shapes: Iterator[Shape]) -> int:
        """Groups that could take any of the shapes, as bits."""
        groups = 0
        for shape in shapes:
            groups |= self._plan.fleet.matcher.candidates(shape).bits
        return groups

    def _gang(self, piece: Slice, _g: int) -> Keep | None:
        """A gang that waits for further slices would use it."""
        until = self._held_for_gangs.get(piece.id)
        return None if until is None else Keep(KeptCode.GANG, until)

    def _stockout(self, piece: Slice, g: int) -> Keep | None:
        """Its group was out of stock, so an idle slice is hard to get back."""
        until = held_after_stockout(self._snapshot, self._group(g)) if piece.state is SliceState.READY else None
        return None if until is None else Keep(KeptCode.STOCKOUT, until)

    def _stale(self, piece: Slice, g: int) -> Keep | None:
        """Some source of the word on its idleness is silent for too long, or will be once the slice is idle for long enough."""
        stale_at = self._snapshot.stale_at.get(piece.id)
        if stale_at is None or piece.idle_since is None:
            return None
        due = piece.idle_since + timedelta(seconds=self._group(g).idle_timeout_seconds)
        if max(self._snapshot.now, due) >= stale_at:
            return Keep(KeptCode.STALE)
        self.moments.append(stale_at)
        return None


def _wanted_by(requests: Iterable[StandingRequest], owners: Collection[str] | None = None) -> Iterator[Shape]:
    """The items of standing requests, of these owners only if any are given."""
    return (item.alone() for request in requests if owners is None or request.owner in owners for item in request.wants)
