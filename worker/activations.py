"""Workflow activations under way in this process, and those that will never end: their workflows are lost to it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STUCK_SECONDS = 20.0
"""An activation that takes longer is stuck: Temporal reports a deadlock ([TMPRL1101]) after 2 s, and gives its task to another
worker after 10 s. The process cannot interrupt its thread, and takes the run up again only if it is started anew."""


class Stuck(Exception):
    """A workflow activation does not end, so that this worker cannot take up its run again."""


class Activations:
    """The activations under way, by thread, with the run and the time at which each began."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[int, tuple[str, float]] = {}

    @contextmanager
    def under_way(self, run_id: str) -> Iterator[None]:
        """Note an activation for as long as it takes."""
        thread = threading.get_ident()
        self._begun[thread] = (run_id, self._clock())
        try:
            yield
        finally:
            self._begun.pop(thread, None)

    def check(self) -> None:
        """Raise `Stuck` if an activation has been under way for too long."""
        for run_id, begun in list(self._begun.values()):
            if self._clock() - begun > STUCK_SECONDS:
                raise Stuck(f"workflow run {run_id} has blocked a thread for over {STUCK_SECONDS:g} s; start the worker again")


ACTIVATIONS = Activations()
"""Those of this process: a thread that is stuck is lost to all its workers."""
