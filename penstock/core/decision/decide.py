"""`decide`: one snapshot in, one decision out."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.effort import SHAPE_STEPS, Effort
from penstock.core.decision.filling import place_by_filling
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.floors import (
    SPARES,
    StandingResult,
    measure_standing,
    open_desired,
    open_minimum,
    open_spares,
    open_standing,
)
from penstock.core.decision.give_back import GiveBack, give_back
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.holds import Holds, place_held
from penstock.core.decision.limits import LaunchSplit, apply_launch_limits
from penstock.core.decision.outcome import describe_groups, describe_pools, hourly_cost
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.pressure import wanted_slices
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.core.decision.strategies import Strategy, strategies
from penstock.core.decision.take_back import busy_slices_taken_back, reclaimed, without_drains
from penstock.model.cluster import Placement
from penstock.model.decision import Cause, Code, Decision, KeptCode, Placed, Span, Unmet, Withheld
from penstock.model.gc_pause import gc_paused
from penstock.model.shape import GangPlacement, Shape
from penstock.model.slices import Slice
from penstock.model.snapshot import Snapshot

UNTRIED = "the evaluation did as much work as one may do before it came to this entry; send fewer distinct shapes or gangs"
"""The message of entries that were not tried."""
OPENED_AFTER_STANDING = (Cause.DEMAND, *SPARES)
"""Causes of slices that are opened after standing requests were measured."""


@gc_paused
def decide(snapshot: Snapshot, effort: Effort | None = None) -> Decision:
    """Place the demand, plan every group, and give the reasons. The same snapshot always gives the same decision.

    `effort` bounds the work, and stops it by raising `GivenUp` when nobody waits for the decision any more.
    """
    planner, busy = _planner_of(snapshot, effort)
    plan, standing = planner.plan()
    unreplaced = _order_replacements(plan)
    units, cancelled = reclaimed(plan)
    split = apply_launch_limits(plan, units)
    giving_back = give_back(plan, standing, planner.holds, unreplaced)
    unmet = _explain_unmet(plan, planner.reasons, planner.holds)
    groups = describe_groups(plan, split, unmet)
    return Decision.model_construct(
        now=snapshot.now,
        placement=snapshot.config.placement,
        placed=tuple(
            Placed(Span(run, first, count), plan.fleet.groups[g].name, tier, opened)
            for run, first, count, g, tier, opened in plan.assignments
        ),
        unmet=unmet,
        launches=split.launches,
        deferred=split.deferred,
        drains=giving_back.drains,
        cancelled_drains=tuple(dict.fromkeys((*busy, *cancelled, *giving_back.outgrown))),
        unneeded=giving_back.unneeded,
        desired={plan.fleet.groups[g].name: each.desired for g, each in plan.wanted.items() if each.desired is not None},
        withheld=giving_back.withheld,
        holding=plan.holding(),
        standing_slices={group.name: slices for group, slices in zip(plan.fleet.groups, standing.slices, strict=True) if slices},
        waiting_since=giving_back.waiting_since,
        groups=groups,
        pools=describe_pools(plan, groups),
        standing=standing.outcomes,
        cost_per_hour=hourly_cost(plan, split),
        next_change_at=_next_change(plan, split, planner.holds, giving_back),
        thorough=planner.thorough and not planner.fleet.effort.was_short,
    )


class PlanFigures(NamedTuple):
    """What a plan leaves unplaced, without reasons: runs with the first entry and the number.

    `tried` is the most slices of each group that any plan compared with it would open: with more headroom, none would differ.
    """

    unplaced: list[tuple[int, int, int]]
    tried: dict[str, int]


@gc_paused
def plan_figures(snapshot: Snapshot, effort: Effort | None = None) -> PlanFigures:
    """The figures of the plan that `decide` makes, at about half the cost of the decision; `effort` counts it."""
    planner, _ = _planner_of(snapshot, effort)
    plan = planner.plan().plan
    return PlanFigures(plan.unplaced, {group.name: planner.tried[g] for g, group in enumerate(plan.fleet.groups)})


def _planner_of(snapshot: Snapshot, effort: Effort | None) -> tuple["_Planner", tuple[str, ...]]:
    """A planner, and the slices that the minimum or standing requests take back though work runs on them."""
    planner = _Planner(Fleet(snapshot, effort))
    busy = planner.busy_slices_taken_back()
    if busy:
        planner = _Planner(Fleet(without_drains(snapshot, busy), planner.fleet.effort))
    return planner, busy


class _Planned(NamedTuple):
    plan: Plan
    standing: StandingResult

    @property
    def unplaced(self) -> int:
        """Entries that no group takes."""
        return sum(count for _, _, count in self.plan.unplaced)

    @property
    def refused(self) -> int:
        """Standing requests that are not met."""
        return sum(not outcome.met for outcome in self.standing.outcomes)


class _Planner:
    """Makes plans for one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        snapshot = fleet.snapshot
        self.fleet = fleet
        self.config = snapshot.config
        self.holds = Holds(snapshot)
        self._wanted = wanted_slices(fleet)
        self.reasons = Reasons(fleet)
        self.thorough = True
        """Whether every plan compared all groups for every slice that it bought."""
        self.tried = [0] * len(fleet.groups)
        """The most slices of each group that any plan would open."""
        self._workload = snapshot.workload
        self._buying = self.holds.buying
        self._sources = [run.source for run in snapshot.workload.runs] if snapshot.sources else []
        self._standing: tuple[Sequence[Unit], StandingResult] | None = None
        self._floor = smallest([shape.need for shape in snapshot.workload.shapes])
        self._cursors = ShapeCursors(snapshot.workload.shapes, fleet.matcher, conserve=self.config.conserve_accelerators)

    def busy_slices_taken_back(self) -> tuple[str, ...]:
        """Busy slices whose drains are cancelled, where the minimum or standing requests would launch slices instead."""
        if not any(self.fleet.busy_drains):
            return ()
        plan = self._begun((), self.fleet.reclaimable_counts(busy=True))
        open_standing(plan, measure_standing(plan, self.reasons))
        return busy_slices_taken_back(plan)

    def plan(self) -> _Planned:
        """A plan that the next evaluation would not extend.

        The next evaluation sees slices opened late in this one as in flight from its start, so first-fit may then meet a gang
        or a standing request that it cannot meet now. So plan again with those slices opened first, until nothing changes.
        """
        opened: Sequence[Unit] = ()
        found = self._plan_after(opened)
        while self._may_gain(found, len(opened)) and not self.fleet.effort.is_short():
            opened = found.plan.units
            further = self._plan_after(opened)
            if len(further.plan.units) == len(opened) and (further.unplaced, further.refused) == (found.unplaced, found.refused):
                break
            found = further
        place_held(found.plan, self.holds, self.fleet.ready_hosts_by_ref(found.plan.ready_slices))
        return found

    def _plan_after(self, opened: Sequence[Unit]) -> _Planned:
        """The best plan once these units are ordered. `priority` has one plan; the others try several."""
        placement = self.config.placement
        if placement is Placement.PRIORITY:
            tried = [self._place(opened, None)]
        else:
            cursors, conserve = self._cursors.everywhere(), self.config.conserve_accelerators
            effort = self.fleet.effort
            tried = []
            for strategy in strategies(placement, cursors, self.fleet.matcher, effort, conserve=conserve):
                if not tried or not effort.is_short():
                    tried.append(self._place(opened, strategy))
        found = min(tried, key=lambda planned: planned.plan.price(by_cost=placement is Placement.COST))
        found.plan.expect_moved_work()
        open_spares(found.plan, found.standing.slices, keep_bins=bool(self.holds))
        for each in tried:
            self.tried = list(map(max, self.tried, each.plan.headroom.most_charged))
        return found

    def _place(self, opened: Sequence[Unit], strategy: Strategy | None) -> _Planned:
        fleet, runs = self.fleet, self._buying
        fleet.effort.spend(SHAPE_STEPS * len(self._workload.shapes))
        plan = self._begun(opened, fleet.reclaimable_counts())
        standing = self._measured_standing(plan, opened)
        open_standing(plan, standing)
        hosts = fleet.ready_hosts_by_ref(plan.ready_slices)
        if strategy is None:
            place_by_priority(plan, self._cursors, runs, hosts)
        else:
            place_by_filling(plan, runs, hosts, strategy, keep_bins=bool(self.holds))
            self.thorough = self.thorough and not plan.beyond_effort
        return _Planned(plan, standing)

    def _begun(self, opened: Sequence[Unit], reclaimable: Sequence[int]) -> Plan:
        """A plan with the existing slices, these units, the minimum, and what reports of pressure want."""
        fleet = self.fleet
        counts = [counts.total for counts in fleet.counts]
        headroom = Headroom(fleet.snapshot, fleet.groups, counts, reclaimable, serving=fleet.serving)
        plan = Plan(fleet, headroom, self._floor)
        plan.sources, plan.wanted = self._sources, self._wanted
        plan.ready_slices = fleet.ready_bins()
        plan.add_ready(slice_bin for _, slice_bin in plan.ready_slices)
        arriving = fleet.in_flight_bins()
        plan.arriving_slices = list(zip(fleet.arriving(), arriving, strict=True))
        plan.add_in_flight(arriving, opened=False)
        for unit in opened:
            plan.open(unit.parts, unit.times, unit.cause, unit.source)
        open_minimum(plan)
        open_desired(plan)
        return plan

    def _measured_standing(self, plan: Plan, opened: Sequence[Unit]) -> StandingResult:
        """Standing requests after these units are ordered: the same for every strategy, so measured once."""
        if self._standing is None or self._standing[0] is not opened:
            self._standing = (opened, measure_standing(plan, self.reasons))
        return self._standing[1]

    def _may_gain(self, planned: _Planned, before: int) -> bool:
        """Whether a unit opened late, after the first `before` units, is of a group that unmet demand could use."""
        unmet = self._unmet_across_groups(planned)
        late = (
            {g for unit in planned.plan.units[before:] if unit.cause in OPENED_AFTER_STANDING for g, _ in unit.parts}
            if unmet
            else set()
        )
        opened = sum(1 << g for g in late)
        return any(opened & self.fleet.matcher.candidates(shape).bits for shape in unmet)

    def _unmet_across_groups(self, planned: _Planned) -> list[Shape]:
        """Unmet gangs that combine slices of several groups, and the shapes of refused standing requests.

        Others cannot gain: single tasks and whole-slice gangs use slices of one group, and for them it makes no difference
        whether a slice was opened early or late.
        """
        shapes, runs = self._workload.shapes, self._workload.runs
        unplaced = [shapes[s] for s in dict.fromkeys(runs[number].shape for number, _, _ in planned.plan.unplaced)]
        gangs = [shape for shape in unplaced if shape.gang and shape.gang.placement is not GangPlacement.WHOLE_SLICES]
        refused = {outcome.owner for outcome in planned.standing.outcomes if not outcome.met}
        items = [item for request in self.fleet.snapshot.standing if request.owner in refused for item in request.wants]
        return [*gangs, *(item.alone() for item in items)]


def _order_replacements(plan: Plan) -> dict[str, Withheld]:
    """Order what replaces slices, once demand is placed; returns the slices whose groups have no headroom left for that.

    A group that has more slices than reports of pressure want replaces none: it gives slices back first.
    """
    counts, target = plan.fleet.counts, plan.target
    too_many = {g for g in plan.wanted if counts[g].ready + counts[g].in_flight > target[g]}
    orders = plan.fleet.replacements.orders
    refused = (piece for piece, g, cause in orders if g in too_many or not plan.replace(piece, g, cause))
    return {piece.id: Withheld(piece.id, KeptCode.NO_REPLACEMENT) for piece in refused}


def _explain_unmet(plan: Plan, reasons: Reasons, holds: Holds) -> tuple[Unmet, ...]:
    """Unplaced entries with their reasons, one item per shape, fault or source that is held, in order of arrival."""
    workload = plan.fleet.snapshot.workload
    idle = plan.unneeded()
    spans: dict[object, list[Span]] = {}
    for number, first, count in plan.unplaced:
        shape = workload.runs[number].shape
        spans.setdefault(("untried", shape) if number in plan.untried else shape, []).append(Span(number, first, count))
    for number, run in enumerate(workload.runs):
        if run.fault is not None:
            spans.setdefault(("fault", number), []).append(Span(number, 0, run.entries))
    for number, first, count in plan.held_unplaced:
        run = workload.runs[number]
        spans.setdefault(("held", run.source, run.shape), []).append(Span(number, first, count))
    found = []
    for where in spans.values():
        code, message, groups = _reason(plan, reasons, holds, where, idle)
        shape = workload.runs[where[0].run].shape
        found.append(Unmet.model_construct(shape=shape, spans=tuple(where), code=code, message=message, groups=groups))
    return tuple(sorted(found, key=lambda unmet: unmet.spans[0]))


def _reason(
    plan: Plan, reasons: Reasons, holds: Holds, where: Sequence[Span], idle: Sequence[Slice]
) -> tuple[Code, str, dict[str, Code]]:
    """Why entries of one shape are unmet: code, message, and the code of each group."""
    workload, number = plan.fleet.snapshot.workload, where[0].run
    run = workload.runs[number]
    if run.fault is not None:
        return Code(run.fault.code), run.fault.message, {}
    if number in plan.untried:
        return Code.EFFORT_SPENT, UNTRIED, {}
    pending = min(workload.runs[span.run].pending for span in where)
    code, message, groups = reasons.why(workload.shapes[run.shape], plan.headroom, idle, pending=pending)
    hold = holds.of(run)
    if hold is not None and groups and code in (Code.NO_CAPACITY, Code.TIER_BLOCKED):
        return Code.NO_CAPACITY, f"no existing slice has room for it, and {hold.message}", {}
    return code, message, groups


def _next_change(plan: Plan, split: LaunchSplit, holds: Holds, giving_back: GiveBack) -> datetime | None:
    """The next moment at which time alone changes the decision, once this one is carried out."""
    fleet, snapshot = plan.fleet, plan.fleet.snapshot
    moments = list(plan.headroom.block_ends)
    moments += [request.expires for request in snapshot.standing if request.expires and request.expires > snapshot.now]
    moments += [*fleet.deadlines, *holds.ends]
    launching = {launch.group for launch in split.launches}
    patience = [snapshot.config.patience_of(group) for group in fleet.groups if group.name in launching]
    moments += [snapshot.now + timedelta(seconds=seconds) for seconds in patience]
    changes = [split.retry_at, giving_back.next_at, *(wanted.next_at for wanted in plan.wanted.values())]
    moments += [moment for moment in changes if moment is not None]
    return min(moments, default=None)
