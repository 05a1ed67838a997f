"""The watch of a location: list it, notify slices of changes, and audit it from time to time."""

import asyncio
import math
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError

from activities import slice_messages
from activities.audit import (
    LEAST_PAUSE_SECONDS,
    Audit,
    LocationsCallback,
    ref_at,
    refusal,
    report_refusal,
    report_silence,
    send_location,
    silence,
    was_refused,
)
from activities.cloud_calls import answer_to
from activities.heartbeats import beating
from activities.metrics import count_failed_look
from activities.providers.open_providers import Providers
from activities.providers.port import (
    Invalid,
    Listing,
    PermissionDenied,
    Phase,
    Provider,
    ProviderError,
    RateLimited,
    Sighting,
    Transient,
    Unexpected,
)
from activities.slice_messages import SliceMessages
from activities.temporal_reads import CachedReadings, ClusterReading, gather_limited, lifecycle_of
from activities.wakeups import Wakeups
from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import WatchRequest, WatchResult
from penstock.core.slices import watch as reconciliation
from penstock.core.slices.watch import Notification, NotifiedTable, Unconfirmed
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import Slice

QUICK_LOOKS = 5
"""Quick looks after a wake-up: a cloud may take a moment to list what it has just accepted."""
SILENCE_SECONDS = 30.0
"""A location that cannot be listed for this long is reported; its groups buy nothing until it can. Shorter faults are common."""
LONGEST_RETRY_SECONDS = 15.0
"""Between looks at a location that cannot be listed: `look` after the first failure, doubled up to this."""
EMPTY_AUDITS = 2
"""Consecutive audits that must find a location unconfigured and empty before its watch ends."""


class WatchActivities:
    """The activity that watches a location for one round."""

    def __init__(
        self,
        client: Client,
        providers: Providers,
        wakeups: Wakeups,
        readings: CachedReadings,
        messages: SliceMessages,
        *,
        on_locations: LocationsCallback = lambda _: None,
    ) -> None:
        self._client = client
        self._providers = providers
        self._wakeups = wakeups
        self._on_locations = on_locations
        self._readings = readings
        self._messages = messages
        self._watches: dict[tuple[str, str], _Watch] = {}
        """Watches of this process, so that a retry or the next round does not begin with an audit and new health checks."""

    @activity.defn(name=names.WATCH)
    async def watch(self, request: WatchRequest) -> WatchResult:
        """Watch until the round is over, the configuration of the location changes, or nothing is left to watch.

        A retry resumes from the last heartbeat, which carries what slices were last notified of.
        """
        self._on_locations((request.location,))
        details = activity.info().heartbeat_details
        watch = self._watch_of(request.location, details[0] if details else request.known)
        try:
            async with beating(lambda: (watch.packed,)):
                result = await _until_shutdown(watch, self._providers, seconds=request.seconds)
        except asyncio.CancelledError:
            self._forget_watch(watch)
            raise
        if result.done:
            self._forget_watch(watch)
        return result

    def _watch_of(self, location: WatchedLocation, known: str) -> "_Watch":
        """The watch that this process has of the location, unless another process has watched it since; else a new one."""
        key = location.cluster, location.key
        watch = self._watches.get(key)
        if watch is None or (watch.location, watch.packed) != (location, known):
            table = reconciliation.unpack_notified(known)
            watch = self._watches[key] = _Watch(
                self._client, self._wakeups, self._readings, self._messages, location=location, known=table
            )
        return watch

    def _forget_watch(self, watch: "_Watch") -> None:
        """Forget a watch that is over, unless a later attempt has replaced it, which happens when a heartbeat came too late."""
        key = watch.location.cluster, watch.location.key
        if self._watches.get(key) is watch:
            del self._watches[key]


async def _until_shutdown(watch: "_Watch", providers: Providers, *, seconds: float) -> WatchResult:
    """One round; cut short if the worker stops, so that another worker goes on. Every call in flight can be repeated."""
    watching = asyncio.create_task(watch.round(providers, seconds=seconds))
    stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        return watching.result() if watching.done() else watch.result()
    finally:
        watching.cancel()
        stopping.cancel()
        await asyncio.gather(watching, stopping, return_exceptions=True)


class _Watch:
    """What this process knows of one location, and its rounds there."""

    def __init__(
        self,
        client: Client,
        wakeups: Wakeups,
        readings: CachedReadings,
        messages: SliceMessages,
        *,
        location: WatchedLocation,
        known: NotifiedTable,
    ) -> None:
        self._client = client
        self._wakeups = wakeups
        self._readings = readings
        self._messages = messages
        self._location = location
        self._known = known
        self.packed = reconciliation.pack_notified(known)
        """What each slice was last notified of, as heartbeats carry it."""
        self._asked: dict[str, float] = {}
        """When each slice was last health-checked."""
        self._elsewhere: set[str] = set()
        """Slices that are certainly not at this location."""
        self._unconfirmed = Unconfirmed()
        self._looked_at = time.monotonic()
        self._audited_at = -math.inf
        self._quick_looks_left = QUICK_LOOKS if known else 0
        self._empty_audits = 0
        self._failures = 0
        """Consecutive failed looks."""
        self._silent_since: datetime | None = None
        """When the first of them was."""
        self._reported_silence = False
        self._last: Listing | None = None

    @property
    def location(self) -> WatchedLocation:
        """The location that is watched."""
        return self._location

    async def round(self, providers: Providers, *, seconds: float) -> WatchResult:
        """Look, notify, audit, wait; until the round is over.

        An error ends the round: Temporal retries it without events in the history, and heartbeat details resume it.
        """
        ends = time.monotonic() + seconds
        try:
            provider = await answer_to(providers.of(self._location.provider, self._location.settings), self._location)
            while time.monotonic() < ends:
                if (result := await self._once(provider)) is not None:
                    return result
                await self._wait(min(max(LEAST_PAUSE_SECONDS, self._pause()), max(0.0, ends - time.monotonic())))
        except ProviderError as error:
            return await self._failed(error, most_seconds=seconds)
        return self.result()

    async def _once(self, provider: Provider) -> WatchResult | None:
        """One poll, and an audit if one is due; returns the result of the round if either ends it."""
        elapsed, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        self._quick_looks_left = max(0, self._quick_looks_left - 1)
        listing = await answer_to(provider.list(self._location.name, cluster=self._location.cluster), self._location)
        self._last = listing
        self._failures, self._silent_since = 0, None
        await self._look(provider, listing, elapsed=elapsed)
        if time.monotonic() - self._audited_at < self._location.rules.audit_seconds and not self._reported_silence:
            return None
        self._audited_at = time.monotonic()
        try:
            return await self._audit(provider, listing)
        except (TemporalError, Transient, RateLimited) as error:
            self._note(f"{self._location.key} could not be audited", error)
            return None

    async def _failed(self, error: ProviderError, *, most_seconds: float) -> WatchResult:
        """End the round with the location as it is configured now, or raise the error for Temporal to retry."""
        if (reconfigured := await self._reconfigured()) is not None:
            return reconfigured
        if isinstance(error, PermissionDenied | Invalid):
            return await self._refused(error)
        self._failures += 1
        self._silent_since = self._silent_since or datetime.now(UTC)
        count_failed_look(self._location, type(error).__name__)
        await self._report_silence(error)
        seconds = min(LONGEST_RETRY_SECONDS, self._location.rules.look_seconds * 2 ** min(self._failures - 1, 10))
        if isinstance(error, RateLimited):
            seconds = min(max(error.retry_after, seconds), most_seconds)
        raise silence(self._location, error, again=timedelta(seconds=max(seconds, LEAST_PAUSE_SECONDS))) from error

    async def _report_silence(self, error: ProviderError) -> None:
        """Report once, after a while, that the cloud does not answer; a report that cannot be sent is repeated."""
        assert self._silent_since is not None
        if self._reported_silence or (datetime.now(UTC) - self._silent_since).total_seconds() < SILENCE_SECONDS:
            return
        await report_silence(self._client, self._location, str(error), since=self._silent_since)
        self._reported_silence = True

    async def _refused(self, error: PermissionDenied | Invalid) -> WatchResult:
        """End the watch if nothing is left here, or raise an error that only an operator can fix."""
        if await self._is_abandoned():
            return self.result(done=True)
        count_failed_look(self._location, type(error).__name__)
        if not was_refused(self._location, await self._state()):
            await report_refusal(self._client, self._location, error)
        raise refusal(self._location, error)

    async def _is_abandoned(self) -> bool:
        """Whether the cluster has nothing here and no group that could order anything here."""
        reading = await self._reading()
        return not (self._location.key in reading.locations or self._known or reading.running)

    async def _reconfigured(self) -> WatchResult | None:
        """The result of the round if the configuration of the location has changed."""
        configured = (await self._reading()).locations.get(self._location.key, self._location)
        return None if configured == self._location else self.result(location=configured)

    async def _state(self) -> AutoscalerState | None:
        return (await self._reading()).state

    async def _reading(self) -> ClusterReading:
        oldest = 0.0 if self._reported_silence else self._location.rules.audit_seconds / 2
        return await self._readings.of(self._location.cluster, oldest_seconds=oldest)

    async def _look(self, provider: Provider, listing: Listing, *, elapsed: float) -> None:
        """Health-check the slices that are due, and notify every slice of what changed for it."""
        rules = self._location.rules
        sightings = {item.ref.name: item for item in listing.items}
        due = reconciliation.due_for_health_check(
            self._known, listing.items, asked=self._asked, at=time.time(), rules=rules, elapsed=elapsed
        )
        items = [item for item in listing.items if item.slice_id in {*due}]
        for seen in await gather_limited(items, lambda item: self._health_checked(provider, item)):
            if seen is not None:
                sightings[seen.ref.name] = seen
                self._asked[seen.slice_id] = time.time()
        after, notifications = reconciliation.reconcile(
            self._known, sightings.values(), complete=listing.complete, at=datetime.now(UTC), rules=rules
        )
        delivered = await gather_limited(
            notifications, lambda notification: self._notify(provider, notification), at_once=slice_messages.AT_ONCE
        )
        failed = [one.slice_id for one, arrived in zip(notifications, delivered, strict=True) if not arrived]
        self._remember(reconciliation.without_undelivered(self._known, after, failed))

    async def _notify(self, provider: Provider, notification: Notification) -> bool:
        """True if delivered, or if the slice is gone and has no workflow to notify."""
        sighting = notification.sighting or await self._confirmed_gone(provider, notification)
        if sighting is None:
            return False
        workflow_id = names.slice_workflow_id(self._location.cluster, notification.group, notification.slice_id)
        try:
            delivered = await self._messages.send(self._location.cluster, workflow_id, names.OBSERVED, sighting)
        except RPCError as error:
            activity.logger.warning("slice %s could not be notified: %s", notification.slice_id, error)
            return False
        return delivered or sighting.phase is Phase.GONE

    async def _confirmed_gone(self, provider: Provider, notification: Notification) -> Sighting | None:
        """The last sighting of a slice that is no longer listed, with the cloud's reason; None if it still exists by name."""
        try:
            ref = ref_at(self._location, notification.group, notification.slice_id)
            seen = await answer_to(provider.observe(ref), self._location)
        except ProviderError as error:
            self._note(f"{notification.slice_id} could not be observed", error)
            return None
        return seen if seen.phase is Phase.GONE else None

    async def _health_checked(self, provider: Provider, item: Sighting) -> Sighting | None:
        """The resource with its hosts' health; None if it could not be observed, or is gone, which the next listing shows."""
        try:
            seen = await answer_to(provider.observe(item.ref), self._location)
        except ProviderError as error:
            self._note(f"{item.ref.name} could not be observed", error)
            return None
        return None if seen.phase is Phase.GONE else seen.model_copy(update={"checked": True})

    def _note(self, what: str, error: Exception) -> None:
        """Note a call that failed without ending the round. A defect was logged where it was caught, so it is counted instead."""
        if isinstance(error, Unexpected):
            count_failed_look(self._location, type(error).__name__)
        else:
            activity.logger.warning("%s: %s", what, error)

    async def _audit(self, provider: Provider, listing: Listing) -> WatchResult | None:
        reading = await self._reading()
        report = await Audit(self._client, provider, self._location).of(listing, reading)
        if report is not None and (report.orphans or report.missing or self._has_problem(reading)):
            await send_location(self._client, self._location.cluster, report)
        self._reported_silence = False
        if reading.state is not None:
            orphans = [one.slice_id for one in report.orphans] if report else []
            self._unconfirmed = self._unconfirmed.after(self._known, self._ledger_here(reading))
            self._forget((*orphans, *self._unconfirmed.resend))
            await self._recall(reading, listing)
        return self._judged(reading, listing)

    def _has_problem(self, reading: ClusterReading) -> bool:
        """Whether the autoscaler believes, or may believe, that this location cannot be listed."""
        return self._reported_silence or (reading.state is not None and self._location.key in reading.state.location_problems)

    def _ledger_here(self, reading: ClusterReading) -> list[Slice]:
        """The ledger's slices at this location, and those that this watch has notified."""
        assert reading.state is not None
        by_id = reading.state.by_id
        here = {piece.id: piece for piece in reading.slices_at(self._location.key)}
        return list((here | {slice_id: by_id[slice_id] for slice_id in self._known if slice_id in by_id}).values())

    async def _recall(self, reading: ClusterReading, listing: Listing) -> None:
        """Complete the table from the ledger, and from slice workflows, after a killed worker lost what it saw here."""
        listed = {item.slice_id for item in listing.items}
        absent = [
            piece
            for piece in reconciliation.never_notified(self._known, reading.slices_at(self._location.key))
            if piece.id in reading.running and piece.id not in listed and piece.id not in self._elsewhere
        ]
        lifecycles = await gather_limited(
            absent, lambda piece: lifecycle_of(self._client, self._location.cluster, piece.group, piece.id)
        )
        here = [one for one in lifecycles if one is not None and one.spec.location.key == self._location.key]
        self._elsewhere |= {piece.id for piece in absent} - {lifecycle.spec.slice_id for lifecycle in here}
        created = {lifecycle.spec.slice_id for lifecycle in here if lifecycle.create_accepted} | self._known.keys()
        self._remember(reconciliation.recalled(self._known, [one for one in self._ledger_here(reading) if one.id in created]))

    def _judged(self, reading: ClusterReading, listing: Listing) -> WatchResult | None:
        """The result of the round if the location was reconfigured, or is no longer configured and empty."""
        here = reading.locations.get(self._location.key)
        if here is not None:
            self._empty_audits = 0
            return None if here == self._location else self.result(location=here)
        in_use = bool(listing.items or self._known or (reading.state is None and reading.running))
        self._empty_audits = 0 if in_use or not listing.complete else self._empty_audits + 1
        return self.result(done=True) if self._empty_audits >= EMPTY_AUDITS else None

    def result(self, *, location: WatchedLocation | None = None, done: bool = False) -> WatchResult:
        """The result of the round, if it ended now."""
        last = self._last
        return WatchResult(
            known=self.packed,
            resources=len(last.items) if last else 0,
            complete=last is not None and last.complete,
            location=location,
            done=done,
        )

    def _remember(self, known: NotifiedTable) -> None:
        if known != self._known:
            self._known = known
            self.packed = reconciliation.pack_notified(known)
            activity.heartbeat(self.packed)

    def _forget(self, slice_ids: Iterable[str]) -> None:
        """Drop the entries of slices, so that the next look notifies them again."""
        gone = set(slice_ids)
        self._remember({slice_id: one for slice_id, one in self._known.items() if slice_id not in gone})

    def _pause(self) -> float:
        """Seconds until the next look: few after a wake-up and while a slice is starting or leaving."""
        rules = self._location.rules
        return (
            min(rules.look_seconds, rules.rest_seconds)
            if self._quick_looks_left
            else reconciliation.pause_after(self._known, rules)
        )

    async def _wait(self, seconds: float) -> None:
        """Wait until the next look is due, or an activity at this location wakes the watch.

        However many wake-ups there are, the pause between looks is never shorter than `look`.
        """
        shortest = min(self._location.rules.look_seconds, seconds)
        if await self._wakeups.wait(self._location.cluster, self._location.key, seconds):
            self._quick_looks_left = QUICK_LOOKS
            await asyncio.sleep(max(0.0, self._looked_at + shortest - time.monotonic()))
