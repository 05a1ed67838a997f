"""Summarize a decision: counts by group, unmet demand by task id, remedies."""

from collections.abc import Mapping

from penstock.contract.answers import DecisionSummary, DeferredSummary, Remedy, UnmetSummary
from penstock.model.decision import Decision, Tier, Unmet
from penstock.model.demand import Demand

LISTED = 100
"""Task ids listed for one unmet shape; the others are only counted."""


def summarize(decision: Decision, demand: Demand, remedies: Mapping[int, Remedy]) -> DecisionSummary:
    """The decision with task ids; `remedies` are keyed by position in `decision.unmet`."""
    return DecisionSummary(
        now=decision.now,
        placement=decision.placement,
        launches=decision.launched(),
        deferred=_deferred(decision),
        placed=_placed(decision),
        unmet=tuple(_unmet(item, demand, remedies.get(i)) for i, item in enumerate(decision.unmet)),
        groups={group.name: group for group in decision.groups},
        pools={pool.name: pool for pool in decision.pools},
        standing=decision.standing,
        cost_per_hour=decision.cost_per_hour,
        next_change_at=decision.next_change_at,
    )


def _deferred(decision: Decision) -> dict[str, DeferredSummary]:
    found: dict[str, DeferredSummary] = {}
    for name in sorted({item.group for item in decision.deferred}):
        items = [item for item in decision.deferred if item.group == name]
        limits = {item.limit: sum(other.slices for other in items if other.limit == item.limit) for item in items}
        message = "; ".join(dict.fromkeys(item.message for item in items))
        found[name] = DeferredSummary(slices=sum(limits.values()), limits=limits, message=message)
    return found


def _placed(decision: Decision) -> dict[str, dict[Tier, int]]:
    counts: dict[str, dict[Tier, int]] = {}
    for span, group, tier, _ in decision.placed:
        tiers = counts.setdefault(group, {})
        tiers[tier] = tiers.get(tier, 0) + span.entries
    return {name: {tier: counts[name][tier] for tier in Tier if tier in counts[name]} for name in sorted(counts)}


def _unmet(item: Unmet, demand: Demand, remedy: Remedy | None) -> UnmetSummary:
    ids: list[str] = []
    tasks = 0
    for span in item.spans:
        tasks += span.entries * demand.workload.runs[span.run].pending
        if len(ids) < LISTED:
            ids += demand.span_task_ids(span.run, span.first, span.entries)[: LISTED - len(ids)]
    return UnmetSummary(
        count=item.entries,
        tasks=tasks,
        task_ids=tuple(ids),
        shape=str(demand.workload.shapes[item.shape]),
        code=item.code,
        message=item.message,
        groups=item.groups,
        remedy=remedy,
        remedy_text=remedy.message if remedy else None,
    )
