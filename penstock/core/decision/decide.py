"""`decide`: one snapshot in, one decision out."""

from datetime import datetime, timedelta

from penstock.core.decision.cursors import ShapeCursors
from penstock.core.decision.filling import place_by_filling
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.floors import Standing, open_minimum, open_spares, open_standing
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.limits import Rationed, ration
from penstock.core.decision.outcome import describe_groups, describe_pools, hourly_cost
from penstock.core.decision.plan import Plan
from penstock.core.decision.priority import place_by_priority
from penstock.core.decision.reasons import Reasons
from penstock.core.decision.resources import smallest
from penstock.core.decision.strategies import ROUNDED, Strategy, strategies
from penstock.model.bulk import in_bulk
from penstock.model.cluster import Placement
from penstock.model.decision import Code, Decision, Placed, Span, Unmet
from penstock.model.snapshot import Snapshot


@in_bulk
def decide(snapshot: Snapshot) -> Decision:
    """Place the demand, plan every group, and say why. The same snapshot gives the same decision."""
    fleet = Fleet(snapshot)
    reasons = Reasons(fleet)
    wants = ShapeCursors(snapshot.workload.shapes, fleet.matcher, conserve=snapshot.config.conserve_accelerators)
    plan, standing = _best_plan(fleet, wants, reasons)
    open_spares(plan)
    rationed = ration(plan)
    unmet = _explain_unmet(plan, reasons)
    groups = describe_groups(plan, rationed, standing.slices, unmet)
    return Decision.model_construct(
        now=snapshot.now,
        placement=snapshot.config.placement,
        placed=tuple(
            Placed(Span(run, first, count), fleet.groups[g].name, tier, opened)
            for run, first, count, g, tier, opened in plan.assignments
        ),
        unmet=unmet,
        launches=rationed.launches,
        deferred=rationed.deferred,
        drains=(),
        groups=groups,
        pools=describe_pools(plan, groups),
        standing=standing.outcomes,
        cost_per_hour=hourly_cost(plan, rationed),
        next_change_at=_next_change(fleet, plan, rationed),
    )


def _best_plan(fleet: Fleet, wants: ShapeCursors, reasons: Reasons) -> tuple[Plan, Standing]:
    """By priority there is one plan; packing and cost try every strategy and keep the best."""
    config = fleet.snapshot.config
    if config.placement is Placement.PRIORITY:
        return _place(fleet, wants, reasons, None)
    tried = [
        _place(fleet, wants, reasons, strategy)
        for strategy in strategies(config.placement, wants.everywhere(), fleet.groups, conserve=config.conserve_accelerators)
    ]
    return min(tried, key=lambda result: _price_of(result[0], config.placement))


def _place(fleet: Fleet, wants: ShapeCursors, reasons: Reasons, strategy: Strategy | None) -> tuple[Plan, Standing]:
    snapshot = fleet.snapshot
    headroom = Headroom(snapshot, fleet.groups, [held.total for held in fleet.held])
    plan = Plan(fleet, headroom, smallest([shape.need for shape in snapshot.workload.shapes]))
    ready = fleet.ready_rooms()
    plan.add_ready(room for _, room in ready)
    plan.add_flight(fleet.flight_rooms(), opened=False)
    open_minimum(plan)
    standing = open_standing(plan, reasons)
    hosts = fleet.ready_hosts_by_ref(ready)
    if strategy is None:
        place_by_priority(plan, wants, snapshot.workload.runs, hosts)
    else:
        place_by_filling(plan, snapshot.workload.runs, hosts, strategy)
    return plan, standing


def _price_of(plan: Plan, placement: Placement) -> tuple[int, float, int]:
    """What is compared between plans: entries left unplaced, then money for `cost`, then slices."""
    unplaced = sum(count for _, _, count in plan.unplaced)
    cost = sum(count * group.price for count, group in zip(plan.opened, plan.fleet.groups, strict=True))
    return (unplaced, round(cost, ROUNDED) if placement is Placement.COST else 0.0, sum(plan.opened))


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
            reason = reasons.why(workload.shapes[key], plan.headroom)
            code, message, groups = reason
        else:
            assert run.fault is not None
            code, message, groups = Code(run.fault.code), run.fault.message, {}
        found.append(Unmet.model_construct(shape=run.shape, spans=tuple(where), code=code, message=message, groups=groups))
    return tuple(sorted(found, key=lambda unmet: unmet.spans[0]))


def _next_change(fleet: Fleet, plan: Plan, rationed: Rationed) -> datetime | None:
    """The next moment at which the same facts would give another decision; slices launched now are REQUESTING from now on."""
    snapshot = fleet.snapshot
    moments = [block.until for block in plan.headroom.blocked if block and block.until]
    moments += [request.expires for request in snapshot.standing if request.expires and request.expires > snapshot.now]
    moments += fleet.deadlines
    launched = {launch.group for launch in rationed.launches}
    patience = [snapshot.config.patience_of(group) for group in fleet.groups if group.name in launched]
    moments += [snapshot.now + timedelta(seconds=seconds) for seconds in patience]
    if rationed.retry_at is not None:
        moments.append(rationed.retry_at)
    return min(moments, default=None)
