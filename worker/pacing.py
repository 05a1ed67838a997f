"""Creates at a rate: a task queue for each account of which a cloud counts the calls; the server keeps its rate for all."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from penstock.contract.inventories import WatchedLocation
from penstock.contract.pacing import creates_queue, paced_accounts

log = logging.getLogger("worker")

DEFAULT_CREATES_PER_SECOND = 10.0
"""Less than half of the 1,500 changes a minute that Compute Engine lets a project make by default: deletes, and other people's
programs, count too."""
_POLLS = 2
"""Calls that wait for a turn at any time: turns come a few in a second."""
_CONCURRENT_CREATES = 200
"""A create lasts for as long as its order may fail early, half a minute: more are not begun in that time, at common rates."""


class PacedCreates:
    """The workers of this process that serve creates, one for each account that it has heard of.

    The worker that sees to a location's inventory hears of its account before anything is ordered there, and so does the one that
    watches it; the others hear of it at their next look at all clusters. So no queue of creates is long without a worker.
    """

    def __init__(
        self,
        client: Client,
        create: Callable[..., Any],
        *,
        task_queue: str,
        rates: Mapping[str, float],
        interceptors: Sequence[Interceptor],
        grace: timedelta,
    ) -> None:
        self._client = client
        self._create = create
        self._task_queue = task_queue
        self._rates = rates
        self._interceptors = interceptors
        self._grace = grace
        self._workers: dict[str, Worker] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def serve(self, locations: Iterable[WatchedLocation]) -> None:
        """Serve the creates of the locations' accounts from now on."""
        for account in () if self._stopped else paced_accounts(locations):
            running = self._running.get(account)
            if running is None or running.done():
                self._workers[account] = worker = self._worker(account)
                self._running[account] = asyncio.create_task(_told(worker, account))

    async def stop(self) -> None:
        """Take no more creates, and finish those under way."""
        self._stopped = True
        running = {account: task for account, task in self._running.items() if not task.done()}
        await asyncio.gather(*(self._workers[account].shutdown() for account in running))
        await asyncio.gather(*running.values())

    def _worker(self, account: str) -> Worker:
        return Worker(
            self._client,
            task_queue=creates_queue(self._task_queue, account),
            activities=[self._create],
            interceptors=self._interceptors,
            max_task_queue_activities_per_second=self._rates.get(account, DEFAULT_CREATES_PER_SECOND),
            max_concurrent_activities=_CONCURRENT_CREATES,
            max_concurrent_activity_task_polls=_POLLS,
            graceful_shutdown_timeout=self._grace,
        )


async def _told(worker: Worker, account: str) -> None:
    """Run until shut down; a worker that fails is told, and made again at the next look."""
    try:
        await worker.run()
    except Exception as error:  # Whatever the SDK ends it with, creates must be served again.
        log.warning("creates of %s are not served (%s); again at the next look", account, error)
