"""Nudges: who has just changed something at a location wakes the one who watches it, within one process."""

import asyncio


class Nudges:
    """A bell per location. A nudge that nobody waits for is kept for the next who does."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}

    def nudge(self, place_key: str) -> None:
        """Something has just changed there."""
        self._bell(place_key).set()

    async def wait(self, place_key: str, seconds: float) -> bool:
        """Wait for a nudge, but no longer than this; whether one came."""
        bell = self._bell(place_key)
        try:
            async with asyncio.timeout(seconds):
                await bell.wait()
        except TimeoutError:
            return False
        bell.clear()
        return True

    def _bell(self, place_key: str) -> asyncio.Event:
        return self._bells.setdefault(place_key, asyncio.Event())
