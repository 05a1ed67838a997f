"""Audits: what the cloud has at a location, against what the ledger says and which slice workflows run."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.heartbeats import beating
from activities.providers.port import (
    Invalid,
    Listing,
    Observation,
    Order,
    PermissionDenied,
    Provider,
    ProviderError,
    Ref,
    resource_name,
)
from activities.providers.registry import Providers
from activities.provision import failure_of
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
from penstock.contract.inventories import LocationReport, Orphan, WatchedLocation
from penstock.contract.requests import AuditRequest
from penstock.contract.slices import SliceReport, SliceReports
from penstock.core.slices.audit import Findings, Resource, findings
from penstock.core.slices.lifecycle import report_of, spec_location_key
from penstock.core.state.health import after_look
from penstock.core.state.specs import group_location_key, is_configured, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import Phase
from penstock.model.slices import Slice

LEAST_PAUSE_SECONDS = 0.02
"""Between two looks, whatever is configured: a cloud is not asked without a pause."""
REPORTS_AT_ONCE = 200
"""Reports, or resources without an owner, in one signal: few signals, gather_limited far below what a message may weigh."""

LocationsCallback = Callable[[Sequence[WatchedLocation]], object]
"""Told of locations where slices may be, before anything is ordered there and again and again."""


def resources_of(location: WatchedLocation, listing: Listing) -> tuple[Resource, ...]:
    """A listing as it is compared."""
    return tuple(
        Resource(
            slice_id=item.labels.slice,
            group=item.labels.group,
            location=location.key,
            name=item.ref.name,
            phase=item.phase,
            created_at=item.created_at,
            hosts=max(1, len(item.hosts)),
            made=_is_ours(item),
        )
        for item in listing.items
    )


class Audit:
    """One comparison of one location. Suspicions are confirmed with those concerned before anything is said."""

    def __init__(self, client: Client, provider: Provider, location: WatchedLocation) -> None:
        self._client = client
        self._provider = provider
        self._location = location

    async def of(self, listing: Listing, reading: ClusterReading, *, asked: str | None = None) -> LocationReport | None:
        """What nobody looks after here; None if no autoscaler runs that could be notified.

        Slices that run and are unknown to the autoscaler are made known to it before this returns.
        """
        if reading.state is None:
            return None
        resources = resources_of(self._location, listing)
        suspects = self._findings(resources, reading.state, running=reading.running, complete=listing.complete)
        found = await self._confirmed(resources, suspects, reading, complete=listing.complete) if any(suspects) else suspects
        if found is None:
            return None
        await self._make_known(found.unreported)
        return LocationReport(
            account=self._location.account,
            location=self._location.name,
            at=datetime.now(UTC),
            complete=listing.complete,
            asked=asked,
            orphans=tuple(self._orphan(resource) for resource in self._to_adopt(found, reading.state)),
            missing=found.missing,
        )

    def _to_adopt(self, found: Findings, state: AutoscalerState) -> Sequence[Resource]:
        """What somebody must look after.

        Of a location that is no longer configured, as much as can be carried with its settings; the rest is notified next time.
        """
        lasting = [resource for resource in found.orphans if resource.phase is not Phase.DELETING]
        return lasting if is_configured(self._location, state.config) else lasting[:REPORTS_AT_ONCE]

    def _findings(
        self, resources: Sequence[Resource], state: AutoscalerState, *, running: Iterable[str], complete: bool
    ) -> Findings:
        present = {resource.slice_id for resource in resources}
        ours = [piece for piece in state.slices if piece.id in present or may_be_at(self._location, state, piece)]
        return findings(resources, ledger=ours, running={*running}, starting=state.starting, complete=complete)

    async def _confirmed(
        self, resources: Sequence[Resource], suspects: Findings, reading: ClusterReading, *, complete: bool
    ) -> Findings | None:
        """What still holds after the workflows, then the cloud, then the ledger were asked again, in this order.

        A slice that ended or began while the first three readings were made is then seen as it is.
        """
        assert reading.state is not None
        groups = {resource.slice_id: resource.group for resource in suspects.orphans}
        groups |= {piece.id: piece.group for piece in reading.state.slices if piece.id in suspects.missing}
        checked = await gather_limited(sorted(groups.items()), self._is_looked_after)
        running = {*reading.running, *(slice_id for slice_id, runs in checked if runs)}
        absent = [(slice_id, groups[slice_id]) for slice_id, runs in checked if not runs]
        present = dict(await gather_limited(absent, self._exists))
        state = await state_of(self._client, self._location.cluster)
        if state is None:
            return None
        left = [resource for resource in resources if present.get(resource.slice_id, True)]
        found = self._findings(left, state, running=running, complete=complete)
        elsewhere = {slice_id for slice_id, exists in present.items() if exists}
        elsewhere |= await self._known_elsewhere(state, found.missing)
        confirmed = tuple(i for i in found.missing if i in present and i not in elsewhere)
        return found._replace(missing=confirmed, orphans=tuple(one for one in found.orphans if one.slice_id in present))

    async def _is_looked_after(self, suspect: tuple[str, str]) -> tuple[str, bool]:
        slice_id, group = suspect
        return slice_id, await is_running(self._client, names.slice_workflow_id(self._location.cluster, group, slice_id))

    async def _exists(self, suspect: tuple[str, str]) -> tuple[str, bool]:
        slice_id, group = suspect
        seen = await self._provider.observe(ref_at(self._location, group, slice_id))
        return slice_id, seen.phase is not Phase.GONE

    async def _known_elsewhere(self, state: AutoscalerState, missing: Sequence[str]) -> set[str]:
        """Those that were ordered somewhere else: their groups are gone, or have moved."""
        pieces = [piece for piece in state.slices if piece.id in missing]
        lifecycles = await gather_limited(
            pieces, lambda piece: lifecycle_of(self._client, self._location.cluster, piece.group, piece.id)
        )
        return {
            lifecycle.spec.slice_id
            for lifecycle in lifecycles
            if lifecycle is not None and spec_location_key(lifecycle.spec) != self._location.key
        }

    async def _make_known(self, resources: Sequence[Resource]) -> None:
        lifecycles = await gather_limited(
            resources, lambda one: lifecycle_of(self._client, self._location.cluster, one.group, one.slice_id)
        )
        await send_reports(
            self._client, self._location.cluster, [report_of(lifecycle) for lifecycle in lifecycles if lifecycle is not None]
        )

    def _orphan(self, resource: Resource) -> Orphan:
        return Orphan(
            group=resource.group,
            slice_id=resource.slice_id,
            phase=resource.phase,
            location=self._location.name,
            provider=self._location.provider,
            account=self._location.account,
            settings=self._location.settings,
            created_at=resource.created_at,
            hosts=resource.hosts,
        )


def ref_at(location: WatchedLocation, group: str, slice_id: str) -> Ref:
    """The resource of a slice at a location."""
    return Order(cluster=location.cluster, group=group, slice=slice_id, location=location.name).ref


def may_be_at(location: WatchedLocation, state: AutoscalerState, piece: Slice) -> bool:
    """Whether a slice can be there. Where those of an unknown group are, only their workflows know."""
    if piece.location is not None:
        return piece.location == location.key
    group = state.config.group(piece.group) if state.config else None
    return group is None or group_location_key(group) == location.key


async def send_location(client: Client, cluster: str, report: LocationReport) -> None:
    """Tell the autoscaler what a location showed."""
    for piece in pieces_of(report):
        await signal_if_running(client, names.autoscaler_id(cluster), names.LOCATION_REPORTED, piece)


def pieces_of(report: LocationReport) -> list[LocationReport]:
    """A report in as many signals as it takes. Only the last of them says that this is all, for whoever waits for that."""
    found = report.orphans
    batches = [found[first : first + REPORTS_AT_ONCE] for first in range(0, len(found), REPORTS_AT_ONCE)] or [()]
    part = report.model_copy(update={"missing": (), "complete": False, "asked": None})
    pieces = [part.model_copy(update={"orphans": batch}) for batch in batches[:-1]]
    return [*pieces, report.model_copy(update={"orphans": batches[-1]})]


async def send_reports(client: Client, cluster: str, reports: Sequence[SliceReport]) -> None:
    """Make slices known to their autoscaler."""
    for first in range(0, len(reports), REPORTS_AT_ONCE):
        batch = SliceReports(reports=tuple(reports[first : first + REPORTS_AT_ONCE]))
        await signal_if_running(client, names.autoscaler_id(cluster), names.SLICES_REPORTED, batch)


class AuditActivities:
    """The activity that audits a location because a recovery, or the end of a cluster, asks for it."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers
        self._readings = CachedReadings(client)

    @activity.defn(name=names.AUDIT)
    async def audit(self, request: AuditRequest) -> bool:
        """Audit until the location gave the listing that is waited for, or nobody waits for it any more; whether it did."""
        location, known = request.location, None
        pause = max(LEAST_PAUSE_SECONDS, location.rules.look_seconds)
        async with beating():
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
        """What the location shows now; None once the recovery that asked is over.

        Before a cluster ends, a listing with anything of it settles nothing: what nobody looks after is notified all the same.
        """
        reading = await self._readings.of(request.location.cluster, oldest_seconds=0)
        location = configured_location(request.location, reading.state)
        recovery = reading.state.recovery if reading.state else None
        if recovery is None or recovery.id != request.recovery:
            return None
        try:
            provider = await self._providers.of(location.provider, location.settings)
            listing = await provider.list(location.name, cluster=location.cluster)
            asked = None if recovery.closing and any(map(_is_ours, listing.items)) else request.recovery
            return await Audit(self._client, provider, location).of(listing, reading, asked=asked)
        except ProviderError as error:
            if isinstance(error, PermissionDenied | Invalid):
                if not was_refused(location, reading.state):
                    await report_refusal(self._client, location, error, asked=request.recovery)
                raise refusal(location, error) from error
            raise ApplicationError(f"{location.key} cannot be listed: {error}", type=type(error).__name__) from error


def _is_ours(item: Observation) -> bool:
    """Whether a create call made it: what only carries our labels has another name, and no delete call would reach it."""
    owner = item.labels
    return item.ref.name == resource_name(cluster=owner.cluster, group=owner.group, slice_id=owner.slice)


def configured_location(location: WatchedLocation, state: AutoscalerState | None) -> WatchedLocation:
    """The location as it is configured now, if it still is."""
    config = state.config if state else None
    return next((other for other in locations_of(config) if other.key == location.key), location) if config else location


def was_refused(location: WatchedLocation, state: AutoscalerState | None) -> bool:
    """Whether groups of the location are blocked because it could not be looked at."""
    config = state.config if state else None
    if state is None or config is None or not any(block.looking for block in state.blocks):
        return False
    here = [group for group in config.groups if (group.provider.account, group.location) == (location.account, location.name)]
    return after_look(state.blocks, here) != state.blocks


def refusal(location: WatchedLocation, error: PermissionDenied | Invalid) -> ApplicationError:
    """A benign error, retried at the pace of audits; the status reports it, so no log line repeats it."""
    return ApplicationError(
        f"{location.key} cannot be listed: {error}",
        type=type(error).__name__,
        next_retry_delay=timedelta(seconds=location.rules.audit_seconds),
        category=ApplicationErrorCategory.BENIGN,
    )


async def report_refusal(
    client: Client, location: WatchedLocation, error: PermissionDenied | Invalid, *, asked: str | None = None
) -> None:
    """Tell the autoscaler why a location cannot be looked at until people mend something."""
    report = LocationReport(
        account=location.account,
        location=location.name,
        at=datetime.now(UTC),
        complete=False,
        asked=asked,
        failure=failure_of(error),
        orders_too=True,
    )
    await send_location(client, location.cluster, report)
