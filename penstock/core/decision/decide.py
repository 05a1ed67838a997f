"""`decide`: one snapshot in, one decision out."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.filling import place_by_filling
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.floors import SPARES, StandingResult, open_minimum, open_spares, open_standing
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.limits import LaunchSplit, apply_launch_limits
from penstock.core.decision.outcome import describe_groups, describe_pools, hourly_cost
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.core.decision.strategies import ROUNDED, Strategy, strategies
from penstock.model.cluster import Placement
from penstock.model.decision import Cause, Code, Decision, Placed, Span, Unmet
from penstock.model.gc_pause import gc_paused
from penstock.model.shape import GangPlacement, Shape
from penstock.model.snapshot import Snapshot

OPENED_AFTER_STANDING = (Cause.DEMAND, *SPARES)
"""Causes of slices that are opened after standing requests were measured."""


@gc_paused
def decide(snapshot: Snapshot) -> Decision:
    """Place the demand, plan every group, and give the reasons. The same snapshot always gives the same decision."""
    planner = _Planner(Fleet(snapshot))
    plan, standing = planner.plan()
    split = apply_launch_limits(plan)
    unmet = _explain_unmet(plan, planner.reasons)
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
        drains=(),
        groups=groups,
        pools=describe_pools(plan, groups),
        standing=standing.outcomes,
        cost_per_hour=hourly_cost(plan, split),
        next_change_at=_next_change(plan, split),
    )


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
        self.reasons = Reasons(fleet)
        self._workload = snapshot.workload
        self._floor = smallest([shape.need for shape in snapshot.workload.shapes])
        self._cursors = ShapeCursors(snapshot.workload.shapes, fleet.matcher, conserve=self.config.conserve_accelerators)

    def plan(self) -> _Planned:
        """A plan that the next evaluation would not extend.

        The next evaluation sees slices opened late in this one as in flight from its start, so first-fit may then meet a gang
        or a standing request that it cannot meet now. So plan again with those slices opened first, until nothing changes.
        """
        opened: Sequence[Unit] = ()
        found = self._plan_after(opened)
        while self._may_gain(found, len(opened)):
            opened = found.plan.units
            further = self._plan_after(opened)
            if len(further.plan.units) == len(opened) and (further.unplaced, further.refused) == (found.unplaced, found.refused):
                break
            found = further
        return found

    def _plan_after(self, opened: Sequence[Unit]) -> _Planned:
        """The best plan once these units are ordered. `priority` has one plan; `packing` and `cost` try every strategy."""
        placement = self.config.placement
        if placement is Placement.PRIORITY:
            found = self._place(opened, None)
        else:
            cursors, conserve = self._cursors.everywhere(), self.config.conserve_accelerators
            tried = [self._place(opened, each) for each in strategies(placement, cursors, self.fleet.groups, conserve=conserve)]
            found = min(tried, key=self._price)
        open_spares(found.plan, found.standing.slices)
        return found

    def _place(self, opened: Sequence[Unit], strategy: Strategy | None) -> _Planned:
        fleet, runs = self.fleet, self._workload.runs
        plan = Plan(fleet, Headroom(fleet.snapshot, fleet.groups, [counts.total for counts in fleet.counts]), self._floor)
        ready = fleet.ready_bins()
        plan.add_ready(slice_bin for _, slice_bin in ready)
        plan.add_in_flight(fleet.in_flight_bins(), opened=False)
        for unit in opened:
            plan.open(unit.parts, unit.times, unit.cause)
        open_minimum(plan)
        standing = open_standing(plan, self.reasons)
        hosts = fleet.ready_hosts_by_ref(ready)
        if strategy is None:
            place_by_priority(plan, self._cursors, runs, hosts)
        else:
            place_by_filling(plan, runs, hosts, strategy)
        return _Planned(plan, standing)

    def _price(self, planned: _Planned) -> tuple[int, float, int]:
        """How plans compare: entries left unplaced, then for `cost` the price of the opened slices, then their number."""
        plan = planned.plan
        cost = sum(count * group.price for count, group in zip(plan.opened, self.fleet.groups, strict=True))
        by_cost = self.config.placement is Placement.COST
        return (planned.unplaced, round(cost, ROUNDED) if by_cost else 0.0, sum(plan.opened))

    def _may_gain(self, planned: _Planned, before: int) -> bool:
        """Whether a unit opened late, after the first `before` units, is of a group that unmet demand could use."""
        unmet = self._unmet_across_groups(planned)
        late = (
            {g for unit in planned.plan.units[before:] if unit.cause in OPENED_AFTER_STANDING for g, _ in unit.parts}
            if unmet
            else set()
        )
        return any(not late.isdisjoint(self.fleet.matcher.candidates(shape).order) for shape in unmet)

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


def _explain_unmet(plan: Plan, reasons: Reasons) -> tuple[Unmet, ...]:
    """Unplaced entries with their reasons, one item per shape or fault, in order of arrival."""
    workload = plan.fleet.snapshot.workload
    spans: dict[object, list[Span]] = {}
    for number, first, count in plan.unplaced:
        spans.setdefault(workload.runs[number].shape, []).append(Span(number, first, count))
    for number, run in enumerate(workload.runs):
        if run.fault is not None:
            spans.setdefault(("fault", number), []).append(Span(number, 0, run.entries))
    found = []
    for key, where in spans.items():
        run = workload.runs[where[0].run]
        if isinstance(key, int):
            code, message, groups = reasons.why(workload.shapes[key], plan.headroom)
        else:
            assert run.fault is not None
            code, message, groups = Code(run.fault.code), run.fault.message, {}
        found.append(Unmet.model_construct(shape=run.shape, spans=tuple(where), code=code, message=message, groups=groups))
    return tuple(sorted(found, key=lambda unmet: unmet.spans[0]))


def _next_change(plan: Plan, split: LaunchSplit) -> datetime | None:
    """The next moment at which time alone changes the decision, once this one is carried out."""
    fleet, snapshot = plan.fleet, plan.fleet.snapshot
    moments = [block.until for block in plan.headroom.blocked if block and block.until]
    moments += [request.expires for request in snapshot.standing if request.expires and request.expires > snapshot.now]
    moments += fleet.deadlines
    launching = {launch.group for launch in split.launches}
    patience = [snapshot.config.patience_of(group) for group in fleet.groups if group.name in launching]
    moments += [snapshot.now + timedelta(seconds=seconds) for seconds in patience]
    if split.retry_at is not None:
        moments.append(split.retry_at)
    return min(moments, default=None)
