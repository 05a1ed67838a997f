"""Line numbers of the parts of a JSON text, computed only to report a problem."""

import json
import re
from typing import NamedTuple

from penstock.model.cluster import Where

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|\n|[^\s{}\[\],:"]+')
"""Strings, brackets, commas, newlines, and other values; colons are skipped."""


class Located(NamedTuple):
    """The line of every part (of its key, if it has one) by its path, and every repeated key with its line."""

    lines: dict[Where, int]
    repeated: list[tuple[Where, int]]


def located(text: str) -> Located:
    """The lines of valid JSON."""
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
