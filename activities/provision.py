"""The activities of one slice: create, observe and delete its cloud resource; each is idempotent."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.heartbeats import BEAT_SECONDS
from activities.metrics import count_create_error
from activities.providers import port
from activities.providers.open_providers import Providers
from activities.providers.port import FailureKind, Gone, Order, Queued, Sighting
from activities.slice_reports import Reporter
from activities.wakeups import Wakeups
from penstock.contract import names
from penstock.contract.metrics import TRANSIENT
from penstock.contract.slices import CreateResult, DeleteResult, SliceReport, SliceSpec
from penstock.model.failures import Failure

MISTAKE_DELAY = timedelta(seconds=60)
"""Retry delay of a call that fails until an operator acts."""

T = TypeVar("T")


class ProvisionActivities:
    """The activities of slices. They wake the watch of the location after a call that changed something there."""

    def __init__(self, providers: Providers, wakeups: Wakeups, reporter: Reporter) -> None:
        self._providers = providers
        self._wakeups = wakeups
        self._reporter = reporter

    @activity.defn(name=names.CREATE)
    async def create(self, spec: SliceSpec) -> CreateResult:
        """Create the slice's one resource, or find it. A refusal is a result; a transient error is raised for a retry."""
        try:
            provider = await self._providers.of(spec.location.provider, spec.location.settings)
            outcome = await _beating(provider.create(order_of(spec)))
        except port.Transient as error:
            count_create_error(spec.location.provider, TRANSIENT)
            raise _repeatable(error) from error
        except port.ProviderError as error:
            failure = failure_of(error)
            count_create_error(spec.location.provider, failure.kind)
            return CreateResult(outcome="refused", failure=failure)
        finally:
            self._wakeups.wake(spec.cluster, spec.location.key)
        if isinstance(outcome, Queued):
            return CreateResult(outcome="queued")
        return CreateResult(outcome="created" if isinstance(outcome, port.Created) else "adopted")

    @activity.defn(name=names.OBSERVE)
    async def observe(self, spec: SliceSpec) -> Sighting:
        """Look at the slice once, and health-check its hosts."""
        provider = await self._provider(spec)
        try:
            seen: Sighting = await _beating(provider.observe(order_of(spec).ref))
        except port.ProviderError as error:
            raise _repeatable(error) from error
        return seen

    @activity.defn(name=names.DELETE)
    async def delete(self, spec: SliceSpec, last: SliceReport | None = None) -> DeleteResult:
        """Delete the resource; returns whether it is gone. Every error is raised for a retry: no slice may be left behind.

        If it is gone, the slice's last report goes to its autoscaler with those of other slices that end at this time.
        """
        provider = await self._provider(spec)
        try:
            outcome = await _beating(provider.delete(order_of(spec).ref))
        except port.ProviderError as error:
            raise _repeatable(error) from error
        finally:
            self._wakeups.wake(spec.cluster, spec.location.key)
        gone = isinstance(outcome, Gone)
        return DeleteResult(gone=gone, reported=gone and last is not None and await self._report(spec.cluster, last))

    async def _report(self, cluster: str, last: SliceReport) -> bool:
        """Whether the autoscaler has the report; if not, the slice goes on trying."""
        try:
            return await self._reporter.send(cluster, last)
        except RPCError as error:
            activity.logger.warning("the end of slice %s could not be reported: %s", last.slice_id, error)
            return False

    async def _provider(self, spec: SliceSpec) -> port.Provider:
        """The provider of the slice. Invalid settings fail at once: a retry would not help."""
        try:
            return await self._providers.of(spec.location.provider, spec.location.settings)
        except port.Invalid as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error


def order_of(spec: SliceSpec) -> Order:
    """The order that creates the slice."""
    return Order(
        cluster=spec.cluster,
        group=spec.group,
        slice=spec.slice_id,
        location=spec.location.name,
        hosts=spec.hosts,
        variant=spec.variant,
        preemptible=spec.preemptible,
        queued=spec.queued,
        settings=spec.location.settings,
    )


def failure_of(error: port.ProviderError) -> Failure:
    """The failure that an error of a provider stands for."""
    message = str(error)
    match error:
        case port.Stockout():
            return Failure(kind=FailureKind.STOCKOUT, message=message)
        case port.QuotaExceeded(scope=scope, subject=subject):
            return Failure(kind=FailureKind.QUOTA, message=message, scope=scope, subject=subject)
        case port.RateLimited(retry_after=seconds):
            return Failure(kind=FailureKind.RATE_LIMIT, message=message, retry_after_seconds=seconds)
        case port.PermissionDenied(scope=scope, subject=subject):
            return Failure(kind=FailureKind.PERMISSION, message=message, scope=scope, subject=subject)
        case port.Conflict():
            return Failure(kind=FailureKind.CONFLICT, message=message)
    return Failure(kind=FailureKind.INVALID, message=message)


def _repeatable(error: port.ProviderError) -> ApplicationError:
    """The error for Temporal to retry: soon if transient, as the cloud says if rate limited, slowly if an operator must act."""
    delay: timedelta | None = MISTAKE_DELAY
    if isinstance(error, port.RateLimited):
        delay = timedelta(seconds=max(error.retry_after, 1.0))
    elif isinstance(error, port.Transient):
        delay = None
    return ApplicationError(str(error), type=type(error).__name__, next_retry_delay=delay)


async def _beating(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call, with heartbeats meanwhile, so that a dead worker is noticed long before a timeout.

    Cancelling the activity does not interrupt the call, because its effect would be unknown. Only a worker that shuts down
    interrupts it; another worker repeats it.
    """
    running = asyncio.ensure_future(call)
    while not running.done():
        try:
            await asyncio.wait({running}, timeout=BEAT_SECONDS)
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                running.cancel()
                raise
        if not running.done():
            activity.heartbeat()
    return running.result()
