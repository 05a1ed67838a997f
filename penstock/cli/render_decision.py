"""A decision as tables, and an explanation as a paragraph, for a terminal."""

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import Prose, has_columns, moment, terminal, titled
from penstock.contract.answers import CHEAPER, DecisionSummary, DrainSummary, Explanation, TaskStatus, UnmetSummary
from penstock.contract.slice_answers import SliceExplanation, SliceOutlook
from penstock.model.decision import GroupDecision, Outcome, Tier
from penstock.wording import counted, listed

SHOWN = 10
"""Rows of unmet demand, and of idle groups, before the rest are only counted."""

_OUTCOME_STYLE = {Outcome.SELECTED: "green", Outcome.KEPT: "cyan", Outcome.BLOCKED: "red", Outcome.IDLE: "dim"}
_STATUS_STYLE = {TaskStatus.UNMET: "red", TaskStatus.UNKNOWN: "red", TaskStatus.WAITING: "yellow"}
_OUTLOOK_STYLE = {SliceOutlook.GOING: "yellow", SliceOutlook.GONE: "red"}


def print_decision(summary: DecisionSummary) -> None:
    """Print the groups, the pools, standing requests, unmet demand, and the cost."""
    console = terminal()
    if summary.held is not None:
        console.print(Prose(f"[bold yellow]{escape(summary.held)}[/]\nWhat would be decided now:"))
    if summary.as_of is not None:
        since = "; what changed since is not decided on yet" if summary.changed_since else ""
        console.print(Prose(f"[yellow]As of the last evaluation at {summary.as_of:%H:%M:%S} UTC{since}.[/]"))
    console.print(_groups_table(summary))
    if summary.pools:
        console.print(_pools_table(summary))
    for outcome in summary.standing:
        met = "[green]met[/]" if outcome.met else f"[red]unmet[/] ({outcome.code}): {escape(outcome.message)}"
        console.print(Prose(f"Standing request {escape(outcome.owner)}: {met}"))
    if summary.drains:
        console.print(_drains_table(summary.drains))
    if summary.kept:
        console.print(_kept_table(summary))
    if summary.cancelled_drains:
        back = counted(len(summary.cancelled_drains), "drain")
        console.print(Prose(f"Cancelled {back}, for something needs these slices again: {listed(summary.cancelled_drains)}"))
    if summary.unmet:
        console.print(_unmet_table(summary.unmet))
    console.print(Prose(_closing(summary)))


def print_explanation(explanation: Explanation) -> None:
    """Print the paragraph: folded to the width of the terminal or COLUMNS, and as one line in a pipe."""
    _print_paragraph(explanation.text, _STATUS_STYLE.get(explanation.status, ""))


def print_slice_explanation(explanation: SliceExplanation) -> None:
    """Print why a slice is kept, or why it goes, as the explanation of a task is printed."""
    _print_paragraph(explanation.text, _OUTLOOK_STYLE.get(explanation.status, ""))


def _print_paragraph(text: str, style: str) -> None:
    console = terminal()
    if console.is_terminal or has_columns():
        console.print(Prose(Text(text, style=style)))
    else:
        console.print(escape(text), style=style, soft_wrap=True)


def _groups_table(summary: DecisionSummary) -> Table:
    table = titled(f"Groups, placement {summary.placement}")
    table.add_column("group", overflow="fold")
    for name in ("have", "in flight", "launch", "deferred"):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    table.add_column("why", overflow="fold")
    idle = [group.name for group in summary.groups.values() if group.outcome is Outcome.IDLE]
    if len(idle) > SHOWN:
        table.caption = f"and {counted(len(idle) - SHOWN, 'more idle group')}"
    for group in (group for group in summary.groups.values() if group.name not in idle[SHOWN:]):
        style = _OUTCOME_STYLE[group.outcome]
        launch = f"[bold green]+{group.launch}[/]" if group.launch else "0"
        deferred = f"[yellow]{group.deferred}[/]" if group.deferred else "0"
        arriving = str(group.in_flight) + (f" (+{group.stalled} stalled)" if group.stalled else "")
        arriving += f" (+{group.replacing} replacing)" if group.replacing else ""
        outcome = f"[{style}]{group.outcome}[/]"
        table.add_row(escape(group.name), str(group.have), arriving, launch, deferred, outcome, escape(_why(summary, group)))
    return table


def _why(summary: DecisionSummary, group: GroupDecision) -> str:
    reasons = [group.why]
    if group.name in summary.deferred:
        reasons.append(f"deferred: {summary.deferred[group.name].message}")
    return "; ".join(reasons)


def _pools_table(summary: DecisionSummary) -> Table:
    table = titled("Pools, in chips")
    table.add_column("pool")
    for name in ("chips", "system", "charged", "launching", "denied"):
        table.add_column(name, justify="right")
    for pool in summary.pools.values():
        row = (pool.chips, pool.system, pool.charged, pool.launching, pool.pressure.capacity)
        table.add_row(escape(pool.name), *map(str, row))
    return table


def _drains_table(drains: tuple[DrainSummary, ...]) -> Table:
    table = titled("Slices that go")
    for name in ("slice", "group", "cause"):
        table.add_column(name, overflow="fold")
    for drain in drains[:SHOWN]:
        table.add_row(escape(drain.slice), escape(drain.group), escape(drain.why))
    if len(drains) > SHOWN:
        table.caption = f"and {counted(len(drains) - SHOWN, 'more slice')}: --json lists them all"
    return table


def _kept_table(summary: DecisionSummary) -> Table:
    """The slices that stay, by reason: those with several reasons count for each."""
    table = titled("Slices that stay")
    for name in ("group", "why"):
        table.add_column(name, overflow="fold")
    for group, reasons in list(summary.kept.items())[:SHOWN]:
        table.add_row(escape(group), ", ".join(f"{count:,} {code.words}" for code, count in reasons.items()))
    if len(summary.kept) > SHOWN:
        table.caption = f"and those of {counted(len(summary.kept) - SHOWN, 'more group')}: --json lists them all"
    return table


def _unmet_table(unmet: tuple[UnmetSummary, ...]) -> Table:
    table = titled("Unmet demand", style="bold red")
    table.add_column("tasks", overflow="fold")
    table.add_column("reason", overflow="fold")
    table.add_column("remedy", overflow="fold")
    largest = sorted(unmet, key=lambda item: -item.tasks)
    for item in largest[:SHOWN]:
        table.add_row(escape(_tasks(item)), f"[red]{item.code}[/]: {escape(item.message)}", escape(item.remedy_text or "–"))
    if len(largest) > SHOWN:
        rest = largest[SHOWN:]
        table.caption = (
            f"and {counted(len(rest), 'more shape')}, {counted(sum(item.tasks for item in rest), 'task')}: --json lists them all"
        )
    return table


def _tasks(item: UnmetSummary) -> str:
    first = item.task_ids[0]
    if item.tasks == 1:
        return first
    gangs = f" in {counted(item.gangs, 'gang')}" if item.gangs else ""
    return f"{first} … ({counted(item.tasks, 'task')}{gangs})"


def _closing(summary: DecisionSummary) -> str:
    placed = sum(sum(tiers.values()) for tiers in summary.placed.values())
    by_tier = {tier: sum(tiers.get(tier, 0) for tiers in summary.placed.values()) for tier in Tier}
    tiers = ", ".join(f"{count:,} {tier.replace('_', ' ')}" for tier, count in by_tier.items() if count)
    unmet = sum(item.tasks for item in summary.unmet)
    lines = [f"Placed {counted(placed, 'task')}{f' ({tiers})' if tiers else ''}, {unmet:,} unmet."]
    before, after = summary.cost_per_hour.before, summary.cost_per_hour.after
    lines.append(f"Cost per hour: {before:,.2f} now, {after:,.2f} once all launches are READY.")
    if summary.cost_per_hour.unpriced:
        lines.append(f"Not counted, because their price is unknown: {escape(listed(summary.cost_per_hour.unpriced))}.")
    if not summary.thorough:
        lines.append(CHEAPER)
    if summary.next_change_at is not None:
        lines.append(f"Next scheduled evaluation: {moment(summary.next_change_at)}.")
    return "\n".join(lines)
