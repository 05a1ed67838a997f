"""Mistakes in messages and files, in words that name the field and the fix."""

import re
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
_MOMENT = "a moment like 2026-11-17T05:00:00Z"
_SHOULD_BE = {
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "less than {lt:g}",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "string_too_long": "at most {max_length} characters long",
    "finite_number": "a finite number",
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
}
"""What a value should be instead, by the kind of its mistake."""
_NAME = re.compile(r"\^\[a-z0-9\]\(\[-a-z0-9(?P<more>[_.]+)\]")
"""How the patterns of names begin; what they allow beside letters, digits and dashes differs."""

T = TypeVar("T", bound=BaseModel)


class BadMessage(ValueError):
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
    if kind in ("string_type", "string_too_short"):
        return _no_text(value)
    if kind == "string_pattern_mismatch":
        return _misspelt(str(value), detail["ctx"]["pattern"])
    if kind in _SHOULD_BE:
        return f"should be {_SHOULD_BE[kind].format(**detail.get('ctx', {}))}, not {_shown(value)}"
    return f"{detail['msg'].removeprefix('Input ')}, not {_shown(value)}"


def _no_text(value: Any) -> str:
    """What is wrong with a value where a text should be."""
    if value is None or value == "":
        return "is empty; write a text"
    if isinstance(value, list | dict):
        return f"should be a text, not {_shown(value)}"
    return f'{_shown(value)} is not a text; put it in quotes: "{_cut(str(value).lower())}"'


def _misspelt(text: str, pattern: str) -> str:
    """What a text may be made of, where it is made of something else."""
    name = _NAME.match(pattern)
    if name is None:
        return f"{_shown(text)} has characters that nobody sees, such as tabs or ends of lines; remove them"
    allowed = " ".join(("-", *name["more"]))
    like = re.sub(rf"[^a-z0-9{name['more']}]+", "-", text.lower()[:_SHOWN]).strip("-_.")
    hint = f"; write it like {like}" if like else ""
    return f"{_shown(text)} may have only lower-case letters, digits and {allowed}, with a letter or digit first and last{hint}"


def _shown(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
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
