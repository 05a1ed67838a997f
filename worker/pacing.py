"""Workers of the rate-limited create queues, one per cloud account; Temporal enforces the rate across all workers."""

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
"""600 a minute: less than half of the 1,500 changes that Compute Engine allows a project by default, because deletes and
other programs count too."""
_POLLS = 2
"""Concurrent polls of a queue: it hands out only a few tasks per second."""
_CONCURRENT_CREATES = 200
"""Concurrent creates of one account in this process. Each lasts up to `create_wait`, 30 s by default."""


class PacedCreates:
    """The workers of this process that run creates, one for each account.

    The worker that starts a location's inventory, and the one that watches it, serve its account before the first order; the
    others start when they next list all clusters. So every queue of creates soon has workers.
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
        """Run the creates of the locations' accounts from now on."""
        for account in () if self._stopped else paced_accounts(locations):
            running = self._running.get(account)
            if running is None or running.done():
                self._workers[account] = worker = self._worker(account)
                self._running[account] = asyncio.create_task(_run(worker, account))

    async def stop(self) -> None:
        """Take no more creates, and finish those in progress."""
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


async def _run(worker: Worker, account: str) -> None:
    """Run until shut down. A worker that fails is logged, and replaced at the next call of `serve`."""
    try:
        await worker.run()
    except Exception as error:  # The SDK may raise anything; the account must get a new worker.
        log.warning("the worker for creates of %s failed (%s); it will be replaced", account, error)
