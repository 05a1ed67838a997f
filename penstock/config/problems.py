"""Problems of files: file, line, path, value and fix."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from penstock.contract.problems import LONGEST_PROBLEM, UNKNOWN_KEY, message_of, path_text
from penstock.model.cluster import DISAGREEMENT, Where
from penstock.wording import clipped

_LONGEST_PLACE = 200
"""Characters printed of a file's name and of a path in it: keys may be as long as the file."""
_HINTED = 100
"""Unknown keys of one file that are compared with the known ones, which takes a tenth of a millisecond each."""


class Problem(NamedTuple):
    """One problem, and where it is."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        file, path = clipped(self.file, _LONGEST_PLACE), clipped(self.path, _LONGEST_PLACE)
        parts = (file if self.line is None else f"{file}:{self.line}", path, clipped(self.message, LONGEST_PROBLEM))
        return ": ".join(part for part in parts if part)


class BadInput(Exception):
    """Files cannot be used; carries all of their problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def problems_of(error: ValidationError, model: type[BaseModel], file: str, lines: Mapping[Where, int]) -> list[Problem]:
    """The errors of a validation as problems of a file."""
    details = [detail for detail in error.errors(include_url=False) if detail["type"] != DISAGREEMENT]
    unknown = [i for i, detail in enumerate(details) if detail["type"] == UNKNOWN_KEY]
    unhinted = set(unknown[_HINTED:])
    return [
        Problem(file, line_of(d["loc"], lines), path_text(d["loc"]), "unknown key" if i in unhinted else message_of(d, model))
        for i, d in enumerate(details)
    ]


def line_of(where: Where, lines: Mapping[Where, int]) -> int | None:
    """The line of a path, or of the innermost part of the file that contains it."""
    for end in range(len(where), -1, -1):
        if where[:end] in lines:
            return lines[where[:end]]
    return None
