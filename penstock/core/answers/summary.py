"""Summarize a decision: counts by group, unmet demand by task id, remedies."""

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.contract.answers import DecisionSummary, DeferredSummary, DrainSummary, UnmetSummary
from penstock.core.answers.remedy import RemedySearch
from penstock.model.decision import Decision, Kept, KeptCode, Span, Tier, Unmet
from penstock.model.demand import Demand, Workload

LISTED = 100
"""Task ids listed for one unmet shape; the others are only counted."""


def summarize(
    decision: Decision,
    demand: Demand,
    remedies: Mapping[int, RemedySearch],
    *,
    kept: Iterable[Kept] = (),
    held: str | None = None,
) -> DecisionSummary:
    """The decision with task ids; `remedies` are keyed by position in `decision.unmet`; `held` is why it is not carried out.

    `kept` are the slices that stay.
    """
    return DecisionSummary(
        now=decision.now,
        held=held,
        placement=decision.placement,
        launches=decision.launched(),
        deferred=_deferred(decision),
        placed=_placed(decision, demand.workload),
        unmet=tuple(_unmet(item, demand, remedies.get(i, RemedySearch())) for i, item in enumerate(decision.unmet)),
        drains=tuple(map(DrainSummary.of, decision.drains)),
        cancelled_drains=decision.cancelled_drains,
        desired=decision.desired,
        kept=_kept(kept),
        groups={group.name: group for group in decision.groups},
        pools={pool.name: pool for pool in decision.pools},
        standing=decision.standing,
        cost_per_hour=decision.cost_per_hour,
        next_change_at=None if held else decision.next_change_at,
        thorough=decision.thorough,
    )


def _kept(kept: Iterable[Kept]) -> dict[str, dict[KeptCode, int]]:
    found: dict[str, Counter[KeptCode]] = {}
    for each in kept:
        found.setdefault(each.group, Counter()).update(reason.code for reason in each.reasons)
    return {name: {code: found[name][code] for code in KeptCode if found[name][code]} for name in sorted(found)}


def _deferred(decision: Decision) -> dict[str, DeferredSummary]:
    found: dict[str, DeferredSummary] = {}
    for name in sorted({item.group for item in decision.deferred}):
        items = [item for item in decision.deferred if item.group == name]
        limits = {item.limit: sum(other.slices for other in items if other.limit == item.limit) for item in items}
        message = "; ".join(dict.fromkeys(item.message for item in items))
        found[name] = DeferredSummary(slices=sum(limits.values()), limits=limits, message=message)
    return found


def tasks_in(span: Span, workload: Workload) -> int:
    """Number of pending tasks of the entries."""
    return span.entries * workload.runs[span.run].pending


def _placed(decision: Decision, workload: Workload) -> dict[str, dict[Tier, int]]:
    counts: dict[str, dict[Tier, int]] = {}
    for span, group, tier, _ in decision.placed:
        tiers = counts.setdefault(group, {})
        tiers[tier] = tiers.get(tier, 0) + tasks_in(span, workload)
    return {name: {tier: counts[name][tier] for tier in Tier if tier in counts[name]} for name in sorted(counts)}


def _unmet(item: Unmet, demand: Demand, search: RemedySearch) -> UnmetSummary:
    ids: list[str] = []
    tasks = 0
    for span in item.spans:
        tasks += tasks_in(span, demand.workload)
        if len(ids) < LISTED:
            ids += demand.span_task_ids(span.run, span.first, span.entries)[: LISTED - len(ids)]
    return UnmetSummary(
        count=item.entries,
        tasks=tasks,
        gangs=item.entries if demand.workload.shapes[item.shape].gang is not None else 0,
        task_ids=tuple(ids),
        shape=str(demand.workload.shapes[item.shape]),
        code=item.code,
        message=item.message,
        groups=item.groups,
        remedy=search.remedy,
        remedy_text=search.text or None,
        not_tried=search.not_tried,
    )
