"""Activities while their worker lives and when it stops: calls to a cloud see to that themselves, all else is seen to here."""

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from penstock.contract import names

BY_THEMSELVES = frozenset({names.CREATE, names.OBSERVE, names.DELETE, names.WATCH})
"""Activities that heartbeat, and see that their worker stops, by themselves.

The others ask workflows how they are. A worker that stops answers no more, so one that is alone would wait for itself.
"""
BEATS = 3
"""Heartbeats within the time after which an activity counts as lost."""


class Stopping(Interceptor):
    """Heartbeats for activities, and ends them as soon as their worker is told to stop: another one does them again."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name in the SDK
        """Between the worker and the activity."""
        return _EndsWithWorker(next)


class _EndsWithWorker(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name in the SDK
        work = self.next.execute_activity(input)
        if activity.info().activity_type in BY_THEMSELVES:
            return await work
        working, stopped = asyncio.ensure_future(work), asyncio.create_task(activity.wait_for_worker_shutdown())
        beating = asyncio.create_task(_beat())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ApplicationError("the worker was told to stop; another one does this again", type="WorkerStopped")
        finally:
            for task in (stopped, beating, working):
                task.cancel()


async def _beat() -> None:
    """For as long as it lasts; what is done before the first beat costs none."""
    timeout = activity.info().heartbeat_timeout
    while timeout is not None:
        await asyncio.sleep(timeout.total_seconds() / BEATS)
        activity.heartbeat()
