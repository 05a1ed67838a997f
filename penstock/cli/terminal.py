"""Terminal output: its width, tables that keep names whole, prose, JSON, and the format of times and durations."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click
from pydantic import BaseModel, JsonValue
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from penstock.model.units import format_seconds

PIPED_WIDTH = 100
"""Width if the output is not a terminal and COLUMNS is not set, so that tables in files and pipes stay readable."""
_FEW_WORDS = 16
"""The least width of a column of sentences."""
_BRIEF = 24
"""In paragraphs, cells up to this width share a line."""
_INDENT = "  "
_WORD = re.compile(r"\S+\s*")


def terminal(*, stderr: bool = False) -> Console:
    """The console to print on: COLUMNS wide, else as wide as the terminal, else `PIPED_WIDTH`."""
    console = _Terminal(highlight=False, emoji=False, stderr=stderr)
    if console.is_terminal or has_columns():
        return console
    return _Terminal(highlight=False, emoji=False, stderr=stderr, width=PIPED_WIDTH)


def has_columns() -> bool:
    """Whether the environment sets a width."""
    return os.environ.get("COLUMNS", "").isdigit()


class _Terminal(Console):
    """A console that never crops: a name longer than the line overflows."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False} | options)


def titled(title: str, *, style: str = "bold", key: int = 0) -> "Listing":
    """An empty table with a title; `key` is the column that names a row."""
    return Listing(key, title=title, title_justify="left", title_style=style)


class Prose:
    """Markup folded at spaces only: a name or code longer than the line overflows instead of being broken.

    `label` precedes the first line; the other lines are indented by its width.
    """

    def __init__(self, text: str | Text, *, label: str = "") -> None:
        self._text = Text.from_markup(text, emoji=False) if isinstance(text, str) else text
        self._label = label

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        before, indent = self._label, " " * cell_len(self._label)
        for line in self._text.split("\n", allow_blank=True):
            for part in line.divide(_line_ends(line.plain, options.max_width - len(indent))):
                part.rstrip()
                yield Text(before, no_wrap=True, overflow="ignore").append_text(part)
                before = indent


def _line_ends(text: str, width: int) -> list[int]:
    """The positions at which to fold a text."""
    ends, used = [], 0
    for word in _WORD.finditer(text):
        needed = cell_len(word.group().rstrip())
        if used and used + needed > width:
            ends.append(word.start())
            used = 0
        used += cell_len(word.group())
    return ends


class Listing(Table):
    """A table that keeps names whole; on a terminal too narrow for it, a paragraph for each row."""

    def __init__(self, key: int, **rest: Any) -> None:
        super().__init__(**rest)
        self._key = key

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [[console.render_str(str(cell)) for cell in column.cells] for column in self.columns]
        whole = [
            not any(" " in text for text in (str(column.header), *(cell.plain for cell in cells)))
            for column, cells in zip(self.columns, columns, strict=True)
        ]
        needs = [_least_width(column, cells) for column, cells in zip(self.columns, columns, strict=True)]
        available = options.max_width - 3 * len(needs) - 1
        if sum(needs) > available:
            yield from self._paragraphs(columns)
            return
        for column, stays, width in zip(self.columns, whole, _widths(self.columns, columns, needs, available), strict=True):
            column.no_wrap = column.no_wrap or stays
            column.width = width
        yield from super().__rich_console__(console, options)

    def _paragraphs(self, columns: list[list[Text]]) -> Iterator[RenderableType]:
        headers = [str(column.header) for column in self.columns]
        others = [c for c in range(len(columns)) if c != self._key]
        brief = [c for c in others if max((cell.cell_len for cell in columns[c]), default=0) <= _BRIEF]
        yield Text.from_markup(str(self.title), emoji=False, style=self.title_style or "")
        for row in zip(*columns, strict=True):
            yield Prose(row[self._key])
            if brief:
                yield Prose(Text(", ").join(Text(f"{headers[c]} ").append_text(row[c]) for c in brief), label=_INDENT)
            for c in (c for c in others if c not in brief):
                yield Prose(Text(f"{headers[c]}: ").append_text(row[c]), label=_INDENT)
        if self.caption:
            yield Prose(Text(str(self.caption), style="dim italic"))


def _widths(columns: Sequence[Column], cells: list[list[Text]], needs: list[int], available: int) -> list[int]:
    """The width of each column: the least it needs, plus a share of the spare width in proportion to its longest cell.

    Rich's own distribution breaks words in a column whose neighbour has a longer text.
    """
    wanted = [max([cell_len(str(column.header)), *(cell.cell_len for cell in cells[c])]) for c, column in enumerate(columns)]
    missing = [max(0, want - need) for want, need in zip(wanted, needs, strict=True)]
    share = min(1.0, (available - sum(needs)) / max(1, sum(missing)))
    return [need + int(lack * share) for need, lack in zip(needs, missing, strict=True)]


def _least_width(column: Column, cells: list[Text]) -> int:
    """The width a column needs to be readable: every word whole, and a few of them in a line."""
    longest = max((cell.cell_len for cell in cells), default=0)
    words = [word for cell in (str(column.header), *(cell.plain for cell in cells)) for word in cell.split()]
    return max(longest if column.no_wrap else min(longest, _FEW_WORDS), *map(cell_len, words))


def print_json(value: BaseModel, **beside: JsonValue) -> None:
    """Print a value as JSON, with further keys beside its own."""
    print_json_data(value.model_dump(mode="json") | beside)


def print_json_data(data: object) -> None:
    """Print data that JSON can hold."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def moment(at: datetime) -> str:
    """A date and time in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def clock(at: datetime, now: datetime) -> str:
    """A time in UTC, with its date unless that is today."""
    return f"{at:%H:%M:%S}Z" if at.date() == now.date() else moment(at)


def lapse(start: datetime, end: datetime) -> str:
    """The duration between two times; 0s if clocks disagree about their order."""
    return format_seconds(max(0.0, (end - start).total_seconds()))
