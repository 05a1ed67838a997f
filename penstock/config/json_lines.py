"""On which line each part of a JSON text stands: looked for only once there is a mistake to tell."""

import json
import re
from typing import NamedTuple

from penstock.model.cluster import Where

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|\n|[^\s{}\[\],:"]+')
"""Strings, brackets, commas, ends of lines, and everything else that is a value; colons tell nothing more."""


class Located(NamedTuple):
    """The line of every part by its path, that of its key where it has one, and each key that its object had already."""

    lines: dict[Where, int]
    repeated: list[tuple[Where, int]]


def located(text: str) -> Located:
    """The lines of a text that is known to be JSON."""
    found = Located({}, [])
    path: list[str | int | None] = []  # one step for each object and list that is open; None before an object's next key
    line = 1
    for part in _PART.findall(text):
        if part == "\n":
            line += 1
        elif part in "]}":
            path.pop()
        elif part == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None:
            path[-1] = json.loads(part)
            _note_key(found, _where(path), line)
        else:
            found.lines.setdefault(_where(path), line)
            path += {"[": (0,), "{": (None,)}.get(part, ())
    return found


def _where(path: list[str | int | None]) -> Where:
    return tuple(step for step in path if step is not None)


def _note_key(found: Located, where: Where, line: int) -> None:
    if where in found.lines:
        found.repeated.append((where, line))
    found.lines[where] = line
