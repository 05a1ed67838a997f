"""Build the decision's group and pool parts and the hourly cost from a finished plan."""

from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.limits import LaunchSplit
from penstock.core.decision.plan import Plan
from penstock.core.decision.prices import cost_of, unpriced_groups
from penstock.core.decision.reasons import until
from penstock.model.decision import (
    Cause,
    CostPerHour,
    GroupDecision,
    Outcome,
    PoolDecision,
    Pressure,
    Tier,
    Unmet,
)
from penstock.model.shape import GangPlacement
from penstock.model.slices import Availability, Slice, SliceState
from penstock.wording import counted, listed


def describe_groups(plan: Plan, split: LaunchSplit, unmet: Sequence[Unmet]) -> tuple[GroupDecision, ...]:
    """One description per group, in rank order."""
    launches = _sums((launch.group, launch.slices) for launch in split.launches)
    deferred = _sums((item.group, item.slices) for item in split.deferred)
    denied = _denied_slices(plan, unmet)
    runs = plan.fleet.snapshot.workload.runs
    placed: list[Counter[Tier]] = [Counter() for _ in plan.fleet.groups]
    for run, _, entries, g, tier, _ in plan.assignments:
        placed[g][tier] += entries * runs[run].pending
    opened: list[Counter[Cause]] = [Counter() for _ in plan.fleet.groups]
    for unit in plan.units:
        for g, slices in unit.parts:
            opened[g][unit.cause] += unit.times * slices
    found = []
    for g, group in enumerate(plan.fleet.groups):
        outcome = _outcome(plan, g, placed[g], opened[g])
        found.append(_describe(plan, g, outcome, launches[group.name], deferred[group.name], denied[g]))
    return tuple(found)


def _describe(plan: Plan, g: int, outcome: tuple[Outcome, str], launch: int, deferred: int, denied: int) -> GroupDecision:
    counts = plan.fleet.counts[g]
    availability, reason = _availability(plan, g)
    block = plan.headroom.block(g)
    return GroupDecision.model_construct(
        name=plan.fleet.groups[g].name,
        have=counts.ready,
        in_flight=counts.in_flight,
        stalled=counts.stalled,
        leaving=counts.leaving,
        unclaimed=counts.unclaimed,
        replacing=counts.reserved,
        busy=counts.busy,
        required=plan.required[g],
        target=plan.target[g],
        launch=launch,
        deferred=deferred,
        availability=availability,
        until=block.until if block else None,
        reason=reason,
        outcome=outcome[0],
        why=outcome[1],
        pressure=Pressure(capacity=denied, logical=_above_watermark(plan, g), accounted_for=launch + _moving(plan, g)),
    )


def _above_watermark(plan: Plan, g: int) -> int:
    """Busy slices beyond the share that the watermark allows of existing and opened slices."""
    group, counts = plan.fleet.groups[g], plan.fleet.counts[g]
    if group.watermark is None:
        return 0
    total = counts.ready + counts.in_flight + plan.opened[g]
    return max(0, -(-(100 * (counts.busy + plan.required[g]) - group.watermark * total) // 100))


def _moving(plan: Plan, g: int) -> int:
    """Slices that are already arriving or leaving."""
    counts = plan.fleet.counts[g]
    return counts.in_flight + counts.stalled + counts.leaving


def _availability(plan: Plan, g: int) -> tuple[Availability, str]:
    """Whether the group may add slices once this decision is carried out, and why not."""
    return plan.headroom.availability(g, plan.fleet.counts[g].total + plan.opened[g] + plan.replacing[g])


_CAPACITY = {Tier.READY: "on READY slices", Tier.IN_FLIGHT: "on slices in flight", Tier.NEW: "on new slices"}
NAMED = 2
"""Slices in whose places others are opened that are named; the others are counted."""
_PURPOSE = {
    Cause.MINIMUM: "for its minimum",
    Cause.STANDING: "for standing requests",
    Cause.DEMAND: "for a gang",
    Cause.WATERMARK: "for its watermark",
    Cause.WARM: "for its warm slices",
    Cause.PRESSURE: "for reports of pressure",
    Cause.REPLACEMENT: "to replace {}",
    Cause.RETURN_HOME: "for the return of {}",
}


def _outcome(plan: Plan, g: int, placed: Counter[Tier], opened: Counter[Cause]) -> tuple[Outcome, str]:
    """What becomes of the group, and why: its placed tasks by tier, and the slices that it opens for something else."""
    causes = [cause for cause in Cause if opened[cause] and not (placed and cause is Cause.DEMAND)]
    opens = _counts("opens", "slice", [(opened[cause], _PURPOSE[cause].format(_replaced(plan, g, cause))) for cause in causes])
    if placed:
        takes = _counts("takes", "task", [(placed[tier], _CAPACITY[tier]) for tier in Tier if placed[tier]])
        return Outcome.SELECTED, f"{takes}{f'; {opens}' if opens else ''}"
    wanted = plan.wanted.get(g)
    if opens:
        return Outcome.KEPT, f"{opens}; {wanted.why}" if wanted else opens
    if wanted and wanted.slices <= plan.fleet.counts[g].total - plan.fleet.counts[g].leaving:
        return Outcome.KEPT if wanted.slices else Outcome.IDLE, wanted.why
    availability, reason = _availability(plan, g)
    if availability is not Availability.AVAILABLE:
        block = plan.headroom.block(g)
        end = until(block.until) if block else ""
        return Outcome.BLOCKED, f"{availability}{end}{f': {reason}' if reason else ''}"
    return Outcome.IDLE, "no demand is placed here"


def _replaced(plan: Plan, g: int, cause: Cause) -> str:
    """The slices in whose places a group opens others."""
    return listed((unit.replaces for unit in plan.units if unit.cause is cause and unit.parts == ((g, 1),)), NAMED)


def _counts(verb: str, noun: str, counts: Sequence[tuple[int, str]]) -> str:
    """Counts with what each is for, of which the first has the noun: `takes 2 tasks on READY slices, 1 on new slices`."""
    if not counts:
        return ""
    (first, what), *rest = counts
    return ", ".join([f"{verb} {counted(first, noun)} {what}", *(f"{count:,} {what}" for count, what in rest)])


def describe_pools(plan: Plan, groups: Sequence[GroupDecision]) -> tuple[PoolDecision, ...]:
    """One description per pool, by name, in chips: the figures of its groups times the chips of their slices."""
    found = []
    for pool in sorted(plan.fleet.snapshot.config.pools, key=lambda pool: pool.name):
        pairs = zip(groups, plan.fleet.groups, strict=True)
        members = [(described, group.chips_per_slice) for described, group in pairs if group.pool == pool.name]
        pressure = Pressure(
            capacity=sum(described.pressure.capacity * chips for described, chips in members),
            logical=sum(described.pressure.logical * chips for described, chips in members),
            accounted_for=sum(described.pressure.accounted_for * chips for described, chips in members),
        )
        found.append(
            PoolDecision(
                name=pool.name,
                chips=pool.chips,
                system=pool.system,
                charged=plan.headroom.charged[pool.name],
                launching=sum(described.launch * chips for described, chips in members),
                pressure=pressure,
            )
        )
    return tuple(found)


def hourly_cost(plan: Plan, split: LaunchSplit) -> CostPerHour:
    """The cost of existing slices, and the cost with requested and launched ones. A requested slice costs nothing yet."""
    config, slices = plan.fleet.snapshot.config, plan.fleet.snapshot.slices
    before = cost_of((piece for piece in slices if not _is_coming(piece)), config)
    launched = _sums((launch.group, launch.slices) for launch in split.launches)
    priced = {group.name: group.price_per_hour for group in plan.fleet.groups}
    after = before + cost_of(filter(_is_coming, slices), config)
    after += sum((priced[name] or 0.0) * launched[name] for name in sorted(launched))
    unpriced = {*unpriced_groups(slices, config), *(name for name in launched if priced[name] is None)}
    return CostPerHour(before=round(before, 6), after=round(after, 6), unpriced=tuple(sorted(unpriced)))


def _is_coming(piece: Slice) -> bool:
    return piece.state is SliceState.REQUESTING and not is_leaving(piece)


def _denied_slices(plan: Plan, unmet: Sequence[Unmet]) -> list[int]:
    """Slices that unmet demand would need, charged to its first candidate only, so that nothing counts twice."""
    denied = [0] * len(plan.fleet.groups)
    for item in unmet:
        shape = plan.fleet.snapshot.workload.shapes[item.shape]
        candidates = plan.fleet.matcher.candidates(shape)
        if not item.groups or not candidates.order:
            continue
        g = candidates.order[0]
        group = plan.fleet.groups[g]
        if shape.gang and shape.gang.placement is GangPlacement.WHOLE_SLICES:
            denied[g] += item.entries * (shape.gang.hosts // group.hosts_per_slice)
        else:
            runs = plan.fleet.snapshot.workload.runs
            tasks = sum(span.entries * runs[span.run].pending for span in item.spans)
            per_slice = max(1, ShapeCursor(shape, candidates).tasks_in_new(group, tasks)) * group.hosts_per_slice
            denied[g] += -(-tasks // per_slice)
    return denied


def _sums(pairs: Iterable[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, slices in pairs:
        counts[name] += slices
    return counts
