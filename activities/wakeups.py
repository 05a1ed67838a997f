"""Wakeups: who has just changed something at a location wakes the one who watches it, within one process."""

import asyncio


class Wakeups:
    """A bell per cluster and location. A nudge that nobody waits for is kept for the next who does."""

    def __init__(self) -> None:
        self._bells: dict[tuple[str, str], asyncio.Event] = {}

    def wake(self, cluster: str, location_key: str) -> None:
        """Something of the cluster has just changed there."""
        self._bell(cluster, location_key).set()

    async def wait(self, cluster: str, location_key: str, seconds: float) -> bool:
        """Wait for a nudge, but no longer than this; whether one came."""
        bell = self._bell(cluster, location_key)
        try:
            async with asyncio.timeout(seconds):
                await bell.wait()
        except TimeoutError:
            return False
        bell.clear()
        return True

    def _bell(self, cluster: str, location_key: str) -> asyncio.Event:
        return self._bells.setdefault((cluster, location_key), asyncio.Event())
