"""Mistakes in files, told so that they can be mended: file, line, path, value and fix."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.model.cluster import DISAGREEMENT, Where

_SHOWN = 60
"""Characters of an offending value that are shown."""


class Problem(NamedTuple):
    """One mistake and its place."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class BadInput(Exception):  # noqa: N818 - it says what was given, not what went wrong inside
    """A file that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def problems_of(error: ValidationError, model: type[BaseModel], file: str, lines: Mapping[Where, int]) -> list[Problem]:
    """What a validation found, in words for the person who wrote the file."""
    details = [detail for detail in error.errors(include_url=False) if detail["type"] != DISAGREEMENT]
    return [Problem(file, line_of(d["loc"], lines), path_text(d["loc"]), _message(d, model)) for d in details]


def path_text(where: Iterable[str | int]) -> str:
    """`groups[2].host.memory` for (groups, 2, host, memory)."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def line_of(where: Where, lines: Mapping[Where, int]) -> int | None:
    """The line of a path, or of the nearest part of the file that contains it."""
    for end in range(len(where), -1, -1):
        if where[:end] in lines:
            return lines[where[:end]]
    return None


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        known = _known_keys(model, detail["loc"][:-1])
        close = get_close_matches(str(detail["loc"][-1]), known, n=1)
        return "unknown key; " + (f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}")
    if kind == "missing":
        return "is missing; add it"
    if kind in ("value_error", "assertion_error"):
        return str(detail["ctx"]["error"])
    shown = repr(value)
    return f"{detail['msg']}, not {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}"


def _known_keys(model: type[BaseModel], where: Where) -> list[str]:
    """The keys that are allowed at a path, found by walking the model's schema."""
    schema: Any = model.model_json_schema()
    definitions = schema.get("$defs", {})
    node = schema
    for part in where:
        node = _resolve(node, definitions)
        if isinstance(part, int):
            node = node.get("items") or (node.get("prefixItems") or [{}])[0]
        elif part in node.get("properties", {}):
            node = node["properties"][part]
        elif isinstance(node.get("additionalProperties"), dict):
            node = node["additionalProperties"]
    return sorted(_resolve(node, definitions).get("properties", {}))


def _resolve(node: Any, definitions: Any) -> Any:
    """Follow references and optional values to the object or list behind them."""
    while True:
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            options = [_resolve(option, definitions) for option in node["anyOf"]]
            node = next((option for option in options if option.keys() & {"properties", "items"}), {})
        elif "allOf" in node:
            node = node["allOf"][0]
        else:
            return node
