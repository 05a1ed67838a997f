"""The state of an autoscaler workflow, changed only through `apply`, and its inbox of messages that are not read yet."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypeVar

from penstock.core.state.apply import apply
from penstock.core.state.events import AnyEvent
from penstock.core.state.inbox import WORK, Received, read_batch
from penstock.core.state.state import AutoscalerState

T = TypeVar("T")

MOST_AT_ONCE = 4_000
"""Signals looked at for one batch: more than the work of an activation allows to read."""


class _Turn(NamedTuple):
    """An update that waits for the messages before it."""

    take: Callable[[], Any]
    work: int
    answer: "asyncio.Future[Any]"


class StateCell:
    """The state, and the messages that are not applied to it yet.

    One activation may bring thousands of signals and updates, all of them after a reset, and has two seconds for everything. So
    a message is only stored when it arrives. `read` takes a batch, bounded in work; the autoscaler calls it at one place, once in
    an activation, and lets a timer make the next.
    """

    def __init__(self, state: AutoscalerState) -> None:
        self.state = state
        self._inbox: deque[Received | _Turn] = deque()
        self.batches = 0
        """Batches read since the last decision."""

    @property
    def unread(self) -> int:
        """Messages that are not read yet."""
        return len(self._inbox)

    def receive(self, name: str, raw: bytes, at: datetime) -> None:
        """Store a signal."""
        self._inbox.append(Received(name, raw, at))

    async def in_turn(self, take: Callable[[], T], *, work: int) -> T:
        """Do something, of so much work, once all messages that came before were read; returns or raises what it does."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._inbox.append(_Turn(take, work, answer))
        return await answer

    def read(self) -> None:
        """Read the first messages, as many as one activation has time for; at least one if there is any."""
        left = WORK if self._inbox else 0
        while self._inbox and left > 0:
            first = self._inbox[0]
            left -= self._take_turn(first) if isinstance(first, _Turn) else self._read_signals(left)
        self.batches += 1

    def apply_event(self, event: AnyEvent) -> None:
        """Apply an event."""
        self.state = apply(self.state, event)

    def _take_turn(self, turn: _Turn) -> int:
        """Carry an update out; returns its work."""
        self._inbox.popleft()
        try:
            result = turn.take()
        except Exception as error:  # It belongs to whoever waits for the answer.
            turn.answer.set_exception(error)
        else:
            turn.answer.set_result(result)
        return turn.work

    def _read_signals(self, work: int) -> int:
        """Fold the next signals into the state; returns their work."""
        signals = [each for each in takewhile(_is_signal, islice(self._inbox, MOST_AT_ONCE)) if isinstance(each, Received)]
        self.state, count, spent = read_batch(self.state, signals, work=work)
        for _ in range(count):
            self._inbox.popleft()
        return spent


def _is_signal(each: Received | _Turn) -> bool:
    return isinstance(each, Received)
