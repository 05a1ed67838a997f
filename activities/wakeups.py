"""In-process wake-ups: an activity that changes a location wakes the watch of it."""

import asyncio


class Wakeups:
    """One event per cluster and location. A wake-up without a waiter is kept for the next one."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], asyncio.Event] = {}

    def wake(self, cluster: str, location_key: str) -> None:
        """Wake the watch of the location."""
        self._event(cluster, location_key).set()

    async def wait(self, cluster: str, location_key: str, seconds: float) -> bool:
        """Wait for a wake-up, at most so many seconds; whether one came."""
        event = self._event(cluster, location_key)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    def _event(self, cluster: str, location_key: str) -> asyncio.Event:
        return self._events.setdefault((cluster, location_key), asyncio.Event())
