"""`Turns`: the messages of each source are sent in order, and those of one source never wait for another's."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Who may send messages of a source: one at a time, in order of asking."""

    def __init__(self) -> None:
        self._asking: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}

    def is_taken(self, source: str) -> bool:
        """Whether messages of the source are being sent, or wait to be."""
        return self._asking[source] > 0

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """The turn to send messages of the source, after all who asked before."""
        self._asking[source] += 1
        try:
            async with self._locks.setdefault(source, asyncio.Lock()):
                yield
        finally:
            self._asking[source] -= 1
            if not self._asking[source]:
                del self._asking[source], self._locks[source]
