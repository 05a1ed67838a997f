"""Slices launched without waiting demand: group minimums, desired counts, standing requests, watermark and warm spares."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.effort import SHAPE_STEPS
from penstock.core.decision.filling import place_by_filling
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.core.decision.strategies import strategies
from penstock.model.cluster import Placement
from penstock.model.decision import Cause, Code, StandingOutcome
from penstock.model.runs import Run
from penstock.model.shape import Shape
from penstock.model.slices import StandingRequest

FLOORS = (Cause.MINIMUM, Cause.STANDING, Cause.PRESSURE)
"""Causes of slices that are opened before demand is placed."""
SPARES = (Cause.WATERMARK, Cause.WARM)
"""Causes of slices that are opened ahead of demand."""
STANDING_STEPS = 15_000_000
"""Steps that standing requests may take of an evaluation's effort. Those that are left are not met."""
UNTRIED = "not tried: other standing requests took all the work that an evaluation does for them; ask for fewer distinct items"
"""The message of a standing request that was not tried."""


def open_minimum(plan: Plan) -> None:
    """Bring every group up to its minimum. Stalled slices count, because they are already ordered."""
    for g, group in enumerate(plan.fleet.groups):
        counts = plan.fleet.counts[g]
        missing = group.min_slices - counts.ready - counts.in_flight - counts.stalled - plan.opened[g]
        slices = min(missing, plan.headroom.of(g))
        if slices > 0:
            plan.open(((g, 1),), slices, Cause.MINIMUM)


def open_desired(plan: Plan) -> None:
    """Bring every group that reports of pressure drive up to what they want. Stalled slices count here, too."""
    for g, wanted in plan.wanted.items():
        counts = plan.fleet.counts[g]
        missing = wanted.slices - counts.ready - counts.in_flight - counts.stalled - plan.opened[g]
        slices = min(missing, plan.headroom.of(g))
        if slices > 0:
            plan.open(((g, 1),), slices, Cause.PRESSURE)


class StandingResult(NamedTuple):
    """The outcome of each standing request, how many slices of each group they need together, and the units they lack."""

    outcomes: tuple[StandingOutcome, ...]
    slices: list[int]
    units: list[Unit]


def measure_standing(plan: Plan, reasons: Reasons) -> StandingResult:
    """Measure standing requests on all capacity, busy or idle, by the cluster's placement. Each is met whole or not at all.

    All are tried together first, as the next evaluation will try them. If that fails, `packing` and `cost` go on one after the
    other, because they may place fewer requests where they cannot place more; `priority` tries half as many together, and so on.
    """
    snapshot = plan.fleet.snapshot
    live = [request for request in snapshot.standing if request.expires is None or request.expires > snapshot.now]
    live.sort(key=lambda request: request.owner)
    trial = _StandingTrial(plan)
    outcomes: list[StandingOutcome] = []
    together = len(live)
    while left := live[len(outcomes) :]:
        together = min(together, len(left))
        if trial.is_spent:
            outcomes += [
                StandingOutcome(owner=request.owner, met=False, code=Code.EFFORT_SPENT, message=UNTRIED) for request in left
            ]
        elif together > 1 and trial.add_all(left[:together]):
            outcomes += [StandingOutcome(owner=request.owner, met=True) for request in left[:together]]
        elif together > 1 and snapshot.config.placement is Placement.PRIORITY:
            together //= 2
        else:
            outcomes.append(trial.add(left[0], reasons))
            together = 2 * together if outcomes[-1].met and snapshot.config.placement is Placement.PRIORITY else 1
    return StandingResult(tuple(outcomes), trial.used, trial.units)


def open_standing(plan: Plan, standing: StandingResult) -> None:
    """Open the slices that standing requests lack."""
    for unit in standing.units:
        plan.open(unit.parts, unit.times, Cause.STANDING)


class _StandingTrial:
    """Plans on the whole fleet as if nothing ran on it: the capacity that standing requests are measured on."""

    def __init__(self, plan: Plan) -> None:
        self._fleet = plan.fleet
        self._opened = [g for unit in plan.units for g, slices in unit.parts * unit.times for _ in range(slices)]
        self._headroom = plan.headroom
        self._config = plan.fleet.snapshot.config
        self._granted: list[tuple[Shape, int]] = []
        self.units: list[Unit] = []
        self.used = [0] * len(plan.fleet.groups)
        self._began = plan.fleet.effort.spent

    @property
    def is_spent(self) -> bool:
        """Whether standing requests have taken their part of the effort, so that the others are not tried."""
        return self._fleet.effort.spent - self._began >= STANDING_STEPS

    def add_all(self, requests: Sequence[StandingRequest]) -> bool:
        """Grant all requests if they can be placed together with those granted before them."""
        wanted = [(item.alone(), item.count) for request in requests for item in request.wants]
        trial = self._place([*self._granted, *wanted])
        if trial.unplaced:
            return False
        self._granted += wanted
        self.units, self.used = trial.units, trial.required
        return True

    def add(self, request: StandingRequest, reasons: Reasons) -> StandingOutcome:
        """Grant the request if all of it can be placed together with the requests granted before it."""
        wanted = [(item.alone(), item.count) for item in request.wants]
        trial = self._place([*self._granted, *wanted])
        if not trial.unplaced:
            self._granted += wanted
            self.units, self.used = trial.units, trial.required
            return StandingOutcome(owner=request.owner, met=True)
        own = [number for number, _, _ in trial.unplaced if number >= len(self._granted)]
        shape = wanted[own[0] - len(self._granted)][0] if own else wanted[0][0]
        reason = reasons.why(shape, trial.headroom, pending=shape.gang.size if shape.gang else 1)
        return StandingOutcome(owner=request.owner, met=False, code=reason.code, message=reason.message)

    def _place(self, wanted: Sequence[tuple[Shape, int]]) -> Plan:
        """The plan of the cluster's placement; for `packing` and `cost` the best of every strategy."""
        self._fleet.effort.spend(SHAPE_STEPS * len(wanted))
        shapes = [shape for shape, _ in wanted]
        runs = tuple(Run(s, count, shape.gang.size if shape.gang else 1) for s, (shape, count) in enumerate(wanted))
        placement, conserve = self._config.placement, self._config.conserve_accelerators
        cursors = ShapeCursors(shapes, self._fleet.matcher, conserve=conserve)
        if placement is Placement.PRIORITY:
            plan = self._whole_fleet(shapes)
            place_by_priority(plan, cursors, runs, {})
            return plan
        tried: list[Plan] = []
        for strategy in strategies(placement, cursors.everywhere(), self._fleet.matcher, self._fleet.effort, conserve=conserve):
            if tried and self.is_spent:
                break
            plan = self._whole_fleet(shapes)
            place_by_filling(plan, runs, {}, strategy)
            tried.append(plan)
        return min(tried, key=lambda plan: plan.price(by_cost=placement is Placement.COST))

    def _whole_fleet(self, shapes: Sequence[Shape]) -> Plan:
        plan = Plan(self._fleet, self._headroom.copy(), smallest([shape.need for shape in shapes]))
        ready, in_flight = self._fleet.whole_bins()
        plan.add_ready(ready)
        plan.add_in_flight(in_flight, opened=False)
        plan.add_in_flight(self._fleet.new_bin(g) for g in self._opened)
        return plan


def open_spares(plan: Plan, standing: Sequence[int], *, keep_bins: bool) -> None:
    """Add watermark and warm slices beyond the slices that demand keeps busy, and set every group's target.

    `keep_bins` if entries that buy nothing new may be placed on them.
    """
    add = plan.open if keep_bins else plan.charge
    for g, group in enumerate(plan.fleet.groups):
        counts = plan.fleet.counts[g]
        need = counts.busy + plan.required[g]
        plan.target[g] = target_of(plan, g, standing, need)
        if g in plan.wanted:
            continue
        watermark, warm = watermark_target(need, group.watermark), need + group.warm_slices
        have = counts.ready + counts.in_flight + plan.opened[g]
        for cause, target in ((Cause.WATERMARK, watermark), (Cause.WARM, warm)):
            slices = min(target - have - counts.stalled, plan.headroom.of(g))
            if slices > 0:
                add(((g, 1),), slices, cause)
                have += slices


def target_of(plan: Plan, g: int, standing: Sequence[int], need: int) -> int:
    """How many slices a group should have if work and demand need so many."""
    if g in plan.wanted:
        return plan.wanted[g].slices
    group = plan.fleet.groups[g]
    watermark, warm = watermark_target(need, group.watermark), need + group.warm_slices
    return min(group.max_slices, max(group.min_slices, standing[g], watermark, warm))


def watermark_target(busy: int, watermark: int | None) -> int:
    """The least number of slices of which `busy` are at or below the watermark."""
    return 0 if watermark is None else -(-100 * busy // watermark)
