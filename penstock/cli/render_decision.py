"""A decision as tables, and an explanation as a paragraph, for a terminal."""

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import Prose, entries, has_columns, moment, terminal, titled
from penstock.contract.answers import DecisionSummary, Explanation, TaskStatus, UnmetSummary
from penstock.model.decision import GroupDecision, Outcome, Tier
from penstock.wording import counted, listed

SHOWN = 10
"""Rows of unmet demand, and of idle groups, before the rest are only counted."""

_OUTCOME_STYLE = {Outcome.SELECTED: "green", Outcome.KEPT: "cyan", Outcome.BLOCKED: "red", Outcome.IDLE: "dim"}
_STATUS_STYLE = {TaskStatus.UNMET: "red", TaskStatus.UNKNOWN: "red", TaskStatus.WAITING: "yellow"}


def print_decision(summary: DecisionSummary) -> None:
    """Print the groups, the pools, standing requests, unmet demand, and the cost."""
    console = terminal()
    console.print(_groups_table(summary))
    if summary.pools:
        console.print(_pools_table(summary))
    for outcome in summary.standing:
        met = "[green]met[/]" if outcome.met else f"[red]unmet[/] ({outcome.code}): {escape(outcome.message)}"
        console.print(Prose(f"Standing request {escape(outcome.owner)}: {met}"))
    if summary.unmet:
        console.print(_unmet_table(summary.unmet))
    console.print(Prose(_closing(summary)))


def print_explanation(explanation: Explanation) -> None:
    """Print the paragraph: folded to the width of the terminal or COLUMNS, and as one line in a pipe."""
    console = terminal()
    style = _STATUS_STYLE.get(explanation.status, "")
    if console.is_terminal or has_columns():
        console.print(Prose(Text(explanation.text, style=style)))
    else:
        console.print(escape(explanation.text), style=style, soft_wrap=True)


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


def _unmet_table(unmet: tuple[UnmetSummary, ...]) -> Table:
    table = titled("Unmet demand", style="bold red")
    table.add_column("tasks", overflow="fold")
    table.add_column("reason", overflow="fold")
    table.add_column("remedy", overflow="fold")
    largest = sorted(unmet, key=lambda item: -item.count)
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
    return first if item.tasks == 1 else f"{first} … ({item.tasks} tasks)"


def _closing(summary: DecisionSummary) -> str:
    placed = sum(sum(tiers.values()) for tiers in summary.placed.values())
    by_tier = {tier: sum(tiers.get(tier, 0) for tiers in summary.placed.values()) for tier in Tier}
    tiers = ", ".join(f"{count} {tier.replace('_', ' ')}" for tier, count in by_tier.items() if count)
    lines = [f"Placed {entries(placed)}{f' ({tiers})' if tiers else ''}, {sum(item.count for item in summary.unmet)} unmet."]
    before, after = summary.cost_per_hour.before, summary.cost_per_hour.after
    lines.append(f"Cost per hour: {before:,.2f} now, {after:,.2f} once all launches are READY.")
    if summary.cost_per_hour.unpriced:
        lines.append(f"Not counted, because their price is unknown: {escape(listed(summary.cost_per_hour.unpriced))}.")
    if summary.next_change_at is not None:
        lines.append(f"Next scheduled evaluation: {moment(summary.next_change_at)}.")
    return "\n".join(lines)
