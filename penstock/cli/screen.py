"""The terminal: its width, its tables, and how moments and durations are written on it."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from pydantic import BaseModel, JsonValue
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from penstock.model.units import format_seconds

NARROWEST = 100
"""Columns assumed where the output is no terminal, so that tables in files and pipes stay readable."""
_FEW_WORDS = 16
"""Columns that a text needs at least to be read as one."""
_BRIEF = 24
"""Cells of a column up to this width stand beside others in one line."""
_INDENT = (0, 0, 0, 2)


def screen(*, stderr: bool = False) -> Console:
    """Where tables go: as wide as the terminal, or wide enough to be read elsewhere."""
    console = Console(highlight=False, emoji=False, stderr=stderr)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, stderr=stderr, width=max(console.width, NARROWEST))


def titled(title: str, *, style: str = "bold", key: int = 0) -> "Listing":
    """An empty table under its title, whose rows are known by the column `key`."""
    return Listing(key, title=title, title_justify="left", title_style=style)


class Listing(Table):
    """A table in which names stay whole; on a screen too narrow for it a paragraph for each row, under the row's name."""

    def __init__(self, key: int, **rest: Any) -> None:
        super().__init__(**rest)
        self._key = key

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [[console.render_str(str(cell)) for cell in column.cells] for column in self.columns]
        whole = [not any(" " in cell.plain for cell in cells) for cells in columns]
        needs = [_need(column, cells) for column, cells in zip(self.columns, columns, strict=True)]
        if sum(needs) + 3 * len(needs) + 1 > options.max_width:
            yield from self._paragraphs(columns)
            return
        for column, stays in zip(self.columns, whole, strict=True):
            column.no_wrap = column.no_wrap or stays
        yield from super().__rich_console__(console, options)

    def _paragraphs(self, columns: list[list[Text]]) -> Iterator[RenderableType]:
        headers = [str(column.header) for column in self.columns]
        others = [c for c in range(len(columns)) if c != self._key]
        brief = [c for c in others if max((cell.cell_len for cell in columns[c]), default=0) <= _BRIEF]
        yield Text.from_markup(str(self.title), style=self.title_style or "")
        for row in zip(*columns, strict=True):
            yield row[self._key]
            if brief:
                yield Padding(Text(", ").join(Text(f"{headers[c]} ").append_text(row[c]) for c in brief), _INDENT)
            for c in (c for c in others if c not in brief):
                yield Padding(Text(f"{headers[c]}: ").append_text(row[c]), _INDENT)
        if self.caption:
            yield Text(str(self.caption), style="dim italic")


def _need(column: Column, cells: list[Text]) -> int:
    """The least width at which a column can be read: its words whole, and a few of them in a line."""
    longest = max((cell.cell_len for cell in cells), default=0)
    words = [word for cell in (str(column.header), *(cell.plain for cell in cells)) for word in cell.split()]
    return max(longest if column.no_wrap else min(longest, _FEW_WORDS), *map(cell_len, words))


def print_json(value: BaseModel, **beside: JsonValue) -> None:
    """Print a value for programs, with what follows from it beside it."""
    click.echo(json.dumps(value.model_dump(mode="json") | beside, indent=2, ensure_ascii=False))


def entries(count: int) -> str:
    """So many entries, in words."""
    return "1 entry" if count == 1 else f"{count:,} entries"


def moment(at: datetime) -> str:
    """A moment with its day, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def clock(at: datetime, now: datetime) -> str:
    """A moment, without its day if that is today."""
    return f"{at:%H:%M:%S}Z" if at.date() == now.date() else moment(at)


def lapse(start: datetime, end: datetime) -> str:
    """How long it is from one moment to another; clocks that disagree give none."""
    return format_seconds(max(0.0, (end - start).total_seconds()))
