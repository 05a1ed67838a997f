"""Text helpers shared by every message: counts with nouns, short lists, cut texts, "did you mean"."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LISTED = 5
"""Names in a sentence before the rest are only counted: enough to act on, short enough to read."""
LONGEST_MATCHED = 100
"""Characters compared when looking for a similar name: comparing grows with the square of the length."""


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 slice`, `2,000 slices`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Iterable[str], most: int = LISTED) -> str:
    """The first few names, and how many more there are: `a, b and 3 more`."""
    known = list(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")


def with_detail(cause: str, detail: str) -> str:
    """A cause, and what it does not say: `notice, maintenance at 12:30`."""
    return f"{cause}, {detail}" if detail else cause


def shortened(text: str, longest: int) -> str:
    """The text, cut to at most `longest` characters with an ellipsis at the end."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clipped(text: str, longest: int) -> str:
    """The text in at most `longest` characters, cut in the middle: a message begins with the problem and ends with the fix."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 3]} … {text[-end:]}"


def similar(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """Known names that resemble the given one, best first; else those with it as one of their words: `tier`, `quota_tier`."""
    names = list(known)
    close = get_close_matches(name[:LONGEST_MATCHED], names, n=most)
    return close or [other for other in names if name in other.split("_")][:most]


def did_you_mean(name: str, known: Sequence[str], *, noun: str = "known", most: int = 1, listing: int = LISTED) -> str:
    """`did you mean a?` for a name like a known one; else the first `listing` known names: `known: a, b and 3 more`."""
    close = similar(name, known, most=most)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"{noun}: {listed(known, listing) or 'none'}"
