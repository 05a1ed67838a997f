"""Heartbeats: how an activity tells that its worker lifecycles, and what it knows so far."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from temporalio import activity

BEAT_SECONDS = 3.0
"""Between heartbeats: several of them fit into the time after which a worker counts as dead, and most calls cost none."""


@asynccontextmanager
async def beating(details: Callable[[], tuple[Any, ...]] = tuple) -> AsyncIterator[None]:
    """Heartbeats with what is known at the time, for as long as this lasts."""

    async def beat() -> None:
        while True:
            activity.heartbeat(*details())
            await asyncio.sleep(BEAT_SECONDS)

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()
