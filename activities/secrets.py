"""Resolve references to secrets. Configuration and histories hold only references; a worker resolves them when it needs them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from penstock.contract.problems import path_text

_REFERENCE = re.compile(r"env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>.+)")
_WRITTEN = "a secret is written as {secret: env:NAME} or {secret: file:PATH}"


class UnresolvedSecret(Exception):
    """A reference that cannot be resolved, named by its field. The value is not quoted: it may be the secret itself."""


def resolve(value: JsonValue, *, environ: Mapping[str, str] | None = None, where: tuple[str | int, ...] = ()) -> JsonValue:
    """The value with every `{secret: env:NAME}` and `{secret: file:PATH}` in it resolved.

    A trailing line break of a file is not part of the secret. `where` is the path of the value, for messages.
    """
    if isinstance(value, list):
        return [resolve(each, environ=environ, where=(*where, i)) for i, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"secret"}:
        return _resolved(value["secret"], environ=os.environ if environ is None else environ, field=path_text(where))
    return {key: resolve(each, environ=environ, where=(*where, key)) for key, each in value.items()}


def _resolved(reference: JsonValue, *, environ: Mapping[str, str], field: str) -> str:
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None:
        raise UnresolvedSecret(f"{field}: {_WRITTEN}")
    if (variable := found["variable"]) is not None:
        if variable not in environ:
            raise UnresolvedSecret(f"{field}: there is no environment variable {variable} here; set it where the worker runs")
        return environ[variable]
    try:
        return Path(found["file"]).read_text().removesuffix("\n")
    except OSError as error:
        raise UnresolvedSecret(f"{field}: {found['file']} cannot be read here: {error.strerror}") from None
    except ValueError:
        raise UnresolvedSecret(f"{field}: {found['file']} is not text") from None
