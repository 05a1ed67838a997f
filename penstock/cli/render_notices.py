"""What clouds announce for slices, for a terminal: in words, and as a table of the status."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import RenderableType
from rich.markup import escape

from penstock.cli.terminal import clock, lapse, titled
from penstock.contract.answers import ClusterStatus
from penstock.model.failures import Notice

SHOWN = 10
"""Rows before the rest are only counted."""


def announced(notice: Notice, now: datetime) -> str:
    """`maintenance announced for 14:05:00Z (in 12m)`."""
    return f"{notice.kind.noun} announced for {_moment(notice.until, now)}"


def notices_view(status: ClusterStatus, now: datetime) -> Iterator[RenderableType]:
    """A row per slice, the soonest first; nothing if nothing is announced."""
    if not status.notices:
        return
    table = titled("Announced by the cloud")
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("notice", overflow="fold")
    table.add_column("at", no_wrap=True)
    for notice in status.notices[:SHOWN]:
        table.add_row(escape(notice.slice_id), f"[yellow]{notice.kind.noun}[/]", _moment(notice.until, now))
    more = status.notices_in_all - len(status.notices[:SHOWN])
    if more > 0:
        table.caption = f"and {more:,} more"
    yield table


def _moment(at: datetime, now: datetime) -> str:
    return f"{clock(at, now)} ({f'in {lapse(now, at)}' if at > now else 'now'})"
