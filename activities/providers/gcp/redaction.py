"""Removal of secrets from Google's error messages, which quote the values that they refuse."""

import html
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from activities.providers.gcp.naming import RESERVED
from activities.providers.port import ProviderError

_SHORTEST_LINE = 6
"""Shortest line of a secret that is hidden by itself: shorter ones are common words."""
_SHORTEST_VALUE = 4
"""Shortest metadata value that is hidden when it is unknown which values are secret."""
_SHORTEST_HEAD = 8
"""Characters by which a truncated quotation of a secret is recognised: Google cuts long values off."""
_HIDDEN = "(secret)"
_OWN = "PENSTOCK_"


@contextmanager
def redacted(secrets: Iterable[str]) -> Iterator[None]:
    """Remove the secrets from errors raised inside."""
    try:
        yield
    except ProviderError as error:
        error.args = (redact(str(error), secrets),)
        raise


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets and their lines: plain or escaped for a shell, JSON or HTML, whole or cut off."""
    whole = set(secrets)
    lines = {line.strip() for secret in whole for line in secret.splitlines()}
    parts = whole | {line for line in lines if len(line) >= _SHORTEST_LINE}
    forms = sorted({form for part in parts if part for form in _forms(part)}, key=lambda form: (-len(form), form))
    for form in forms:
        text = text.replace(form, _HIDDEN)
    return _without_beginnings(text, forms)


def redact_metadata(text: str, metadata: Mapping[str, str]) -> str:
    """The text without any metadata values of the resource, for callers that cannot know which of them are secret."""
    values = {value for key, value in metadata.items() if not key.startswith(RESERVED)}
    values |= {value for script in values for value in _exported(script)}
    return redact(text, (value for value in values if len(value) >= _SHORTEST_VALUE))


def _exported(script: str) -> Iterator[str]:
    """The values that a start-up script exports in its first lines; a value may span several lines."""
    for statement in script.split("\nexport ")[1:]:
        name, _, value = statement.partition("=")
        if not name.startswith(_OWN):
            yield from _unquoted(value)


def _unquoted(value: str) -> Iterator[str]:
    try:
        yield from shlex.split(value)[:1]
    except ValueError:
        yield value.partition("\n")[0]


def _forms(secret: str) -> set[str]:
    """The spellings of a secret: plain or quoted by a shell, and each of them escaped in every known way."""
    exported = secret.replace("'", "'\"'\"'")
    return {escaped(form) for form in (secret, exported) for escaped in _ESCAPED}


_ESCAPED: tuple[Callable[[str], str], ...] = (
    str,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("'", "\\'"),
    lambda text: text.replace("\\", "\\\\").replace("'", "\\'"),
)
"""Plain, as HTML, as JSON, as protocol buffers print it, and inside single quotes."""


def _without_beginnings(text: str, forms: Iterable[str]) -> str:
    """The text without prefixes of the forms that are at least `_SHORTEST_HEAD` characters long."""
    heads: dict[str, list[str]] = {}
    for form in forms:
        if len(form) > _SHORTEST_HEAD:
            heads.setdefault(form[:_SHORTEST_HEAD], []).append(form)
    kept, at = [], 0
    while at < len(text):
        known = heads.get(text[at : at + _SHORTEST_HEAD], ())
        agreeing = max((_agreeing(text[at:], form) for form in known), default=0)
        kept.append(_HIDDEN if agreeing else text[at])
        at += agreeing or 1
    return "".join(kept)


def _agreeing(one: str, other: str) -> int:
    """The length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
