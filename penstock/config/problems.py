"""Problems of files: file, line, path, value and fix."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from penstock.contract.problems import message_of, path_text
from penstock.model.cluster import DISAGREEMENT, Where


class Problem(NamedTuple):
    """One problem, and where it is."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class BadInput(Exception):
    """Files cannot be used; carries all of their problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def problems_of(error: ValidationError, model: type[BaseModel], file: str, lines: Mapping[Where, int]) -> list[Problem]:
    """The errors of a validation as problems of a file."""
    details = [detail for detail in error.errors(include_url=False) if detail["type"] != DISAGREEMENT]
    return [Problem(file, line_of(d["loc"], lines), path_text(d["loc"]), message_of(d, model)) for d in details]


def line_of(where: Where, lines: Mapping[Where, int]) -> int | None:
    """The line of a path, or of the innermost part of the file that contains it."""
    for end in range(len(where), -1, -1):
        if where[:end] in lines:
            return lines[where[:end]]
    return None
