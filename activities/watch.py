"""The watch of a location: one listing for all its slices, notified to those for whom it is news, and an audit now and then."""

import asyncio
import math
import time
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, TemporalError
from temporalio.service import RPCError

from activities.audit import (
    LEAST_PAUSE_SECONDS,
    Audit,
    LocationsCallback,
    configured_location,
    may_be_at,
    ref_at,
    refusal,
    report_refusal,
    send_location,
    was_refused,
)
from activities.heartbeats import beating
from activities.providers.port import Invalid, Listing, Observation, PermissionDenied, Phase, Provider, ProviderError, RateLimited
from activities.providers.registry import Providers
from activities.temporal_reads import CachedReadings, ClusterReading, gather_limited, lifecycle_of, signal_if_running
from activities.wakeups import Wakeups
from penstock.contract import names
from penstock.contract.inventories import Sighting, WatchedLocation
from penstock.contract.requests import WatchRequest, WatchResult
from penstock.core.slices import watch as reconciliation
from penstock.core.slices.lifecycle import spec_location_key
from penstock.core.slices.watch import Glimpse, Notification, NotifiedTable, Unconfirmed
from penstock.core.state.specs import is_configured, locations_of
from penstock.core.state.state import AutoscalerState

FAILURES_IN_A_ROW = 5
"""Failed looks after which the watch itself fails, so that Temporal shows why and tries again more and more slowly."""
LIVELY_LOOKS = 5
"""Looks in quick succession after a nudge: a cloud may take a moment to list what it has just taken."""
EMPTY_AUDITS = 2
"""Audits in a row that must find a location given up and empty before its watch ends."""


class WatchActivities:
    """The activity that watches a location for one round."""

    def __init__(
        self, client: Client, providers: Providers, wakeups: Wakeups, *, on_locations: LocationsCallback = lambda _: None
    ) -> None:
        self._client = client
        self._providers = providers
        self._wakeups = wakeups
        self._on_locations = on_locations
        self._readings = CachedReadings(client)

    @activity.defn(name=names.WATCH)
    async def watch(self, request: WatchRequest) -> WatchResult:
        """Watch until the round is over, the location is configured otherwise, or nothing is left to watch.

        After a crash it goes on with what the last heartbeat said its slices had been notified.
        """
        self._on_locations((request.location,))
        details = activity.info().heartbeat_details
        known = reconciliation.unpack_notified(details[0] if details else request.known)
        watch = _Watch(self._client, self._wakeups, self._readings, location=request.location, known=known)
        async with beating(lambda: (watch.packed,)):
            return await watch.round(self._providers, seconds=request.seconds)


class _Watch:
    """One round at one location."""

    def __init__(
        self, client: Client, wakeups: Wakeups, readings: CachedReadings, *, location: WatchedLocation, known: NotifiedTable
    ) -> None:
        self._client = client
        self._wakeups = wakeups
        self._readings = readings
        self._location = location
        self._known = known
        self.packed = reconciliation.pack_notified(known)
        """What gather_limited slice was notified, as heartbeats carry it."""
        self._asked: dict[str, float] = {}
        self._elsewhere: set[str] = set()
        """Slices that are not at this location, for certain."""
        self._doubts = Unconfirmed()
        self._looked_at = time.monotonic()
        self._audited_at = -math.inf
        self._lively = LIVELY_LOOKS
        self._empty_audits = 0
        self._last: Listing | None = None

    async def round(self, providers: Providers, *, seconds: float) -> WatchResult:
        """Look, tell, audit, wait; until the round is over or the worker stops."""
        ends, failures = time.monotonic() + seconds, 0
        while time.monotonic() < ends and not activity.is_worker_shutdown():
            least = LEAST_PAUSE_SECONDS
            try:
                provider = await providers.of(self._location.provider, self._location.settings)
                outcome = await self._once(provider)
                failures = 0
                if outcome is not None:
                    return outcome
            except (PermissionDenied, Invalid) as error:
                return await self._refused(error)
            except ProviderError as error:
                failures += 1
                activity.logger.warning("%s could not be looked at: %s", self._location.key, error)
                if failures >= FAILURES_IN_A_ROW:
                    if (elsewhere := await self._reconfigured()) is not None:
                        return elsewhere
                    raise ApplicationError(
                        f"{self._location.key} cannot be listed: {error}", type=type(error).__name__
                    ) from error
                if isinstance(error, RateLimited):
                    least = max(least, error.retry_after)
            await self._wait(min(max(least, self._pause()), max(0.0, ends - time.monotonic())))
        return self._watched()

    async def _once(self, provider: Provider) -> WatchResult | None:
        """One look, and an audit if it is time; what the round ends with, if it does."""
        elapsed, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        self._lively = max(0, self._lively - 1)
        listing = self._last = await provider.list(self._location.name, cluster=self._location.cluster)
        await self._look(provider, listing, elapsed=elapsed)
        if time.monotonic() - self._audited_at < self._location.rules.audit_seconds:
            return None
        self._audited_at = time.monotonic()
        try:
            return await self._audit(provider, listing)
        except TemporalError as error:
            activity.logger.warning("%s could not be audited: %s", self._location.key, error)
            return None

    async def _refused(self, error: PermissionDenied | Invalid) -> WatchResult:
        """End the round: with the location as configured now, or with an error that only an operator can fix."""
        if (elsewhere := await self._reconfigured()) is not None:
            return elsewhere
        if await self._is_forsaken():
            return self._watched(done=True)
        if not was_refused(self._location, await self._state()):
            await report_refusal(self._client, self._location, error)
        raise refusal(self._location, error)

    async def _is_forsaken(self) -> bool:
        """Whether nobody has anything here, nor may have: there is no use in asking on."""
        reading = await self._readings.of(self._location.cluster, oldest_seconds=self._location.rules.audit_seconds / 2)
        wanted = is_configured(self._location, reading.state.config if reading.state else None)
        return not (wanted or self._known or reading.running)

    async def _reconfigured(self) -> WatchResult | None:
        """What the round ends with if the location is configured otherwise by now."""
        configured = configured_location(self._location, await self._state())
        return None if configured == self._location else self._watched(location=configured)

    async def _state(self) -> AutoscalerState | None:
        rules = self._location.rules
        return (await self._readings.of(self._location.cluster, oldest_seconds=rules.audit_seconds / 2)).state

    async def _look(self, provider: Provider, listing: Listing, *, elapsed: float) -> None:
        """Ask hosts that are due for their health, and tell every slice what is news to it."""
        glimpses = {item.ref.name: _listed(item) for item in listing.items}
        rules = self._location.rules
        due = set(
            reconciliation.due_for_health_check(
                self._known, glimpses.values(), asked=self._asked, at=time.time(), rules=rules, elapsed=elapsed
            )
        )
        items = [item for item in listing.items if item.labels.slice in due]
        for seen in await gather_limited(items, lambda item: _asked(provider, item)):
            if seen is not None:
                glimpses[seen.ref.name] = _observed(seen)
                self._asked[seen.labels.slice] = time.time()
        at = datetime.now(UTC)
        after, tellings = reconciliation.reconcile(
            self._known, glimpses.values(), complete=listing.complete, at=at, rules=self._location.rules
        )
        heard = await gather_limited(tellings, lambda telling: self._tell(provider, telling))
        unheard = [telling.slice_id for telling, was_heard in zip(tellings, heard, strict=True) if not was_heard]
        self._remember(reconciliation.without_undelivered(self._known, after, unheard))

    async def _tell(self, provider: Provider, telling: Notification) -> bool:
        """True if delivered, or if the slice is gone and has no workflow to notify."""
        sighting: Sighting | None = telling.sighting
        if telling.sighting.phase is Phase.GONE:
            sighting = await self._end_of(provider, telling)
        if sighting is None:
            return False
        workflow_id = names.slice_workflow_id(self._location.cluster, telling.group, telling.slice_id)
        try:
            heard = await signal_if_running(self._client, workflow_id, names.OBSERVED, sighting)
            return heard or sighting.phase is Phase.GONE
        except RPCError as error:
            activity.logger.warning("slice %s could not be notified what was seen: %s", telling.slice_id, error)
            return False

    async def _end_of(self, provider: Provider, telling: Notification) -> Sighting | None:
        """The end of a slice that lists show no more, with what the cloud says of it; None if it is there when asked by name."""
        try:
            seen = await provider.observe(ref_at(self._location, telling.group, telling.slice_id))
        except ProviderError as error:
            activity.logger.warning("whether %s is gone could not be asked: %s", telling.slice_id, error)
            return None
        if seen.phase is not Phase.GONE:
            return None
        return telling.sighting.model_copy(update={"failure": seen.failure})

    async def _audit(self, provider: Provider, listing: Listing) -> WatchResult | None:
        rules = self._location.rules
        reading = await self._readings.of(self._location.cluster, oldest_seconds=rules.audit_seconds / 2)
        report = await Audit(self._client, provider, self._location).of(listing, reading)
        if report is not None and (report.orphans or report.missing or was_refused(self._location, reading.state)):
            await send_location(self._client, self._location.cluster, report)
        if reading.state is not None:
            orphans = [one.slice_id for one in report.orphans] if report else []
            self._doubts = self._doubts.after(self._known, reading.state.slices)
            self._forget((*orphans, *self._doubts.tell_again))
            await self._recall(reading.state, reading.running, listing)
        return self._judged(reading, listing)

    async def _recall(self, state: AutoscalerState, running: Collection[str], listing: Listing) -> None:
        """Learn from the ledger, and from slices themselves, what a worker that was killed had seen here."""
        seen = {item.labels.slice for item in listing.items}
        absent = [
            piece
            for piece in reconciliation.never_notified(self._known, state.slices)
            if piece.id in running and piece.id not in seen | self._elsewhere and may_be_at(self._location, state, piece)
        ]
        lifecycles = await gather_limited(
            absent, lambda piece: lifecycle_of(self._client, self._location.cluster, piece.group, piece.id)
        )
        here = [
            lifecycle
            for lifecycle in lifecycles
            if lifecycle is not None and spec_location_key(lifecycle.spec) == self._location.key
        ]
        self._elsewhere |= {piece.id for piece in absent} - {lifecycle.spec.slice_id for lifecycle in here}
        read = {lifecycle.spec.slice_id for lifecycle in here if lifecycle.created} | self._known.keys()
        self._remember(reconciliation.recalled(self._known, [piece for piece in state.slices if piece.id in read]))

    def _judged(self, reading: ClusterReading, listing: Listing) -> WatchResult | None:
        """Whether the location is configured otherwise now, or no longer, with nothing left in it."""
        config = reading.state.config if reading.state else None
        here = [location for location in locations_of(config) if location.key == self._location.key] if config else []
        if here:
            self._empty_audits = 0
            return None if here[0] == self._location else self._watched(location=here[0])
        in_use = bool(listing.items or self._known or (reading.state is None and reading.running))
        self._empty_audits = 0 if in_use or not listing.complete else self._empty_audits + 1
        return self._watched(done=True) if self._empty_audits >= EMPTY_AUDITS else None

    def _watched(self, *, location: WatchedLocation | None = None, done: bool = False) -> WatchResult:
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
        """What these slices were notified did not last: they are signal_if_running again."""
        gone = set(slice_ids)
        self._remember({slice_id: one for slice_id, one in self._known.items() if slice_id not in gone})

    def _pause(self) -> float:
        """Short after a failed look, after a nudge, and while something is on its way."""
        rules = self._location.rules
        return min(rules.look_seconds, rules.rest_seconds) if self._lively else reconciliation.pause_after(self._known, rules)

    async def _wait(self, seconds: float) -> None:
        """Until the next look is due, somebody changed something here, or the worker stops.

        However many change something, looks are not closer together than on any other occasion.
        """
        shortest = min(self._location.rules.look_seconds, seconds)
        stop = asyncio.create_task(activity.wait_for_worker_shutdown())
        nudge = asyncio.create_task(self._wakeups.wait(self._location.cluster, self._location.key, seconds))
        try:
            await asyncio.wait((stop, nudge), return_when=asyncio.FIRST_COMPLETED)
            if nudge.done() and nudge.result():
                self._lively = LIVELY_LOOKS
                await asyncio.wait((stop,), timeout=max(0.0, self._looked_at + shortest - time.monotonic()))
        finally:
            stop.cancel()
            nudge.cancel()


def _listed(item: Observation) -> Glimpse:
    hosts = len(item.hosts)
    return Glimpse(item.labels.slice, item.labels.group, item.phase, item.addressed, failure=item.failure, hosts=hosts)


def _observed(seen: Observation) -> Glimpse:
    silent = tuple(i for i, host in enumerate(seen.hosts) if host.answered != seen.labels.slice)
    return _listed(seen)._replace(healthy=seen.healthy, silent=silent)


async def _asked(provider: Provider, item: Observation) -> Observation | None:
    """The resource with its hosts' health; None if it could not be asked, or is gone by now, which the next list shows."""
    try:
        seen = await provider.observe(item.ref)
    except ProviderError as error:
        activity.logger.warning("%s could not be observed: %s", item.ref.name, error)
        return None
    return None if seen.phase is Phase.GONE else seen
