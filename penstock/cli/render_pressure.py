"""Pressure on a terminal: groups and pools by the last decision, and whether standing requests are met."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.terminal import lapse, titled
from penstock.contract.answers import ClusterStatus
from penstock.contract.capacity import StandingStatus
from penstock.model.decision import Pressure
from penstock.wording import counted

SHOWN = 10
"""Rows of each table before the rest are only counted."""
_COLUMNS = ("denied", "above watermark", "accounted for")


def pressure_view(status: ClusterStatus, now: datetime) -> Iterator[RenderableType]:
    """Tables of the groups under pressure, of the pools, and of the standing requests."""
    pressed = [(group.name, group.pressure) for group in status.groups if group.pressure != Pressure()]
    if pressed:
        yield _groups_table(sorted(pressed, key=lambda item: (-item[1].capacity, -item[1].logical, item[0])))
    if status.pools:
        yield _pools_table(status)
    if status.standing:
        yield _standing_table(status.standing, now)


def _groups_table(groups: list[tuple[str, Pressure]]) -> Table:
    table = titled("Pressure, in slices")
    table.add_column("group", overflow="fold")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for name, pressure in groups[:SHOWN]:
        table.add_row(escape(name), *_figures(pressure))
    _count_rest(table, len(groups), "group")
    return table


def _pools_table(status: ClusterStatus) -> Table:
    table = titled("Pools, in chips")
    table.add_column("pool", overflow="fold")
    for name in ("chips", "system", "charged", *_COLUMNS):
        table.add_column(name, justify="right")
    for pool in status.pools[:SHOWN]:
        table.add_row(escape(pool.name), f"{pool.chips:,}", f"{pool.system:,}", f"{pool.charged:,}", *_figures(pool.pressure))
    _count_rest(table, len(status.pools), "pool")
    return table


def _standing_table(standing: Sequence[StandingStatus], now: datetime) -> Table:
    requests = sorted(standing, key=lambda request: (request.met is not False, request.owner))
    table = titled("Standing requests")
    table.add_column("owner", overflow="fold")
    table.add_column("outcome", overflow="fold")
    expiring = any(request.expires is not None for request in requests)
    if expiring:
        table.add_column("expires", no_wrap=True)
    for request in requests[:SHOWN]:
        table.add_row(escape(request.owner), _outcome(request), *([_expires(request, now)] if expiring else []))
    _count_rest(table, len(requests), "standing request")
    return table


def _outcome(request: StandingStatus) -> str:
    if request.met is None:
        return "[yellow]not decided yet[/]"
    return "[green]met[/]" if request.met else f"[red]unmet[/] ({request.code}): {escape(request.message)}"


def _expires(request: StandingStatus, now: datetime) -> str:
    return "–" if request.expires is None else f"in {lapse(now, request.expires)}"


def _figures(pressure: Pressure) -> list[str]:
    style = {0: "red", 1: "yellow"}
    amounts = (pressure.capacity, pressure.logical, pressure.accounted_for)
    return [f"[{style[i]}]{amount:,}[/]" if amount and i in style else f"{amount:,}" for i, amount in enumerate(amounts)]


def _count_rest(table: Table, rows: int, noun: str) -> None:
    if rows > SHOWN:
        table.caption = f"and {counted(rows - SHOWN, f'more {noun}')}: --json has them"
