"""The watch of a place: one listing for all its slices, told to those for whom it is news, and an audit now and then."""

import asyncio
import math
import time
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, TemporalError
from temporalio.service import RPCError

from activities.auditing import (
    LEAST_PAUSE_SECONDS,
    Audit,
    HeardOf,
    configured_place,
    may_be_at,
    ref_at,
    refusal,
    send_location,
    tell_refusal,
    was_refused,
)
from activities.books import Books, Readings, each, life_of, told
from activities.heartbeats import beating
from activities.nudges import Nudges
from activities.providers.port import Invalid, Listing, Observation, PermissionDenied, Phase, Provider, ProviderError, RateLimited
from activities.providers.registry import Providers
from penstock.contract import names
from penstock.contract.lives import Place, Sighting
from penstock.contract.requests import Watched, WatchRequest
from penstock.core import lookout
from penstock.core.lifecycle import spec_place
from penstock.core.lookout import Doubts, Glimpse, KnownTable, Telling
from penstock.core.specs import is_configured, places_of
from penstock.core.state import AutoscalerState

FAILURES_IN_A_ROW = 5
"""Failed looks after which the watch itself fails, so that Temporal shows why and tries again more and more slowly."""
LIVELY_LOOKS = 5
"""Looks in quick succession after a nudge: a cloud may take a moment to list what it has just taken."""
EMPTY_AUDITS = 2
"""Audits in a row that must find a place given up and empty before its watch ends."""


class Watching:
    """The activity that watches a place for one round."""

    def __init__(self, client: Client, providers: Providers, nudges: Nudges, *, heard_of: HeardOf = lambda _: None) -> None:
        self._client = client
        self._providers = providers
        self._nudges = nudges
        self._heard_of = heard_of
        self._readings = Readings(client)

    @activity.defn(name=names.WATCH)
    async def watch(self, request: WatchRequest) -> Watched:
        """Watch until the round is over, the place is configured otherwise, or nothing is left to watch.

        After a crash it goes on with what the last heartbeat said its slices had been told.
        """
        self._heard_of((request.place,))
        details = activity.info().heartbeat_details
        known = lookout.unpack_known(details[0] if details else request.known)
        watch = _Watch(self._client, self._nudges, self._readings, place=request.place, known=known)
        async with beating(lambda: (watch.packed,)):
            return await watch.round(self._providers, seconds=request.seconds)


class _Watch:
    """One round at one place."""

    def __init__(self, client: Client, nudges: Nudges, readings: Readings, *, place: Place, known: KnownTable) -> None:
        self._client = client
        self._nudges = nudges
        self._readings = readings
        self._place = place
        self._known = known
        self.packed = lookout.pack_known(known)
        """What each slice was told, as heartbeats carry it."""
        self._asked: dict[str, float] = {}
        self._elsewhere: set[str] = set()
        """Slices that are not at this place, for certain."""
        self._doubts = Doubts()
        self._looked_at = time.monotonic()
        self._audited_at = -math.inf
        self._lively = LIVELY_LOOKS
        self._empty_audits = 0
        self._last: Listing | None = None

    async def round(self, providers: Providers, *, seconds: float) -> Watched:
        """Look, tell, audit, wait; until the round is over or the worker stops."""
        ends, failures = time.monotonic() + seconds, 0
        while time.monotonic() < ends and not activity.is_worker_shutdown():
            least = LEAST_PAUSE_SECONDS
            try:
                provider = await providers.of(self._place.provider, self._place.settings)
                outcome = await self._once(provider)
                failures = 0
                if outcome is not None:
                    return outcome
            except (PermissionDenied, Invalid) as error:
                return await self._refused(error)
            except ProviderError as error:
                failures += 1
                activity.logger.warning("%s could not be looked at: %s", self._place.key, error)
                if failures >= FAILURES_IN_A_ROW:
                    if (elsewhere := await self._reconfigured()) is not None:
                        return elsewhere
                    raise ApplicationError(f"{self._place.key} cannot be listed: {error}", type=type(error).__name__) from error
                if isinstance(error, RateLimited):
                    least = max(least, error.retry_after)
            await self._wait(min(max(least, self._pause()), max(0.0, ends - time.monotonic())))
        return self._watched()

    async def _once(self, provider: Provider) -> Watched | None:
        """One look, and an audit if it is time; what the round ends with, if it does."""
        elapsed, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        self._lively = max(0, self._lively - 1)
        listing = self._last = await provider.list(self._place.location, cluster=self._place.cluster)
        await self._look(provider, listing, elapsed=elapsed)
        if time.monotonic() - self._audited_at < self._place.rules.audit_seconds:
            return None
        self._audited_at = time.monotonic()
        try:
            return await self._audit(provider, listing)
        except TemporalError as error:
            activity.logger.warning("%s could not be audited: %s", self._place.key, error)
            return None

    async def _refused(self, error: PermissionDenied | Invalid) -> Watched:
        """End the round: with the place as it is configured by now, or failing for what people must mend, which they are told."""
        if (elsewhere := await self._reconfigured()) is not None:
            return elsewhere
        if await self._is_forsaken():
            return self._watched(done=True)
        if not was_refused(self._place, await self._state()):
            await tell_refusal(self._client, self._place, error)
        raise refusal(self._place, error)

    async def _is_forsaken(self) -> bool:
        """Whether nobody has anything here, nor may have: there is no use in asking on."""
        books = await self._readings.of(self._place.cluster, oldest_seconds=self._place.rules.audit_seconds / 2)
        wanted = is_configured(self._place, books.state.config if books.state else None)
        return not (wanted or self._known or books.running)

    async def _reconfigured(self) -> Watched | None:
        """What the round ends with if the place is configured otherwise by now."""
        configured = configured_place(self._place, await self._state())
        return None if configured == self._place else self._watched(place=configured)

    async def _state(self) -> AutoscalerState | None:
        rules = self._place.rules
        return (await self._readings.of(self._place.cluster, oldest_seconds=rules.audit_seconds / 2)).state

    async def _look(self, provider: Provider, listing: Listing, *, elapsed: float) -> None:
        """Ask hosts that are due for their health, and tell every slice what is news to it."""
        glimpses = {item.ref.name: _listed(item) for item in listing.items}
        rules = self._place.rules
        due = set(lookout.to_ask(self._known, glimpses.values(), asked=self._asked, at=time.time(), rules=rules, elapsed=elapsed))
        items = [item for item in listing.items if item.labels.slice in due]
        for seen in await each(items, lambda item: _asked(provider, item)):
            if seen is not None:
                glimpses[seen.ref.name] = _observed(seen)
                self._asked[seen.labels.slice] = time.time()
        at = datetime.now(UTC)
        after, tellings = lookout.after_look(
            self._known, glimpses.values(), complete=listing.complete, at=at, rules=self._place.rules
        )
        heard = await each(tellings, lambda telling: self._tell(provider, telling))
        unheard = [telling.slice_id for telling, was_heard in zip(tellings, heard, strict=True) if not was_heard]
        self._remember(lookout.undelivered(self._known, after, unheard))

    async def _tell(self, provider: Provider, telling: Telling) -> bool:
        """Whether it need not be told again at the next look: the slice heard it, or is gone without anybody looking after it."""
        sighting: Sighting | None = telling.sighting
        if telling.sighting.phase is Phase.GONE:
            sighting = await self._end_of(provider, telling)
        if sighting is None:
            return False
        workflow_id = names.slice_workflow_id(self._place.cluster, telling.group, telling.slice_id)
        try:
            heard = await told(self._client, workflow_id, names.SEEN, sighting)
            return heard or sighting.phase is Phase.GONE
        except RPCError as error:
            activity.logger.warning("slice %s could not be told what was seen: %s", telling.slice_id, error)
            return False

    async def _end_of(self, provider: Provider, telling: Telling) -> Sighting | None:
        """The end of a slice that lists show no more, with what the cloud says of it; None if it is there when asked by name."""
        try:
            seen = await provider.observe(ref_at(self._place, telling.group, telling.slice_id))
        except ProviderError as error:
            activity.logger.warning("whether %s is gone could not be asked: %s", telling.slice_id, error)
            return None
        if seen.phase is not Phase.GONE:
            return None
        return telling.sighting.model_copy(update={"failure": seen.failure})

    async def _audit(self, provider: Provider, listing: Listing) -> Watched | None:
        rules = self._place.rules
        books = await self._readings.of(self._place.cluster, oldest_seconds=rules.audit_seconds / 2)
        report = await Audit(self._client, provider, self._place).of(listing, books)
        if report is not None and (report.unowned or report.missing or was_refused(self._place, books.state)):
            await send_location(self._client, self._place.cluster, report)
        if books.state is not None:
            unowned = [one.slice_id for one in report.unowned] if report else []
            self._doubts = self._doubts.after(self._known, books.state.slices)
            self._forget((*unowned, *self._doubts.tell_again))
            await self._recall(books.state, books.running, listing)
        return self._judged(books, listing)

    async def _recall(self, state: AutoscalerState, running: Collection[str], listing: Listing) -> None:
        """Learn from the ledger, and from slices themselves, what a worker that was killed had seen here."""
        seen = {item.labels.slice for item in listing.items}
        absent = [
            piece
            for piece in lookout.unheard_of(self._known, state.slices)
            if piece.id in running and piece.id not in seen | self._elsewhere and may_be_at(self._place, state, piece)
        ]
        lives = await each(absent, lambda piece: life_of(self._client, self._place.cluster, piece.group, piece.id))
        here = [life for life in lives if life is not None and spec_place(life.spec) == self._place.key]
        self._elsewhere |= {piece.id for piece in absent} - {life.spec.slice_id for life in here}
        read = {life.spec.slice_id for life in here if life.created} | self._known.keys()
        self._remember(lookout.recalled(self._known, [piece for piece in state.slices if piece.id in read]))

    def _judged(self, books: Books, listing: Listing) -> Watched | None:
        """Whether the place is configured otherwise now, or no longer, with nothing left in it."""
        config = books.state.config if books.state else None
        here = [place for place in places_of(config) if place.key == self._place.key] if config else []
        if here:
            self._empty_audits = 0
            return None if here[0] == self._place else self._watched(place=here[0])
        in_use = bool(listing.items or self._known or (books.state is None and books.running))
        self._empty_audits = 0 if in_use or not listing.complete else self._empty_audits + 1
        return self._watched(done=True) if self._empty_audits >= EMPTY_AUDITS else None

    def _watched(self, *, place: Place | None = None, done: bool = False) -> Watched:
        last = self._last
        return Watched(
            known=self.packed,
            resources=len(last.items) if last else 0,
            complete=last is not None and last.complete,
            place=place,
            done=done,
        )

    def _remember(self, known: KnownTable) -> None:
        if known != self._known:
            self._known = known
            self.packed = lookout.pack_known(known)
            activity.heartbeat(self.packed)

    def _forget(self, slice_ids: Iterable[str]) -> None:
        """What these slices were told did not last: they are told again."""
        gone = set(slice_ids)
        self._remember({slice_id: one for slice_id, one in self._known.items() if slice_id not in gone})

    def _pause(self) -> float:
        """Short after a failed look, after a nudge, and while something is on its way."""
        rules = self._place.rules
        return min(rules.look_seconds, rules.rest_seconds) if self._lively else lookout.pause_after(self._known, rules)

    async def _wait(self, seconds: float) -> None:
        """Until the next look is due, somebody changed something here, or the worker stops.

        However many change something, looks are not closer together than on any other occasion.
        """
        shortest = min(self._place.rules.look_seconds, seconds)
        stop = asyncio.create_task(activity.wait_for_worker_shutdown())
        nudge = asyncio.create_task(self._nudges.wait(self._place.cluster, self._place.key, seconds))
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
