"""How activities end when their worker is told to stop: calls to a cloud are finished, all else is done again elsewhere."""

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from penstock.contract import names

FINISHED = frozenset({names.CREATE, names.OBSERVE, names.DELETE, names.WATCH})
"""Activities that see for themselves that their worker stops.

The others ask workflows how they are. A worker that stops answers no more, so one that is alone would wait for itself.
"""


class Stopping(Interceptor):
    """Ends activities as soon as their worker is told to stop, but for those that are to be finished."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name in the SDK
        """Between the worker and the activity."""
        return _EndsWithWorker(next)


class _EndsWithWorker(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name in the SDK
        work = self.next.execute_activity(input)
        if activity.info().activity_type in FINISHED:
            return await work
        working, stopped = asyncio.ensure_future(work), asyncio.create_task(activity.wait_for_worker_shutdown())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ApplicationError("the worker was told to stop; another one does this again", type="WorkerStopped")
        finally:
            stopped.cancel()
            working.cancel()
