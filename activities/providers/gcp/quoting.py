"""What Google says of an order, without what the order holds in confidence: refusals quote the values that they refuse."""

import html
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from activities.providers.gcp.naming import RESERVED
from activities.providers.port import ProviderError

_SHORTEST_LINE = 6
"""Characters of a line of a secret that is hidden by itself: shorter ones are words that messages are made of."""
_SHORTEST_VALUE = 4
"""Characters of metadata that are hidden when it is not known which of them are secret: no secret is shorter, and `1` is none."""
_SHORTEST_HEAD = 8
"""Characters of the beginning by which a secret is known that is quoted in part: long values are cut off."""
_HIDDEN = "(secret)"
_OWN = "PENSTOCK_"


@contextmanager
def unspoken(secrets: Iterable[str]) -> Iterator[None]:
    """Raise errors without the secrets."""
    try:
        yield
    except ProviderError as error:
        error.args = (without(str(error), secrets),)
        raise


def without(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets and their lines, as they are or as shells, JSON and HTML write them, whole or cut off."""
    whole = set(secrets)
    lines = {line.strip() for secret in whole for line in secret.splitlines()}
    parts = whole | {line for line in lines if len(line) >= _SHORTEST_LINE}
    forms = sorted({form for part in parts if part for form in _forms(part)}, key=lambda form: (-len(form), form))
    for form in forms:
        text = text.replace(form, _HIDDEN)
    return _without_beginnings(text, forms)


def without_metadata(text: str, metadata: Mapping[str, str]) -> str:
    """The text without what a resource's metadata hold, secret or not: for who sees the resource and not its order."""
    told = {value for key, value in metadata.items() if not key.startswith(RESERVED)}
    told |= {value for script in told for value in _exported(script)}
    return without(text, (value for value in told if len(value) >= _SHORTEST_VALUE))


def _exported(script: str) -> Iterator[str]:
    """The values that a start-up script exports in its first lines, one for each line or several."""
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
    """How a secret may be written: by itself or exported by a shell, and each as it is or escaped for another text."""
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
"""As it is, as HTML, as JSON, as protocol buffers are printed, and between single quotes."""


def _without_beginnings(text: str, forms: Iterable[str]) -> str:
    """The text without pieces that begin as one of the forms does, as far as they agree with it."""
    heads: dict[str, list[str]] = {}
    for form in forms:
        if len(form) > _SHORTEST_HEAD:
            heads.setdefault(form[:_SHORTEST_HEAD], []).append(form)
    said, at = [], 0
    while at < len(text):
        known = heads.get(text[at : at + _SHORTEST_HEAD], ())
        agreeing = max((_agreeing(text[at:], form) for form in known), default=0)
        said.append(_HIDDEN if agreeing else text[at])
        at += agreeing or 1
    return "".join(said)


def _agreeing(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
