"""Pagination by key: a token names the last item of a page, so created or deleted items do not shift later pages."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from emulators.gcp import error_messages

T = TypeVar("T")


def page_after(items: Sequence[T], token: str, size: int, *, key: Callable[[T], str]) -> tuple[list[T], str]:
    """At most `size` items after the token, in order of `key`, and the token of the next page."""
    last = _last_key(token)
    left = sorted((item for item in items if key(item) > last), key=key)
    page = left[:size]
    return page, base64.urlsafe_b64encode(key(page[-1]).encode()).decode() if len(left) > size else ""


def _last_key(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise error_messages.invalid_field("pageToken", token, "Take it from the previous page.") from None
