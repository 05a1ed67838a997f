"""Interceptor that heartbeats activities and fails them at worker shutdown, except those that do both themselves."""

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from penstock.contract import names

UNGUARDED = frozenset({names.CREATE, names.OBSERVE, names.DELETE, names.WATCH})
"""Activities that heartbeat and handle the worker's shutdown themselves.

The others query workflows. A worker that stops answers no queries, so a single worker would wait for itself.
"""
BEATS = 3
"""Heartbeats per heartbeat timeout."""


class ActivityGuard(Interceptor):
    """Heartbeat activities, and fail them as soon as their worker stops, so that another worker retries them."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name in the SDK
        """Wrap one activity."""
        return _GuardedActivity(next)


class _GuardedActivity(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name in the SDK
        work = self.next.execute_activity(input)
        if activity.info().activity_type in UNGUARDED:
            return await work
        working, stopped = asyncio.ensure_future(work), asyncio.create_task(activity.wait_for_worker_shutdown())
        beating = asyncio.create_task(_beat())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ApplicationError("the worker is stopping; another worker retries this activity", type="WorkerStopped")
        finally:
            for task in (stopped, beating, working):
                task.cancel()


async def _beat() -> None:
    """Heartbeat until cancelled. The first beat is delayed, so short activities send none."""
    timeout = activity.info().heartbeat_timeout
    while timeout is not None:
        await asyncio.sleep(timeout.total_seconds() / BEATS)
        activity.heartbeat()
