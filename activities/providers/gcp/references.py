"""How settings refer to Google's resources: names, paths, identities. Each is checked before it becomes part of a URL."""

import re
from typing import Annotated

from pydantic import AfterValidator

LONGEST_NAME = 63
"""Google's limit for names of resources."""
LONGEST_PATH = 500
"""Longer than a full URL whose project, region and names have the greatest lengths that Google allows."""
LONGEST_IDENTITY = 200
"""The name of an account has 30 characters, a project with its domain about a hundred."""
LONGEST_KEY = 128
"""Google's limit for keys of metadata."""

_PART = r"[A-Za-z0-9](?:[-A-Za-z0-9_.:]*[A-Za-z0-9])?"
_PATH = rf"(?:https://)?{_PART}(?:/{_PART})*"


def _spelled(pattern: str, longest: int, *, of: str, write: str) -> AfterValidator:
    """The check of a text. Its message does not repeat the text, which may be a secret in the wrong place."""
    allowed = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > longest or ".." in text or not allowed.fullmatch(text):
            raise ValueError(f"may have only {of}, and at most {longest} characters; write {write}")
        return text

    return AfterValidator(check)


_IN_PATHS = "letters, digits, - _ . : and single slashes, with a letter or digit first and last, no .."

Name = Annotated[
    str,
    _spelled(
        r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?",
        LONGEST_NAME,
        of="letters, digits and - _ ., with a letter or digit first and last, no ..",
        write="the name alone, without project and zone, such as n2-standard-8, pd-ssd or v2-alpha-tpuv6e",
    ),
]
"""A resource of which the provider writes the rest of the path."""
Path = Annotated[
    str,
    _spelled(
        _PATH, LONGEST_PATH, of=_IN_PATHS, write="a name, or a path as Google shows it, such as projects/P/global/networks/N"
    ),
]
"""A resource by its name, its path from the project or further in, or its URL."""
Reservation = Annotated[
    str,
    _spelled(_PATH, LONGEST_PATH, of=_IN_PATHS, write="its name, or for that of another project projects/P/reservations/NAME"),
]
"""A reservation by its name, or by its path in another project."""
ServiceAccount = Annotated[
    str,
    _spelled(
        r"[A-Za-z0-9][-A-Za-z0-9_.]*(?:@[A-Za-z0-9][-A-Za-z0-9.]*[A-Za-z0-9])?(?<![-_.])",
        LONGEST_IDENTITY,
        of="letters, digits, - _ . and one @, no ..",
        write="its email address, such as workers@my-project.iam.gserviceaccount.com",
    ),
]
"""The identity of the hosts."""
Scope = Annotated[
    str,
    _spelled(f"{_PATH}/?", LONGEST_PATH, of=_IN_PATHS, write="a URL such as https://www.googleapis.com/auth/cloud-platform"),
]
"""What the hosts' identity may be used for."""
Tag = Annotated[
    str,
    _spelled(
        r"[a-z](?:[-a-z0-9]*[a-z0-9])?",
        LONGEST_NAME,
        of="lower-case letters, digits and -, with a letter first and no - last",
        write="a tag such as allow-health-checks",
    ),
]
"""A network tag."""
MetadataKey = Annotated[
    str, _spelled(r"[-A-Za-z0-9_]+", LONGEST_KEY, of="letters, digits, - and _", write="a key such as enable-oslogin")
]
"""A key of instance metadata."""
