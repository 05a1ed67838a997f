"""The terminal: its width, its tables, and how moments and durations are written on it."""

import json
from datetime import datetime

import click
from pydantic import BaseModel, JsonValue
from rich.console import Console
from rich.table import Table

from penstock.model.units import format_seconds

NARROWEST = 100
"""Columns assumed where the output is no terminal, so that tables in files and pipes stay readable."""


def screen(*, stderr: bool = False) -> Console:
    """Where tables go: as wide as the terminal, or wide enough to be read elsewhere."""
    console = Console(highlight=False, emoji=False, stderr=stderr)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, stderr=stderr, width=max(console.width, NARROWEST))


def titled(title: str, *, style: str = "bold") -> Table:
    """An empty table under its title."""
    return Table(title=title, title_justify="left", title_style=style)


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
