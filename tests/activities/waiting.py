"""Wait for a condition with a deadline."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")

DEADLINE_SECONDS = 60.0
"""Much longer than any wait here takes, also on a busy machine."""
STORY_SECONDS = 300.0
"""A test that takes longer hangs."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
_PAUSE_GROWS = 0.15
"""Of the time that the wait has taken so far: what comes soon is seen at once, and what takes long costs few looks."""
_LAST_LOOK_SECONDS = 10.0


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], object], *, seconds: float = DEADLINE_SECONDS) -> T:
    """Poll until the condition holds and return the value; fail with the last value at the deadline."""
    began = time.monotonic()
    seen = await look()
    try:
        async with asyncio.timeout(seconds):
            while not holds(seen):
                pause = _PAUSE_GROWS * (time.monotonic() - began)
                await asyncio.sleep(min(max(pause, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS))
                seen = await look()
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s; last seen: {seen!r}") from None
    return seen


@asynccontextmanager
async def within(seconds: float, look: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Fail the code inside, with a last observation, if it does not end in time."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        raise AssertionError(f"not over after {seconds} s; last state: {await _last_look(look)}") from None


async def _last_look(look: Callable[[], Awaitable[object]]) -> str:
    try:
        async with asyncio.timeout(_LAST_LOOK_SECONDS):
            return str(await look())
    except Exception as failed:  # Whatever made the test hang may fail this too, and is then what there is to say.
        return f"not to be had ({failed!r})"
