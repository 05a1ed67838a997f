"""Money on a terminal: what slices cost an hour, by use and by group, and what silence costs."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.terminal import Prose, lapse, titled
from penstock.contract.answers import ClusterStatus
from penstock.contract.cost import CostByUse, Use
from penstock.wording import counted, listed

SHOWN = 10
"""Groups with their costs, the dearest first, before the rest are only counted."""
_STYLE = {Use.IDLE: "yellow", Use.UNREPORTED: "yellow"}
"""Uses on which money may be wasted."""
_PAID = tuple(use for use in Use if use is not Use.REQUESTED)


def cost_view(status: ClusterStatus) -> Iterator[RenderableType]:
    """What the cluster costs, in a line, and a table if several groups cost something."""
    text = " ".join(_sentences(status))
    if text:
        yield Prose(text)
    groups = [(group.name, group.cost) for group in status.groups if group.cost.total]
    if len(groups) > 1:
        yield _table(sorted(groups, key=lambda item: (-item[1].total, item[0])))


def silent_sources(status: ClusterStatus, now: datetime) -> Iterator[str]:
    """Sources of usage that have been silent for too long, and what stays for that reason."""
    for name, source in status.usage.items():
        if source.stale_since is None or not source.slices:
            continue
        begin = f"[bold yellow]Source {escape(name)} has been silent[/] for {lapse(source.at, now)}"
        if source.kept_idle:
            stays = "stays" if source.kept_idle == 1 else "stay"
            yield f"{begin}: {counted(source.kept_idle, 'idle slice')} {stays}{at_cost(source.cost_per_hour)}."
        else:
            yield f"{begin}: nothing drains on its word about {counted(source.slices, 'slice')}."


def at_cost(amount: float) -> str:
    """A clause with an amount per hour; nothing if it is not known."""
    return f", {money(amount)} an hour" if amount else ""


def money(amount: float) -> str:
    """An amount in the currency of the prices."""
    return f"{amount:,.2f}"


def _sentences(status: ClusterStatus) -> Iterator[str]:
    cost = status.cost
    if cost.total or cost.requested:
        more = f"; {money(cost.requested)} more once all requested slices exist" if cost.requested else ""
        yield f"[bold]{money(cost.total)} an hour[/]{_split(cost)}{more}."
    if status.idle_cost_of_day:
        yield f"Idle slices have cost {money(status.idle_cost_of_day)} in 24 hours."
    if status.unpriced:
        yield f"Not counted, because their price is unknown: {escape(listed(status.unpriced))}."


def _split(cost: CostByUse) -> str:
    uses = [use for use in _PAID if cost.of(use)]
    if len(uses) == 1:
        return f", all of it {_styled(uses[0], _name(uses[0]))}"
    parts = ", ".join(_styled(use, f"{money(cost.of(use))} {_name(use)}") for use in uses)
    return f": {parts}" if parts else ""


def _table(groups: list[tuple[str, CostByUse]]) -> Table:
    uses = [use for use in _PAID if any(cost.of(use) for _, cost in groups)]
    table = titled("Cost per hour")
    table.add_column("group", overflow="fold")
    for name in (*map(_name, uses), *(["in all"] if len(uses) > 1 else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for name, cost in groups[:SHOWN]:
        amounts = [_styled(use, money(cost.of(use))) if cost.of(use) else "–" for use in uses]
        table.add_row(escape(name), *amounts, *([money(cost.total)] if len(uses) > 1 else []))
    if len(groups) > SHOWN:
        rest = sum(cost.total for _, cost in groups[SHOWN:])
        table.caption = f"and {counted(len(groups) - SHOWN, 'more group')} for {money(rest)}"
    return table


def _name(use: Use) -> str:
    return use.replace("_", " ")


def _styled(use: Use, text: str) -> str:
    return f"[{_STYLE[use]}]{text}[/]" if use in _STYLE else text
