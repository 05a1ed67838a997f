"""Markdown tables for the Temporal UI."""

from collections.abc import Iterable, Mapping
from typing import Literal

GAP = "\N{EM SPACE}"
"""Ends every cell, because the UI draws tables without lines or space between columns."""
Columns = Mapping[str, Literal["left", "right"]]
"""Names of columns and their alignment."""
_RULES = {"left": "---", "right": "--:"}


def head(columns: Columns) -> list[str]:
    """The two header lines. No name is wrapped."""
    names = [name.replace(" ", "\N{NO-BREAK SPACE}") for name in columns]
    return [row(names), f"|{'|'.join(_RULES[side] for side in columns.values())}|"]


def row(cells: Iterable[object]) -> str:
    """One line of a table."""
    return f"| {' | '.join(f'{cell}{GAP}' for cell in cells)} |"


def cell(text: str) -> str:
    """Text from outside, escaped so that it stays in its cell and on its line."""
    return " ".join(text.split()).replace("|", "\\|")
