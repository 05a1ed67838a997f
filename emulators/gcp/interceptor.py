"""Interceptor of every TPU and Compute call: count it, apply the next fault, delay or lose the reply."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from emulators.gcp import error_messages
from emulators.gcp.api_error import LostReply
from emulators.gcp.cloud import Cloud
from emulators.gcp.faults import Fault
from emulators.gcp.records import Api

_CREATES = ("CreateNode", "CreateQueuedResource", "instances.insert", "instances.bulkInsert")

T = TypeVar("T")


class Interceptor:
    """Runs calls, and counts them since the emulator started."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._counts: Counter[tuple[str, str]] = Counter()

    async def run(self, api: Api, method: str, zone: str, perform: Callable[[Fault | None], Awaitable[T]]) -> T:
        """The reply of a call; raises `ApiError` if it is refused and `LostReply` if the caller must get no reply."""
        self._counts[method, zone] += 1
        fault = self._cloud.take_fault(method, zone)
        if fault is not None:
            await asyncio.sleep(fault.latency_seconds)
            if fault.refuses and not fault.operation and not fault.lose_reply:
                raise error_messages.error_of(fault, api)
        reply = await perform(fault)
        lost = method in _CREATES and self._cloud.take_lost_reply(zone)
        if method in _CREATES and not lost:
            await asyncio.sleep(self._cloud.behaviour(zone).reply_latency_seconds)
        if fault is not None and fault.lose_reply and fault.refuses:
            raise error_messages.error_of(fault, api)
        if lost or (fault is not None and fault.lose_reply):
            raise LostReply
        return reply

    def counts(self) -> dict[str, dict[str, int]]:
        """Calls of each method by zone; `-` stands for no zone or all zones."""
        found: dict[str, dict[str, int]] = {}
        for (method, zone), count in sorted(self._counts.items()):
            found.setdefault(method, {})[zone] = count
        return found
