"""Run the cases of one check, each with a time limit, and collect what went wrong."""

import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

WEDGED_SECONDS = 20.0
"""Input that takes longer has wedged its reader; it takes milliseconds, on a busy machine a second."""
_SHOWN = 2000
"""Characters of the input that a finding shows."""

Check = Callable[[random.Random, Path], str | None]
"""Give one generated case to its reader, with a folder for files; returns what is wrong with the answer."""


class Finding(NamedTuple):
    """Input that was not answered in words: what happened, the seed of the case, and the input."""

    what: str
    seed: str
    given: str


class Wedged(BaseException):
    """A case took too long. No `Exception`, because readers turn those into refusals."""


def findings(kind: str, check: Check, seed: int, cases: range, folder: Path) -> Iterator[Finding]:
    """The findings of some cases of one kind, by their numbers."""
    for i in cases:
        name = f"{kind} {seed} {i}"
        try:
            with _bounded():
                wrong = check(random.Random(name), folder)
        except Wedged:
            wrong = f"wedged: {WEDGED_SECONDS:.0f} s without an answer"
        except Exception as error:
            wrong = "".join(traceback.format_exception(error)[-3:])
        if wrong is not None:
            yield Finding(wrong, name, _shown.get("given", ""))


_shown: dict[str, str] = {}
"""The input of the case that runs, for its finding."""


def showing(given: object) -> None:
    """Note the input of the case that runs."""
    _shown["given"] = repr(given)[:_SHOWN]


@contextmanager
def _bounded() -> Iterator[None]:
    def wedged(_number: int, _frame: FrameType | None) -> None:
        raise Wedged

    before = signal.signal(signal.SIGALRM, wedged)
    signal.setitimer(signal.ITIMER_REAL, WEDGED_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe(found: list[Finding]) -> str:
    """The first findings in full."""
    return "\n\n".join(f"{finding.seed}\n{finding.what}\n{finding.given}" for finding in found[:3])
