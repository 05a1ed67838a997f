"""Slices launched without waiting demand: group minimums, standing requests, watermark and warm spares."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.model.decision import Cause, StandingOutcome
from penstock.model.runs import Run
from penstock.model.shape import Shape
from penstock.model.slices import StandingRequest

SPARES = (Cause.WATERMARK, Cause.WARM)
"""Causes of slices that are opened ahead of demand."""


def open_minimum(plan: Plan) -> None:
    """Bring every group up to its minimum. Stalled slices count, because they are already ordered."""
    for g, group in enumerate(plan.fleet.groups):
        counts = plan.fleet.counts[g]
        missing = group.min_slices - counts.ready - counts.in_flight - counts.stalled - plan.opened[g]
        slices = min(missing, plan.headroom.of(g))
        if slices > 0:
            plan.open(((g, 1),), slices, Cause.MINIMUM)


class StandingResult(NamedTuple):
    """The outcome of each standing request, and how many slices of each group they need together."""

    outcomes: tuple[StandingOutcome, ...]
    slices: list[int]


def open_standing(plan: Plan, reasons: Reasons) -> StandingResult:
    """Open the slices that standing requests lack. Each is measured on all capacity, busy or idle; all of it or none."""
    snapshot = plan.fleet.snapshot
    live = [request for request in snapshot.standing if request.expires is None or request.expires > snapshot.now]
    trial = _StandingTrial(plan)
    outcomes = tuple(trial.add(request, reasons) for request in sorted(live, key=lambda request: request.owner))
    for unit in trial.units:
        plan.open(unit.parts, unit.times, Cause.STANDING)
    return StandingResult(outcomes, trial.used)


class _StandingTrial:
    """Plans on the whole fleet as if nothing ran on it: the capacity that standing requests are measured on."""

    def __init__(self, plan: Plan) -> None:
        self._fleet = plan.fleet
        self._opened = [g for unit in plan.units for g, slices in unit.parts * unit.times for _ in range(slices)]
        self._headroom = plan.headroom
        self._conserve = plan.fleet.snapshot.config.conserve_accelerators
        self._granted: list[tuple[Shape, int]] = []
        self.units: list[Unit] = []
        self.used = [0] * len(plan.fleet.groups)

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
        reason = reasons.why(shape, trial.headroom)
        return StandingOutcome(owner=request.owner, met=False, code=reason.code, message=reason.message)

    def _place(self, wanted: Sequence[tuple[Shape, int]]) -> Plan:
        shapes = [shape for shape, _ in wanted]
        runs = tuple(Run(s, count, shape.gang.size if shape.gang else 1) for s, (shape, count) in enumerate(wanted))
        plan = Plan(self._fleet, self._headroom.copy(), smallest([shape.need for shape in shapes]))
        ready, in_flight = self._fleet.whole_bins()
        plan.add_ready(ready)
        plan.add_in_flight(in_flight, opened=False)
        plan.add_in_flight(self._fleet.new_bin(g) for g in self._opened)
        place_by_priority(plan, ShapeCursors(shapes, self._fleet.matcher, conserve=self._conserve), runs, {})
        return plan


def open_spares(plan: Plan, standing: Sequence[int]) -> None:
    """Add watermark and warm slices beyond the slices that demand keeps busy, and set every group's target."""
    for g, group in enumerate(plan.fleet.groups):
        counts = plan.fleet.counts[g]
        need = counts.busy + plan.required[g]
        watermark, warm = watermark_target(need, group.watermark), need + group.warm_slices
        plan.target[g] = min(group.max_slices, max(group.min_slices, standing[g], watermark, warm))
        have = counts.ready + counts.in_flight + plan.opened[g]
        for cause, target in ((Cause.WATERMARK, watermark), (Cause.WARM, warm)):
            slices = min(target - have - counts.stalled, plan.headroom.of(g))
            if slices > 0:
                plan.charge(((g, 1),), slices, cause)
                have += slices


def watermark_target(busy: int, watermark: int | None) -> int:
    """The least number of slices of which `busy` are at or below the watermark."""
    return 0 if watermark is None else -(-100 * busy // watermark)
