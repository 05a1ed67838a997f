"""What is done to one slice in its cloud: create, observe and delete, each repeatable at any time."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.heartbeats import BEAT_SECONDS
from activities.metrics import count_create_error
from activities.providers import port
from activities.providers.port import FailureKind, Gone, Observation, Order, Queued
from activities.providers.registry import Providers
from activities.wakeups import Wakeups
from penstock.contract import names
from penstock.contract.inventories import Sighting
from penstock.contract.metrics import TRANSIENT
from penstock.contract.slices import CreateResult, DeleteResult, SliceSpec
from penstock.core.slices.lifecycle import spec_location_key
from penstock.model.failures import Failure

MISTAKE_DELAY = timedelta(seconds=60)
"""Before a call is repeated that only people can mend: soon enough for who has just mended it."""

T = TypeVar("T")


class ProvisionActivities:
    """The activities of slices. The watch of a location is nudged when something has just changed there."""

    def __init__(self, providers: Providers, wakeups: Wakeups) -> None:
        self._providers = providers
        self._wakeups = wakeups

    @activity.defn(name=names.CREATE)
    async def create(self, spec: SliceSpec) -> CreateResult:
        """Make the slice's one resource, or find it. A refusal is an answer; what may be different next time is raised."""
        try:
            provider = await self._providers.of(spec.provider, spec.settings)
            outcome = await _beating(provider.create(order_of(spec)))
        except port.Transient as error:
            count_create_error(spec.provider, TRANSIENT)
            raise _repeatable(error) from error
        except port.ProviderError as error:
            failure = failure_of(error)
            count_create_error(spec.provider, failure.kind)
            return CreateResult(outcome="refused", failure=failure)
        finally:
            self._wakeups.wake(spec.cluster, spec_location_key(spec))
        if isinstance(outcome, Queued):
            return CreateResult(outcome="queued")
        return CreateResult(outcome="created" if isinstance(outcome, port.Created) else "adopted")

    @activity.defn(name=names.OBSERVE)
    async def observe(self, spec: SliceSpec) -> Sighting:
        """Look at the slice and its hosts once."""
        provider = await self._reached(spec)
        try:
            seen = await _beating(provider.observe(order_of(spec).ref))
        except port.ProviderError as error:
            raise _repeatable(error) from error
        return sighting_of(seen, at=datetime.now(UTC))

    @activity.defn(name=names.DELETE)
    async def delete(self, spec: SliceSpec) -> DeleteResult:
        """Ask for the end of the slice, and say whether it has come. Nobody else would ask, so every error is repeated."""
        provider = await self._reached(spec)
        try:
            outcome = await _beating(provider.delete(order_of(spec).ref))
        except port.ProviderError as error:
            raise _repeatable(error) from error
        finally:
            self._wakeups.wake(spec.cluster, spec_location_key(spec))
        return DeleteResult(gone=isinstance(outcome, Gone))

    async def _reached(self, spec: SliceSpec) -> port.Provider:
        """The slice's provider. That no call can be made with such settings is said at once: repeating mends nothing."""
        try:
            return await self._providers.of(spec.provider, spec.settings)
        except port.Invalid as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error


def order_of(spec: SliceSpec) -> Order:
    """The slice as its provider is asked for it."""
    return Order(
        cluster=spec.cluster,
        group=spec.group,
        slice=spec.slice_id,
        location=spec.location,
        hosts=spec.hosts,
        variant=spec.variant,
        preemptible=spec.preemptible,
        queued=spec.queued,
        settings=spec.settings,
    )


def sighting_of(seen: Observation, *, at: datetime) -> Sighting:
    """What a look tells the slice."""
    return Sighting(
        at=at,
        phase=seen.phase,
        addressed=seen.addressed,
        healthy=seen.healthy,
        hosts=len(seen.hosts),
        failure=seen.failure,
    )


def failure_of(error: port.ProviderError) -> Failure:
    """A refusal as slices and groups remember it."""
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
    """The error for Temporal to repeat: soon if the cloud may mend it, as it asks if it wants peace, slowly if people must."""
    delay: timedelta | None = MISTAKE_DELAY
    if isinstance(error, port.RateLimited):
        delay = timedelta(seconds=max(error.retry_after, 1.0))
    elif isinstance(error, port.Transient):
        delay = None
    return ApplicationError(str(error), type=type(error).__name__, next_retry_delay=delay)


async def _beating(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call, heartbeating while it lasts, so that a worker that dies is noticed long before a timeout.

    A call to a cloud is not broken off when its activity is cancelled: what it did would not be known. Only a worker that
    shuts down breaks it off; another one will repeat it.
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
