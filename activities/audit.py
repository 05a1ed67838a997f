"""Audits: reconcile the cloud's resources at one location with the ledger and the running slice workflows."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.cloud_calls import answer_to
from activities.metrics import count_failed_look
from activities.providers.open_providers import Providers
from activities.providers.port import Invalid, Listing, Order, PermissionDenied, Provider, ProviderError, Ref, Unexpected
from activities.provision import failure_of
from activities.slice_reports import REPORTS_AT_ONCE, in_batches, send_reports
from activities.temporal_reads import (
    CachedReadings,
    ClusterReading,
    gather_limited,
    is_running,
    lifecycle_of,
    signal_if_running,
    state_of,
)
from penstock.contract import names
from penstock.contract.answers import LocationProblem, ProblemKind
from penstock.contract.inventories import LocationReport, WatchedLocation
from penstock.contract.requests import AuditRequest
from penstock.core.slices.audit import AuditFindings, audit_findings
from penstock.core.slices.lifecycle import report_of
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import Slice

LEAST_PAUSE_SECONDS = 0.02
"""Least pause between two listings, whatever is configured."""
LocationsCallback = Callable[[Sequence[WatchedLocation]], object]
"""Callback with every location in use; called before the first order there and repeatedly after, so it must be idempotent."""


class Audit:
    """One audit of one location. Suspicions are checked once more, against fresh readings, before they are reported."""

    def __init__(self, client: Client, provider: Provider, location: WatchedLocation) -> None:
        self._client = client
        self._provider = provider
        self._location = location

    async def of(self, listing: Listing, reading: ClusterReading, *, asked: str | None = None) -> LocationReport | None:
        """The report of the audit; None if no autoscaler runs that could receive it.

        Running slices that the ledger does not have are reported to the autoscaler before this returns.
        """
        if reading.state is None:
            return None
        suspects = self._findings(listing.items, reading, running=reading.running, complete=listing.complete)
        found = await self._confirmed(listing, suspects, reading) if any(suspects) else suspects
        if found is None:
            return None
        await self._report_unknown_slices(found.unreported)
        return LocationReport(
            location=self._location.location,
            at=datetime.now(UTC),
            complete=listing.complete,
            asked=asked,
            orphans=tuple(self._to_adopt(found, reading)),
            missing=found.missing,
        )

    def _to_adopt(self, found: AuditFindings, reading: ClusterReading) -> Sequence[Sighting]:
        """Orphans that need a workflow: not those that are already being deleted.

        At a location that is no longer configured, only as many as one signal carries; the next audit reports the rest.
        """
        lasting = [sighting for sighting in found.orphans if sighting.phase is not Phase.DELETING]
        return lasting if self._location.key in reading.locations else lasting[:REPORTS_AT_ONCE]

    def _findings(
        self, sightings: Sequence[Sighting], reading: ClusterReading, *, running: Collection[str], complete: bool
    ) -> AuditFindings:
        assert reading.state is not None
        ours = {piece.id: piece for piece in reading.slices_at(self._location.key)}
        known = reading.state.by_id
        ours |= {sighting.slice_id: known[sighting.slice_id] for sighting in sightings if sighting.slice_id in known}
        return audit_findings(sightings, ledger=tuple(ours.values()), running=running, complete=complete)

    async def _confirmed(self, listing: Listing, suspects: AuditFindings, reading: ClusterReading) -> AuditFindings | None:
        """The findings that still hold after reading the workflows, then the cloud, then the ledger again, in this order.

        So a slice that started or ended during the first readings is seen in its present state.
        """
        assert reading.state is not None
        groups = _groups_of(suspects, reading.state)
        running = await self._running(groups)
        exists = await self._existing({i: group for i, group in groups.items() if i not in running})
        state = await state_of(self._client, self._location.cluster)
        if state is None:
            return None
        left = [sighting for sighting in listing.items if exists.get(sighting.slice_id, True)]
        fresh = ClusterReading(state, reading.running)
        found = self._findings(left, fresh, running={*reading.running, *running}, complete=listing.complete)
        return await self._without_unchecked(found, exists, state)

    async def _running(self, groups: dict[str, str]) -> set[str]:
        """The slices whose workflows run, each described by its id: Temporal's visibility list may lag."""

        async def runs(suspect: tuple[str, str]) -> bool:
            slice_id, group = suspect
            return await is_running(self._client, names.slice_workflow_id(self._location.cluster, group, slice_id))

        answers = await gather_limited(groups.items(), runs)
        return {slice_id for slice_id, running in zip(groups, answers, strict=True) if running}

    async def _existing(self, groups: dict[str, str]) -> dict[str, bool]:
        """Whether each slice has a resource at this location, looked up by name."""

        async def exists(suspect: tuple[str, str]) -> bool:
            slice_id, group = suspect
            seen = await answer_to(self._provider.observe(ref_at(self._location, group, slice_id)), self._location)
            return seen.phase is not Phase.GONE

        return dict(zip(groups, await gather_limited(groups.items(), exists), strict=True))

    async def _without_unchecked(self, found: AuditFindings, exists: dict[str, bool], state: AutoscalerState) -> AuditFindings:
        """Only findings whose slices were looked up; a slice that exists here or was ordered elsewhere is not missing."""
        elsewhere = await self._ordered_elsewhere([state.by_id[slice_id] for slice_id in found.missing])
        missing = (i for i in found.missing if exists.get(i) is False and i not in elsewhere)
        orphans = (sighting for sighting in found.orphans if sighting.slice_id in exists)
        return found._replace(missing=tuple(missing), orphans=tuple(orphans))

    async def _ordered_elsewhere(self, slices: Sequence[Slice]) -> set[str]:
        """Slices whose workflows name another location: their groups were removed or moved."""
        lifecycles = await gather_limited(
            slices, lambda piece: lifecycle_of(self._client, self._location.cluster, piece.group, piece.id)
        )
        return {
            lifecycle.spec.slice_id
            for lifecycle in lifecycles
            if lifecycle is not None and lifecycle.spec.location.key != self._location.key
        }

    async def _report_unknown_slices(self, sightings: Sequence[Sighting]) -> None:
        lifecycles = await gather_limited(
            sightings, lambda one: lifecycle_of(self._client, self._location.cluster, one.group, one.slice_id)
        )
        reports = [report_of(lifecycle) for lifecycle in lifecycles if lifecycle is not None]
        await send_reports(self._client, self._location.cluster, reports)


def _groups_of(suspects: AuditFindings, state: AutoscalerState) -> dict[str, str]:
    """The groups of orphans and missing slices, by slice id."""
    groups = {sighting.slice_id: sighting.group for sighting in suspects.orphans}
    return groups | {slice_id: state.by_id[slice_id].group for slice_id in suspects.missing}


def ref_at(location: WatchedLocation, group: str, slice_id: str) -> Ref:
    """The reference of a slice's resource at a location."""
    return Order(cluster=location.cluster, group=group, slice=slice_id, location=location.name).ref


async def send_location(client: Client, cluster: str, report: LocationReport) -> None:
    """Send the report of an audit to the autoscaler."""
    for part in parts_of(report):
        await signal_if_running(client, names.autoscaler_id(cluster), names.LOCATION_REPORTED, part)


def parts_of(report: LocationReport) -> list[LocationReport]:
    """The report as signals of bounded size. Only the last is marked complete, for a recovery that awaits the whole."""
    batches = in_batches(report.orphans) or [()]
    part = report.model_copy(update={"missing": (), "complete": False, "asked": None})
    parts = [part.model_copy(update={"orphans": batch}) for batch in batches[:-1]]
    return [*parts, report.model_copy(update={"orphans": batches[-1]})]


class AuditActivities:
    """The activity that audits a location for a recovery, or before a cluster ends."""

    def __init__(self, client: Client, providers: Providers, readings: CachedReadings) -> None:
        self._client = client
        self._providers = providers
        self._readings = readings

    @activity.defn(name=names.AUDIT)
    async def audit(self, request: AuditRequest) -> bool:
        """Audit until the recovery has the complete listing it awaits (True), or the recovery is over (False)."""
        location, known = request.location, None
        pause = max(LEAST_PAUSE_SECONDS, location.rules.look_seconds)
        while True:
            report = await self._report(request)
            if report is None:
                return False
            settles, found = report.complete and report.asked is not None, (report.orphans, report.missing)
            if settles or found != known:
                await send_location(self._client, location.cluster, report)
            if settles:
                return True
            known = found
            await asyncio.sleep(pause)
            pause = min(2 * pause, max(pause, location.rules.rest_seconds))

    async def _report(self, request: AuditRequest) -> LocationReport | None:
        """Audit once; None if the recovery is over.

        Before a cluster ends, a listing that shows a resource of it does not count for the recovery. Its orphans are reported.
        """
        reading = await self._readings.of(request.location.cluster, oldest_seconds=0)
        location = reading.locations.get(request.location.key, request.location)
        recovery = reading.state.recovery if reading.state else None
        if recovery is None or recovery.id != request.recovery:
            return None
        try:
            provider = await answer_to(self._providers.of(location.provider, location.settings), location)
            listing = await answer_to(provider.list(location.name, cluster=location.cluster), location)
            asked = None if recovery.closing and any(item.is_ours for item in listing.items) else request.recovery
            return await Audit(self._client, provider, location).of(listing, reading, asked=asked)
        except (PermissionDenied, Invalid) as error:
            count_failed_look(location, type(error).__name__)
            if not was_refused(location, reading.state):
                await report_refusal(self._client, location, error, asked=request.recovery)
            raise refusal(location, error) from error
        except ProviderError as error:
            count_failed_look(location, type(error).__name__)
            await self._tell(location, reading, request, str(error))
            raise silence(location, error) from error

    async def _tell(self, location: WatchedLocation, reading: ClusterReading, request: AuditRequest, message: str) -> None:
        """Report once that the cloud does not answer: the recovery waits for it, so the status must say so at once."""
        if reading.state is not None and location.key not in reading.state.location_problems:
            await report_silence(self._client, location, message, since=datetime.now(UTC), asked=request.recovery)


def was_refused(location: WatchedLocation, state: AutoscalerState | None) -> bool:
    """Whether the autoscaler was told that the cloud refuses to list the location."""
    problem = state.location_problems.get(location.key) if state else None
    return problem is not None and problem.kind is ProblemKind.REFUSED


def refusal(location: WatchedLocation, error: PermissionDenied | Invalid) -> ApplicationError:
    """A benign error, retried at the pace of audits; the status reports it, so no log line repeats it."""
    return ApplicationError(
        f"{location.key} cannot be listed: {error}",
        type=type(error).__name__,
        next_retry_delay=timedelta(seconds=location.rules.audit_seconds),
        category=ApplicationErrorCategory.BENIGN,
    )


def silence(location: WatchedLocation, error: ProviderError, *, again: timedelta | None = None) -> ApplicationError:
    """The error of an attempt without an answer, for Temporal to retry. A defect is logged once, so no attempt repeats it."""
    return ApplicationError(
        f"{location.key} cannot be listed: {error}",
        type=type(error).__name__,
        next_retry_delay=again,
        category=ApplicationErrorCategory.BENIGN if isinstance(error, Unexpected) else ApplicationErrorCategory.UNSPECIFIED,
    )


async def report_silence(
    client: Client, location: WatchedLocation, message: str, *, since: datetime, asked: str | None = None
) -> None:
    """Report to the autoscaler that the cloud does not answer for a location."""
    problem = LocationProblem(kind=ProblemKind.NO_ANSWER, since=since, message=message)
    now = datetime.now(UTC)
    report = LocationReport(location=location.location, at=now, complete=False, asked=asked, problem=problem)
    await send_location(client, location.cluster, report)


async def report_refusal(
    client: Client, location: WatchedLocation, error: PermissionDenied | Invalid, *, asked: str | None = None
) -> None:
    """Report to the autoscaler why a location cannot be listed until an operator fixes it."""
    report = LocationReport(
        location=location.location, at=datetime.now(UTC), complete=False, asked=asked, failure=failure_of(error)
    )
    await send_location(client, location.cluster, report)
