"""Describe pydantic validation errors in sentences that name the field, its value and the fix."""

import re
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock import wording
from penstock.model.cluster import DISAGREEMENT, Where
from penstock.model.packed import LONGEST_COLUMN
from penstock.model.shape import MOST_TASKS
from penstock.wording import did_you_mean

_SHOWN = 60
"""Characters of an offending value that are shown."""
_KEYS = 5
"""Keys listed as examples of what an object may contain."""
_DESCRIBED = 5
"""Errors of one message that are described; the rest are only counted."""
LONGEST_PROBLEM = 500
"""Characters kept of the description of one message or task: it is stored in the state, while the message may be megabytes."""
_LONGEST_SENTENCE = 300
"""Characters kept of one validator's sentence, which may quote a value of any length."""
LONGEST_NAME = 100
"""Characters kept of a message's name: a signal may have any name."""
UNKNOWN_KEY = "extra_forbidden"
"""Pydantic's error type for a key that the model does not have."""
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
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
}
"""The expected value, by pydantic's error type."""
_NAME = re.compile(r"\^\[a-z0-9\]\(\[-a-z0-9(?P<more>[_.]+)\]")
"""Start of the patterns of names. `more` are the allowed characters other than letters, digits and dashes."""

T = TypeVar("T", bound=BaseModel)


class BadMessage(ValueError):
    """A message is invalid; the text is the reason."""


def read(model: type[T], raw: bytes) -> T:
    """Parse JSON into a message; raises `BadMessage` with a description of every error."""
    try:
        return model.model_validate_json(raw, context={LONGEST_COLUMN: MOST_TASKS})
    except ValidationError as error:
        raise BadMessage(describe_errors(error.errors(include_url=False), model)) from None


def describe_errors(details: Sequence[ErrorDetails], model: type[BaseModel]) -> str:
    """The first errors in one line, and how many more there are."""
    found = [f"{path_text(d['loc'])}: {message_of(d, model)}" if d["loc"] else message_of(d, model) for d in details[:_DESCRIBED]]
    more = f"; and {len(details) - _DESCRIBED} more" if len(details) > _DESCRIBED else ""
    return shortened("; ".join(found), LONGEST_PROBLEM - len(more)) + more


def shortened(text: str, longest: int = LONGEST_PROBLEM) -> str:
    """The text, cut to the length that is stored."""
    return wording.shortened(text, longest)


def path_text(where: Iterable[str | int]) -> str:
    """`groups[2].host.memory` for (groups, 2, host, memory)."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def message_of(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """One error as a sentence: the problem, and what to write instead."""
    kind, value = detail["type"], detail["input"]
    if kind == UNKNOWN_KEY:
        known = known_keys(model, detail["loc"][:-1])
        return f"unknown key; {did_you_mean(str(detail['loc'][-1]), known, noun='known keys', listing=len(known))}"
    if kind == "model_type" and (known := known_keys(model, detail["loc"])):
        return f"should be an object with keys such as {', '.join(known[:_KEYS])}, not {_shown(value)}"
    if kind == "missing":
        return "is missing; add it"
    if kind == DISAGREEMENT:
        return detail["msg"]
    if kind in ("value_error", "assertion_error"):
        return wording.clipped(str(detail["ctx"]["error"]), _LONGEST_SENTENCE)
    if kind == "string_unicode":
        return f"{_shown(value)} contains half of a character (a lone surrogate, or bytes that are not UTF-8); remove it"
    if kind in ("string_type", "string_too_short"):
        return _not_text(value)
    if kind == "string_pattern_mismatch":
        return _bad_characters(str(value), detail["ctx"]["pattern"])
    if kind in _SHOULD_BE:
        return f"should be {_SHOULD_BE[kind].format(**detail.get('ctx', {}))}, not {_shown(value)}"
    return f"{detail['msg'].removeprefix('Input ')}, not {_shown(value)}"


def _not_text(value: Any) -> str:
    """The problem of a value where a text is expected."""
    if value is None or value == "":
        return "is empty; write a text"
    if isinstance(value, list | dict):
        return f"should be a text, not {_shown(value)}"
    return f'{_shown(value)} is not a text; put it in quotes: "{wording.shortened(str(value).lower(), _SHOWN)}"'


def _bad_characters(text: str, pattern: str) -> str:
    """The error for a text with characters that are not allowed, with a suggestion."""
    name = _NAME.match(pattern)
    if name is None:
        return f"{_shown(text)} contains control characters, such as tabs or newlines; remove them"
    allowed = " ".join(("-", *name["more"]))
    like = re.sub(rf"[^a-z0-9{name['more']}]+", "-", text.lower()[:_SHOWN]).strip("-_.")
    hint = f"; write it like {like}" if like else ""
    return f"{_shown(text)} may have only lower-case letters, digits and {allowed}, with a letter or digit first and last{hint}"


def _shown(value: Any) -> str:
    return wording.shortened(repr(value), _SHOWN)


def known_keys(model: type[BaseModel], where: Where) -> list[str]:
    """The keys allowed at a path of a model, sorted; none if the path leads to no object.

    A step that the types do not have is skipped: pydantic puts the names of union members into paths.
    """
    options = [model]
    for step in where:
        options = [inner for option in options for inner in _inside(option, step)] or options
    return sorted({field.alias or name for option in options if _is_model(option) for name, field in option.model_fields.items()})


def _inside(option: Any, step: str | int) -> Iterator[Any]:
    """The types one step into a type: the items of a list, the value of a dictionary, or the field of a model."""
    origin, arguments = get_origin(option), get_args(option)
    if isinstance(step, int):
        if origin in (list, tuple):
            yield from _alternatives(arguments[0])
    elif origin is dict:
        yield from _alternatives(arguments[1])
    elif _is_model(option):
        for name, field in option.model_fields.items():
            if (field.alias or name) == step:
                yield from _alternatives(field.annotation)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The plain types behind `Annotated`, optional and union types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _alternatives(member)
    else:
        yield annotation


def _is_model(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, BaseModel)
