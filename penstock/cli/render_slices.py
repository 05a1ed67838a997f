"""Slices as a table."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.render_status import STATE_STYLE
from penstock.cli.screen import lapse, titled
from penstock.contract.answers import SlicePage
from penstock.wording import counted


def slices_view(page: SlicePage, now: datetime) -> RenderableType:
    """One page of slices, oldest order first."""
    if not page.total:
        return "No slices."
    if not page.slices:
        return f"There is no page {page.page:,}: {counted(page.total, 'slice')} on {counted(page.pages, 'page')}."
    table = titled("Slices")
    named = all(piece.id.startswith(f"{piece.group}-") for piece in page.slices)  # then a column for the group only costs room
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("for", justify="right", no_wrap=True)
    if not named:
        table.add_column("group", overflow="fold")
    for piece in page.slices:
        state = f"[{STATE_STYLE[piece.state]}]{piece.state}[/]" + (" (queued)" if piece.queued else "")
        row = (escape(piece.id), state, lapse(piece.since, now) if piece.since else "–")
        table.add_row(*row, *(() if named else (escape(piece.group),)))
    return Group(table, _foot(page))


def _foot(page: SlicePage) -> str:
    if page.pages <= 1:
        return f"{counted(page.total, 'slice')}."
    further = f": --page {page.page + 1} shows more" if page.page < page.pages else ""
    return f"{page.total:,} slices, page {page.page:,} of {page.pages:,}{further}."
