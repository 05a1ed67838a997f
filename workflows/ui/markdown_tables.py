"""Tables in Markdown, as the Temporal UI draws them."""

from collections.abc import Iterable, Mapping
from typing import Literal

GAP = "\N{EM SPACE}"
"""Ends every cell: the UI draws tables without lines, and without any space between two columns."""
Columns = Mapping[str, Literal["left", "right"]]
"""Their names, and to which side each leans."""
_RULES = {"left": "---", "right": "--:"}


def head(columns: Columns) -> list[str]:
    """The first two lines. No name is broken in two."""
    names = [name.replace(" ", "\N{NO-BREAK SPACE}") for name in columns]
    return [row(names), f"|{'|'.join(_RULES[side] for side in columns.values())}|"]


def row(cells: Iterable[object]) -> str:
    """One line of a table."""
    return f"| {' | '.join(f'{cell}{GAP}' for cell in cells)} |"


def cell(text: str) -> str:
    """Words from outside, so that they stay in their cell and on their line."""
    return " ".join(text.split()).replace("|", "\\|")
