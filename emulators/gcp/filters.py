"""Parser of Compute's list filters, such as `labels.k=v AND (status = RUNNING OR status = STAGING) AND NOT labels.tpu:*`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from emulators.gcp import error_messages

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>\(|\)|AND\b|OR\b|NOT\b|-(?=[(\w]))
      | (?P<field>[A-Za-z][\w.-]*)\s*(?P<sign>!=|=|:|\beq\b|\bne\b)\s*(?P<value>"[^"]*"|'[^']*'|[^\s()]+)
    )""",
    re.VERBOSE,
)

Test = Callable[[Mapping[str, Any]], bool]


def parse_filter(text: str) -> Test:
    """A predicate over items; raises Google's error if the filter cannot be parsed."""
    tokens = _tokens(text)
    if not tokens:
        return lambda _: True
    parser = _Parser(text, tokens)
    test = parser.any_of()
    if parser.left():
        raise _invalid(text)
    return test


def _tokens(text: str) -> list[re.Match[str]]:
    found, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise _invalid(text)
        found.append(match)
        position = match.end()
    return found


def _invalid(text: str) -> Exception:
    return error_messages.invalid_field("filter", text, "Invalid list filter expression.")


class _Parser:
    """Recursive descent: OR binds weakest, NOT strongest; two comparisons without an operator are joined by AND."""

    def __init__(self, text: str, tokens: list[re.Match[str]]) -> None:
        self._text = text
        self._tokens = tokens
        self._position = 0

    def left(self) -> bool:
        """Whether tokens are left."""
        return self._position < len(self._tokens)

    def any_of(self) -> Test:
        """Comparisons joined by OR."""
        tests = [self._all_of()]
        while self._next_is("OR"):
            self._position += 1
            tests.append(self._all_of())
        return lambda item: any(test(item) for test in tests)

    def _all_of(self) -> Test:
        tests = [self._operand()]
        while self.left() and not self._next_is("OR", ")"):
            self._position += self._next_is("AND")
            tests.append(self._operand())
        return lambda item: all(test(item) for test in tests)

    def _operand(self) -> Test:
        if not self.left():
            raise _invalid(self._text)
        token = self._tokens[self._position]
        self._position += 1
        if token["field"] is not None:
            return _comparison(token["field"], token["sign"], token["value"].strip("\"'"))
        if token["word"] in ("NOT", "-"):
            negated = self._operand()
            return lambda item: not negated(item)
        if token["word"] != "(":
            raise _invalid(self._text)
        inner = self.any_of()
        if not self._next_is(")"):
            raise _invalid(self._text)
        self._position += 1
        return inner

    def _next_is(self, *words: str) -> bool:
        return self.left() and self._tokens[self._position]["word"] in words


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
    """The value at a dotted path as text, None if there is none; a list or a map counts as present."""
    at: Any = item
    for part in field.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return None
        at = at[part]
    return str(at).lower() if isinstance(at, bool) else str(at)
