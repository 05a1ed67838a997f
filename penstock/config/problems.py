"""Mistakes in files, told so that they can be mended: file, line, path, value and fix."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from penstock.contract.problems import message_of, path_text
from penstock.model.cluster import DISAGREEMENT, Where


class Problem(NamedTuple):
    """One mistake and its place."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class BadInput(Exception):
    """A file that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def problems_of(error: ValidationError, model: type[BaseModel], file: str, lines: Mapping[Where, int]) -> list[Problem]:
    """What a validation found, in words for the person who wrote the file."""
    details = [detail for detail in error.errors(include_url=False) if detail["type"] != DISAGREEMENT]
    return [Problem(file, line_of(d["loc"], lines), path_text(d["loc"]), message_of(d, model)) for d in details]


def line_of(where: Where, lines: Mapping[Where, int]) -> int | None:
    """The line of a path, or of the nearest part of the file that contains it."""
    for end in range(len(where), -1, -1):
        if where[:end] in lines:
            return lines[where[:end]]
    return None
