"""Compute's list filters: `labels.k=v AND (status = RUNNING OR status = STAGING) AND NOT labels.tpu:*`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from emulators.gcp import wording

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>\(|\)|AND\b|OR\b|NOT\b|-(?=[(\w]))
      | (?P<field>[A-Za-z][\w.-]*)\s*(?P<sign>!=|=|:|\beq\b|\bne\b)\s*(?P<value>"[^"]*"|'[^']*'|[^\s()]+)
    )""",
    re.VERBOSE,
)

Test = Callable[[Mapping[str, Any]], bool]


def parse_filter(text: str) -> Test:
    """What a filter asks of an item; refused as Google refuses it if it cannot be read."""
    tokens = _tokens(text)
    if not tokens:
        return lambda _: True
    parser = _Parser(text, tokens)
    test = parser.either()
    if parser.left():
        raise _unreadable(text)
    return test


def _tokens(text: str) -> list[re.Match[str]]:
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise _unreadable(text)
        found.append(match)
        place = match.end()
    return found


def _unreadable(text: str) -> Exception:
    return wording.malformed("filter", text, "Invalid list filter expression.")


class _Parser:
    """Reads `either` of `both` of `one`, so that OR binds least and NOT most; no sign between two is AND."""

    def __init__(self, text: str, tokens: list[re.Match[str]]) -> None:
        self._text = text
        self._tokens = tokens
        self._place = 0

    def left(self) -> bool:
        """Whether there is more to read."""
        return self._place < len(self._tokens)

    def either(self) -> Test:
        """Tests with OR between them."""
        tests = [self._both()]
        while self._next_is("OR"):
            self._place += 1
            tests.append(self._both())
        return lambda item: any(test(item) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self.left() and not self._next_is("OR", ")"):
            self._place += self._next_is("AND")
            tests.append(self._one())
        return lambda item: all(test(item) for test in tests)

    def _one(self) -> Test:
        if not self.left():
            raise _unreadable(self._text)
        token = self._tokens[self._place]
        self._place += 1
        if token["field"] is not None:
            return _comparison(token["field"], token["sign"], token["value"].strip("\"'"))
        if token["word"] in ("NOT", "-"):
            denied = self._one()
            return lambda item: not denied(item)
        if token["word"] != "(":
            raise _unreadable(self._text)
        inner = self.either()
        if not self._next_is(")"):
            raise _unreadable(self._text)
        self._place += 1
        return inner

    def _next_is(self, *words: str) -> bool:
        return self.left() and self._tokens[self._place]["word"] in words


def _comparison(field: str, sign: str, value: str) -> Test:
    def test(item: Mapping[str, Any]) -> bool:
        found = _value_of(item, field)
        if sign == ":":
            return found is not None and (value == "*" or value.strip("*").lower() in found.lower())
        if sign in ("eq", "ne"):
            return (found is not None and re.fullmatch(value, found) is not None) is (sign == "eq")
        return (found is not None and found.lower() == value.lower()) is (sign == "=")

    return test


def _value_of(item: Mapping[str, Any], field: str) -> str | None:
    """What stands in a field of a field; a list or a map is no value, but there."""
    at: Any = item
    for part in field.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return None
        at = at[part]
    return str(at).lower() if isinstance(at, bool) else str(at)
