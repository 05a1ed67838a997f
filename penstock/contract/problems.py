"""Mistakes in messages and files, in words that name the field and the fix."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.model.cluster import Where

_SHOWN = 60
"""Characters of an offending value that are shown."""
_TOLD = 5
"""Mistakes of one message that are told; whoever mends them sees the others next time."""

T = TypeVar("T", bound=BaseModel)


class BadMessage(ValueError):  # noqa: N818 - it says what was given, not what went wrong inside
    """A message that cannot be used, and why."""


def read(model: type[T], raw: bytes) -> T:
    """The message in some JSON; raises `BadMessage` with what is wrong with it."""
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise BadMessage(told(error, model)) from None


def told(error: ValidationError, model: type[BaseModel]) -> str:
    """What a validation found, in one line."""
    details = error.errors(include_url=False)
    found = [f"{path_text(d['loc'])}: {message_of(d, model)}" if d["loc"] else message_of(d, model) for d in details[:_TOLD]]
    return "; ".join(found) + (f"; and {len(details) - _TOLD} more" if len(details) > _TOLD else "")


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
