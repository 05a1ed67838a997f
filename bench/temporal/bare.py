"""The bare Temporal baseline: a workflow that starts child workflows on a signal, each of which runs one activity."""

import asyncio
import sys
import time
from collections import deque
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

QUEUE = "bare"
BATCH = 50
"""The same policy as the autoscaler's, which is the fastest way to start children."""


@workflow.defn
class BareChild:
    """A child workflow that runs one activity."""

    @workflow.run
    async def run(self) -> None:
        """Run the activity."""
        await workflow.execute_activity("note_the_time", start_to_close_timeout=timedelta(seconds=30))


@workflow.defn
class BareParent:
    """A parent workflow that starts the number of children in each signal."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[str, int]] = deque()

    @workflow.signal
    def go(self, name: str, children: int) -> None:
        """Signal: start this many children."""
        self._wanted.append((name, children))

    @workflow.run
    async def run(self) -> None:
        """Wait for signals until the benchmark ends."""
        while True:
            await workflow.wait_condition(lambda: bool(self._wanted))
            name, children = self._wanted.popleft()
            for first in range(0, children, BATCH):
                await asyncio.gather(*(self._start(f"{name}-{i}") for i in range(first, min(children, first + BATCH))))

    async def _start(self, name: str) -> None:
        await workflow.start_child_workflow(
            BareChild.run, id=f"bare/{name}", parent_close_policy=workflow.ParentClosePolicy.ABANDON
        )


class Times:
    """A file with one line per activity: the time at which it ran."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    @activity.defn
    async def note_the_time(self) -> None:
        """Append the current time."""
        self._file.write(f"{time.time()}\n")


async def _work(address: str, path: Path) -> None:
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[BareParent, BareChild],
        activities=[Times(path).note_the_time],
        max_cached_workflows=5000,
    )
    async with worker:
        path.write_text("")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1], Path(sys.argv[2])))
