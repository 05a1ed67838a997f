"""Mistakes in messages and files, in words that name the field and the fix."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.model.cluster import Where
from penstock.model.demand import MOST_TASKS
from penstock.model.packed import LONGEST_COLUMN

_SHOWN = 60
"""Characters of an offending value that are shown."""
_KEYS = 5
"""Keys that an object is told by."""
_TOLD = 5
"""Mistakes of one message that are told; whoever mends them sees the others next time."""
LONGEST_PROBLEM = 500
"""Characters of what is said about one message or task: it is kept in the state, and what was sent may be megabytes."""
LONGEST_NAME = 100
"""Characters that are kept of a message's name: a signal may have any."""

T = TypeVar("T", bound=BaseModel)


class BadMessage(ValueError):  # noqa: N818 - it says what was given, not what went wrong inside
    """A message that cannot be used, and why."""


def read(model: type[T], raw: bytes) -> T:
    """The message in some JSON; raises `BadMessage` with what is wrong with it."""
    try:
        return model.model_validate_json(raw, context={LONGEST_COLUMN: MOST_TASKS})
    except ValidationError as error:
        raise BadMessage(told(error, model)) from None


def told(error: ValidationError, model: type[BaseModel]) -> str:
    """What a validation found, in one line."""
    return in_words(error.errors(include_url=False), model)


def in_words(details: Sequence[ErrorDetails], model: type[BaseModel]) -> str:
    """The first mistakes, in one line."""
    found = [f"{path_text(d['loc'])}: {message_of(d, model)}" if d["loc"] else message_of(d, model) for d in details[:_TOLD]]
    more = f"; and {len(details) - _TOLD} more" if len(details) > _TOLD else ""
    return shortened("; ".join(found), LONGEST_PROBLEM - len(more)) + more


def shortened(text: str, longest: int = LONGEST_PROBLEM) -> str:
    """The text, or its beginning if it is longer."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def path_text(where: Iterable[str | int]) -> str:
    """`groups[2].host.memory` for (groups, 2, host, memory)."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def message_of(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """One mistake in words: what is wrong, and what to write instead."""
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        known = _known_keys(model, detail["loc"][:-1])
        close = get_close_matches(str(detail["loc"][-1])[:_SHOWN], known, n=1)
        return "unknown key; " + (f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}")
    if kind == "model_type" and (known := _known_keys(model, detail["loc"])):
        return f"should be an object with keys such as {', '.join(known[:_KEYS])}, not {_shown(value)}"
    if kind == "missing":
        return "is missing; add it"
    if kind in ("value_error", "assertion_error"):
        return str(detail["ctx"]["error"])
    return f"{detail['msg']}, not {_shown(value)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@cache
def _schema(model: type[BaseModel]) -> Any:
    """The model's schema, made once: it takes milliseconds, and a message may have a mistake in every task."""
    return model.model_json_schema()


def _known_keys(model: type[BaseModel], where: Where) -> list[str]:
    """The keys that are allowed at a path, found by walking the model's schema."""
    node = _schema(model)
    definitions = node.get("$defs", {})
    for part in where:
        node = _resolve(node, definitions, "items" if isinstance(part, int) else "properties")
        if isinstance(part, int):
            node = node.get("items") or (node.get("prefixItems") or [{}])[0]
        elif part in node.get("properties", {}):
            node = node["properties"][part]
        elif isinstance(node.get("additionalProperties"), dict):
            node = node["additionalProperties"]
    return sorted(_resolve(node, definitions, "properties").get("properties", {}))


def _resolve(node: Any, definitions: Any, wanted: str) -> Any:
    """Follow references and optional values to the object or list behind them; where either may be, to the one that is wanted."""
    while True:
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            options = [_resolve(option, definitions, wanted) for option in node["anyOf"]]
            fitting = [option for option in options if option.keys() & {"properties", "items"}]
            node = next((option for option in fitting if wanted in option), fitting[0] if fitting else {})
        elif "allOf" in node:
            node = node["allOf"][0]
        else:
            return node
