"""Heartbeats of a long activity, with details that a retry resumes from."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from temporalio import activity

BEAT_SECONDS = 3.0
"""Between heartbeats: several fit into every heartbeat timeout, and most calls end before the first."""


@asynccontextmanager
async def beating(details: Callable[[], tuple[Any, ...]]) -> AsyncIterator[None]:
    """Send heartbeats with the current details until the block ends."""

    async def beat() -> None:
        while True:
            activity.heartbeat(*details())
            await asyncio.sleep(BEAT_SECONDS)

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()
