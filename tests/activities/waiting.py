"""Waiting for what others do: a condition and a deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_SECONDS = 60.0
"""Far beyond what anything here takes, also on a busy machine."""
_POLL_SECONDS = 0.005


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], object], *, seconds: float = DEADLINE_SECONDS) -> T:
    """What was seen when the condition first held; fails with what was seen last."""
    seen = await look()
    try:
        async with asyncio.timeout(seconds):
            while not holds(seen):
                await asyncio.sleep(_POLL_SECONDS)
                seen = await look()
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s; last seen: {seen!r}") from None
    return seen
