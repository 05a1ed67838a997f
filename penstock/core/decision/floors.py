"""Slices that no entry asked for: minimum, standing requests, watermark, warm slices."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.model.decision import Cause, StandingOutcome
from penstock.model.runs import Run
from penstock.model.shape import Shape
from penstock.model.slices import StandingRequest


def open_minimum(plan: Plan) -> None:
    """Bring every group up to its minimum; stalled ones count, for they were ordered."""
    for g, group in enumerate(plan.fleet.groups):
        held = plan.fleet.held[g]
        missing = group.min_slices - held.ready - held.in_flight - held.stalled
        slices = min(missing, plan.headroom.of(g))
        if slices > 0:
            plan.open(((g, 1),), slices, Cause.MINIMUM)


class Standing(NamedTuple):
    """What became of each standing request, and how many slices of each group they keep."""

    outcomes: tuple[StandingOutcome, ...]
    slices: list[int]


def open_standing(plan: Plan, reasons: Reasons) -> Standing:
    """Open what standing requests lack, measured against all capacity, busy or not; each owner's whole or not at all."""
    snapshot = plan.fleet.snapshot
    live = [request for request in snapshot.standing if request.expires is None or request.expires > snapshot.now]
    floor = _Floor(plan)
    outcomes = tuple(floor.add(request, reasons) for request in sorted(live, key=lambda request: request.owner))
    for unit in floor.units:
        plan.open(unit.parts, unit.times, Cause.STANDING)
    return Standing(outcomes, floor.used)


class _Floor:
    """A plan beside the plan, on which nothing runs: the capacity that standing requests are measured against."""

    def __init__(self, plan: Plan) -> None:
        self._fleet: Fleet = plan.fleet
        self._planned = [g for unit in plan.units for g, slices in unit.parts for _ in range(slices * unit.times)]
        self._start: Headroom = plan.headroom
        self._conserve = plan.fleet.snapshot.config.conserve_accelerators
        self._granted: list[tuple[Shape, int]] = []
        self.units: list[Unit] = []
        self.used = [0] * len(plan.fleet.groups)

    def add(self, request: StandingRequest, reasons: Reasons) -> StandingOutcome:
        """Grant the request if all of it finds a place beside what others were granted."""
        wanted = [(item.alone(), item.count) for item in request.wants]
        trial = self._place([*self._granted, *wanted])
        if not trial.unplaced:
            self._granted += wanted
            self.units, self.used = trial.units, trial.required
            return StandingOutcome(owner=request.owner, met=True)
        own = [number for number, _, _ in trial.unplaced if number >= len(self._granted)]
        shape = wanted[own[0] - len(self._granted)][0] if own else wanted[0][0]
        reason = reasons.why(shape, trial.headroom)
        return StandingOutcome(owner=request.owner, met=False, code=reason.code, message=reason.message)

    def _place(self, wanted: Sequence[tuple[Shape, int]]) -> Plan:
        shapes = [shape for shape, _ in wanted]
        runs = tuple(Run(s, count, shape.gang.size if shape.gang else 1) for s, (shape, count) in enumerate(wanted))
        plan = Plan(self._fleet, self._start.copy(), smallest([shape.need for shape in shapes]))
        ready, flight = self._fleet.total_rooms()
        plan.add_ready(ready)
        plan.add_flight(flight, opened=False)
        plan.add_flight(self._fleet.new_room(g) for g in self._planned)
        place_by_priority(plan, ShapeCursors(shapes, self._fleet.matcher, conserve=self._conserve), runs, {})
        return plan


def open_spares(plan: Plan) -> None:
    """Add what watermark and warm slices ask for beyond the slices that placed demand keeps busy."""
    for g, group in enumerate(plan.fleet.groups):
        held = plan.fleet.held[g]
        need = held.busy + plan.required[g]
        have = held.ready + held.in_flight + plan.opened[g]
        for cause, target in ((Cause.WATERMARK, watermark_target(need, group.watermark)), (Cause.WARM, need + group.warm_slices)):
            slices = min(target - have - held.stalled, plan.headroom.of(g))
            if slices > 0:
                plan.charge(((g, 1),), slices, cause)
                have += slices


def watermark_target(busy: int, watermark: int | None) -> int:
    """Slices with which `busy` of them stay at or below the watermark."""
    return 0 if watermark is None else -(-100 * busy // watermark)
