"""The explanation of all tasks whose ids begin with a text: counts by outcome, the unmet ones first."""

from typing import NamedTuple

from penstock.contract.answers import Explanation, TaskStatus
from penstock.core.answers.remedy import RemedySearch, remedy_for
from penstock.core.answers.snapshot import SnapshotWithIds
from penstock.core.state.state import AutoscalerState
from penstock.core.state.usage import usage_now
from penstock.model.decision import Decision, Span, Tier
from penstock.wording import counted

SHOWN = 10
"""Outcomes that are described, those with the most tasks; the rest are only counted."""
_ON = {
    Tier.READY: "fit{s} on READY slices of {group}, where the controller may start them now",
    Tier.IN_FLIGHT: "wait{s} for slices of {group} in flight",
    Tier.NEW: "get{s} new slices of {group}",
}
_STATUS = {Tier.READY: TaskStatus.PLACED, Tier.IN_FLIGHT: TaskStatus.WAITING, Tier.NEW: TaskStatus.WAITING}
_WORST_FIRST = (TaskStatus.UNMET, TaskStatus.WAITING, TaskStatus.PLACED, TaskStatus.RUNNING)


class Outcome(NamedTuple):
    """What becomes of some tasks: the group and tier that take them, or the position of their reason in `decision.unmet`."""

    status: TaskStatus
    group: str = ""
    tier: Tier | None = None
    unmet: int = -1


class _Count:
    """Tasks of one outcome, and their gangs."""

    def __init__(self) -> None:
        self.tasks = 0
        self.gangs: set[str] = set()

    def __str__(self) -> str:
        return counted(self.tasks, "task") + (f" in {counted(len(self.gangs), 'gang')}" if self.gangs else "")


def waiting_with(source: SnapshotWithIds, prefix: str) -> list[str]:
    """The ids of waiting tasks that begin with the text."""
    return [task_id for task_id in source.demand.task_ids if task_id.startswith(prefix)]


def running_with(state: AutoscalerState, prefix: str) -> int:
    """Number of running tasks whose ids begin with the text."""
    return sum(task.startswith(prefix) for usage in usage_now(state).values() for host in usage for task in host.tasks)


def explain_prefix(source: SnapshotWithIds, decision: Decision, prefix: str, *, running: int, effort: int) -> Explanation:
    """The outcomes of all waiting tasks whose ids begin with the text, and how many more run."""
    counts = _counts(source, decision, prefix)
    if running:
        counts[Outcome(TaskStatus.RUNNING)] = _Count()
        counts[Outcome(TaskStatus.RUNNING)].tasks = running
    ranked = sorted(counts, key=lambda each: (_WORST_FIRST.index(each.status), -counts[each].tasks, each.unmet, each.group))
    tasks = sum(count.tasks for count in counts.values())
    begins = "task begins" if tasks == 1 else "tasks begin"
    parts = [
        f"{tasks:,} {begins} with {prefix}.",
        *(f"{counts[each]} {_words(decision, each, counts[each].tasks)}" for each in ranked[:SHOWN]),
    ]
    if len(ranked) > SHOWN:
        rest = sum(counts[each].tasks for each in ranked[SHOWN:])
        parts.append(f"{counted(rest, 'more task')} with {counted(len(ranked) - SHOWN, 'other outcome')}.")
    worst = ranked[0]
    unmet = decision.unmet[worst.unmet] if worst.status is TaskStatus.UNMET else None
    search = remedy_for(source.snapshot, decision, unmet, effort=effort) if unmet is not None else RemedySearch()
    if search.text:
        parts.append(f"Remedy: {search.text}.")
    return Explanation(
        task_id=prefix,
        status=worst.status,
        text=" ".join(parts),
        tasks=tasks,
        group=worst.group or None,
        tier=worst.tier,
        code=unmet.code if unmet else None,
        groups={name: str(code) for name, code in unmet.groups.items()} if unmet else {},
        remedy=search.remedy,
        not_tried=search.not_tried,
    )


def _words(decision: Decision, outcome: Outcome, tasks: int) -> str:
    s = "s" if tasks == 1 else ""
    if outcome.status is TaskStatus.RUNNING:
        return f"run{s} already."
    if outcome.tier is not None:
        return f"{_ON[outcome.tier].format(s=s, group=outcome.group)}."
    unmet = decision.unmet[outcome.unmet]
    return f"cannot be placed ({unmet.code}): {unmet.message.rstrip('.')}."


def _counts(source: SnapshotWithIds, decision: Decision, prefix: str) -> dict[Outcome, _Count]:
    """Waiting tasks with the prefix by outcome, in one pass over the ids."""
    outcomes = _by_run(decision)
    counts: dict[Outcome, _Count] = {}
    for number, (run, ids, gangs) in enumerate(source.demand.pieces()):
        matching = [i for i, task_id in enumerate(ids) if task_id.startswith(prefix)]
        spans = iter(outcomes.get(number, ())) if matching else iter(())
        span, outcome = next(spans, (Span(number, 0, 0), Outcome(TaskStatus.UNKNOWN)))
        for i in matching:
            entry = i // run.pending
            while span.first + span.entries <= entry:
                span, outcome = next(spans)
            count = counts.setdefault(outcome, _Count())
            count.tasks += 1
            if gangs:
                count.gangs.add(gangs[entry])
    return counts


def _by_run(decision: Decision) -> dict[int, list[tuple[Span, Outcome]]]:
    """The spans of each run in order, with their outcomes: every entry is placed or unmet, exactly once."""
    found: dict[int, list[tuple[Span, Outcome]]] = {}
    for span, group, tier, opened in decision.placed:
        on = Tier.NEW if opened else tier
        found.setdefault(span.run, []).append((span, Outcome(_STATUS[on], group, on)))
    for position, unmet in enumerate(decision.unmet):
        for span in unmet.spans:
            found.setdefault(span.run, []).append((span, Outcome(TaskStatus.UNMET, unmet=position)))
    return {run: sorted(spans, key=lambda item: item[0].first) for run, spans in found.items()}
