"""Nudges: who has just changed something at a location wakes the one who watches it, within one process."""

import asyncio


class Nudges:
    """A bell per cluster and location. A nudge that nobody waits for is kept for the next who does."""

    def __init__(self) -> None:
        self._bells: dict[tuple[str, str], asyncio.Event] = {}

    def nudge(self, cluster: str, place_key: str) -> None:
        """Something of the cluster has just changed there."""
        self._bell(cluster, place_key).set()

    async def wait(self, cluster: str, place_key: str, seconds: float) -> bool:
        """Wait for a nudge, but no longer than this; whether one came."""
        bell = self._bell(cluster, place_key)
        try:
            async with asyncio.timeout(seconds):
                await bell.wait()
        except TimeoutError:
            return False
        bell.clear()
        return True

    def _bell(self, cluster: str, place_key: str) -> asyncio.Event:
        return self._bells.setdefault((cluster, place_key), asyncio.Event())
