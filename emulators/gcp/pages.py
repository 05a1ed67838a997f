"""Lists in pages: a token says after which item the next page begins, so that what comes and goes meanwhile shifts nothing."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from emulators.gcp import wording

T = TypeVar("T")


def page_after(items: Sequence[T], token: str, size: int, *, place: Callable[[T], str]) -> tuple[list[T], str]:
    """The items behind the token's place, at most so many, and the token of the next page; they come in order of `place`."""
    after = _place_of(token)
    left = sorted((item for item in items if place(item) > after), key=place)
    page = left[:size]
    return page, base64.urlsafe_b64encode(place(page[-1]).encode()).decode() if len(left) > size else ""


def _place_of(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise wording.malformed("pageToken", token, "Take it from the page before.") from None
