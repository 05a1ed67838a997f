"""Audits: what the cloud has at a place, against what the ledger says and which slice workflows run."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.books import Books, Readings, each, is_running, life_of, state_of, told
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
from activities.provisioning import failure_of
from penstock.contract import names
from penstock.contract.lives import LocationReport, Place, SliceReport, SliceReports, Unowned
from penstock.contract.requests import AuditRequest
from penstock.core.comparison import Findings, Resource, findings
from penstock.core.health import after_look
from penstock.core.lifecycle import report_of, spec_place
from penstock.core.specs import group_place, is_configured, places_of
from penstock.core.state import AutoscalerState
from penstock.model.failures import Phase
from penstock.model.slices import Slice

LEAST_PAUSE_SECONDS = 0.02
"""Between two looks, whatever is configured: a cloud is not asked without a pause."""
REPORTS_AT_ONCE = 200
"""Reports, or resources without an owner, in one signal: few signals, each far below what a message may weigh."""

HeardOf = Callable[[Sequence[Place]], object]
"""Told of places where slices may be, before anything is ordered there and again and again."""


def resources_of(place: Place, listing: Listing) -> tuple[Resource, ...]:
    """A listing as it is compared."""
    return tuple(
        Resource(
            slice_id=item.labels.slice,
            group=item.labels.group,
            place=place.key,
            name=item.ref.name,
            phase=item.phase,
            created_at=item.created_at,
            hosts=max(1, len(item.hosts)),
            made=_is_ours(item),
        )
        for item in listing.items
    )


class Audit:
    """One comparison of one place. Suspicions are confirmed with those concerned before anything is said."""

    def __init__(self, client: Client, provider: Provider, place: Place) -> None:
        self._client = client
        self._provider = provider
        self._place = place

    async def of(self, listing: Listing, books: Books, *, asked: str | None = None) -> LocationReport | None:
        """What nobody looks after here; None if no autoscaler runs that could be told.

        Slices that run and are unknown to the autoscaler are made known to it before this returns.
        """
        if books.state is None:
            return None
        resources = resources_of(self._place, listing)
        suspects = self._findings(resources, books.state, running=books.running, complete=listing.complete)
        found = await self._confirmed(resources, suspects, books, complete=listing.complete) if any(suspects) else suspects
        if found is None:
            return None
        await self._make_known(found.unreported)
        return LocationReport(
            account=self._place.account,
            location=self._place.location,
            at=datetime.now(UTC),
            complete=listing.complete,
            asked=asked,
            unowned=tuple(self._unowned(resource) for resource in self._to_adopt(found, books.state)),
            missing=found.missing,
        )

    def _to_adopt(self, found: Findings, state: AutoscalerState) -> Sequence[Resource]:
        """What somebody must look after.

        Of a place that is no longer configured, as much as can be carried with its settings; the rest is told next time.
        """
        lasting = [resource for resource in found.unowned if resource.phase is not Phase.DELETING]
        return lasting if is_configured(self._place, state.config) else lasting[:REPORTS_AT_ONCE]

    def _findings(
        self, resources: Sequence[Resource], state: AutoscalerState, *, running: Iterable[str], complete: bool
    ) -> Findings:
        present = {resource.slice_id for resource in resources}
        ours = [piece for piece in state.slices if piece.id in present or may_be_at(self._place, state, piece)]
        return findings(resources, ledger=ours, running={*running}, starting=state.starting, complete=complete)

    async def _confirmed(
        self, resources: Sequence[Resource], suspects: Findings, books: Books, *, complete: bool
    ) -> Findings | None:
        """What still holds after the workflows, then the cloud, then the ledger were asked again, in this order.

        A slice that ended or began while the first three readings were made is then seen as it is.
        """
        assert books.state is not None
        groups = {resource.slice_id: resource.group for resource in suspects.unowned}
        groups |= {piece.id: piece.group for piece in books.state.slices if piece.id in suspects.missing}
        checked = await each(sorted(groups.items()), self._is_looked_after)
        running = {*books.running, *(slice_id for slice_id, runs in checked if runs)}
        absent = [(slice_id, groups[slice_id]) for slice_id, runs in checked if not runs]
        present = dict(await each(absent, self._exists))
        state = await state_of(self._client, self._place.cluster)
        if state is None:
            return None
        left = [resource for resource in resources if present.get(resource.slice_id, True)]
        found = self._findings(left, state, running=running, complete=complete)
        elsewhere = {slice_id for slice_id, exists in present.items() if exists}
        elsewhere |= await self._known_elsewhere(state, found.missing)
        confirmed = tuple(i for i in found.missing if i in present and i not in elsewhere)
        return found._replace(missing=confirmed, unowned=tuple(one for one in found.unowned if one.slice_id in present))

    async def _is_looked_after(self, suspect: tuple[str, str]) -> tuple[str, bool]:
        slice_id, group = suspect
        return slice_id, await is_running(self._client, names.slice_workflow_id(self._place.cluster, group, slice_id))

    async def _exists(self, suspect: tuple[str, str]) -> tuple[str, bool]:
        slice_id, group = suspect
        seen = await self._provider.observe(ref_at(self._place, group, slice_id))
        return slice_id, seen.phase is not Phase.GONE

    async def _known_elsewhere(self, state: AutoscalerState, missing: Sequence[str]) -> set[str]:
        """Those that were ordered somewhere else: their groups are gone, or have moved."""
        pieces = [piece for piece in state.slices if piece.id in missing]
        lives = await each(pieces, lambda piece: life_of(self._client, self._place.cluster, piece.group, piece.id))
        return {life.spec.slice_id for life in lives if life is not None and spec_place(life.spec) != self._place.key}

    async def _make_known(self, resources: Sequence[Resource]) -> None:
        lives = await each(resources, lambda one: life_of(self._client, self._place.cluster, one.group, one.slice_id))
        await send_reports(self._client, self._place.cluster, [report_of(life) for life in lives if life is not None])

    def _unowned(self, resource: Resource) -> Unowned:
        return Unowned(
            group=resource.group,
            slice_id=resource.slice_id,
            phase=resource.phase,
            location=self._place.location,
            provider=self._place.provider,
            account=self._place.account,
            settings=self._place.settings,
            created_at=resource.created_at,
            hosts=resource.hosts,
        )


def ref_at(place: Place, group: str, slice_id: str) -> Ref:
    """The resource of a slice at a place."""
    return Order(cluster=place.cluster, group=group, slice=slice_id, location=place.location).ref


def may_be_at(place: Place, state: AutoscalerState, piece: Slice) -> bool:
    """Whether a slice can be there. Where those of an unknown group are, only their workflows know."""
    if piece.place is not None:
        return piece.place == place.key
    group = state.config.group(piece.group) if state.config else None
    return group is None or group_place(group) == place.key


async def send_location(client: Client, cluster: str, report: LocationReport) -> None:
    """Tell the autoscaler what a location showed."""
    for piece in pieces_of(report):
        await told(client, names.autoscaler_id(cluster), names.LOCATION_REPORTED, piece)


def pieces_of(report: LocationReport) -> list[LocationReport]:
    """A report in as many signals as it takes. Only the last of them says that this is all, for whoever waits for that."""
    found = report.unowned
    batches = [found[first : first + REPORTS_AT_ONCE] for first in range(0, len(found), REPORTS_AT_ONCE)] or [()]
    part = report.model_copy(update={"missing": (), "complete": False, "asked": None})
    pieces = [part.model_copy(update={"unowned": batch}) for batch in batches[:-1]]
    return [*pieces, report.model_copy(update={"unowned": batches[-1]})]


async def send_reports(client: Client, cluster: str, reports: Sequence[SliceReport]) -> None:
    """Make slices known to their autoscaler."""
    for first in range(0, len(reports), REPORTS_AT_ONCE):
        batch = SliceReports(reports=tuple(reports[first : first + REPORTS_AT_ONCE]))
        await told(client, names.autoscaler_id(cluster), names.SLICES_REPORTED, batch)


class Auditing:
    """The activity that audits a place because a recovery, or the end of a cluster, asks for it."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers
        self._readings = Readings(client)

    @activity.defn(name=names.AUDIT)
    async def audit(self, request: AuditRequest) -> bool:
        """Audit until the place gave the listing that is waited for, or nobody waits for it any more; whether it did."""
        place, known = request.place, None
        pause = max(LEAST_PAUSE_SECONDS, place.rules.look_seconds)
        async with beating():
            while True:
                report = await self._report(request)
                if report is None:
                    return False
                settles, found = report.complete and report.asked is not None, (report.unowned, report.missing)
                if settles or found != known:
                    await send_location(self._client, place.cluster, report)
                if settles:
                    return True
                known = found
                await asyncio.sleep(pause)
                pause = min(2 * pause, max(pause, place.rules.rest_seconds))

    async def _report(self, request: AuditRequest) -> LocationReport | None:
        """What the place shows now; None once the recovery that asked is over.

        Before a cluster ends, a listing with anything of it settles nothing: what nobody looks after is told all the same.
        """
        books = await self._readings.of(request.place.cluster, oldest_seconds=0)
        place = configured_place(request.place, books.state)
        recovery = books.state.recovery if books.state else None
        if recovery is None or recovery.id != request.recovery:
            return None
        try:
            provider = await self._providers.of(place.provider, place.settings)
            listing = await provider.list(place.location, cluster=place.cluster)
            asked = None if recovery.closing and any(map(_is_ours, listing.items)) else request.recovery
            return await Audit(self._client, provider, place).of(listing, books, asked=asked)
        except ProviderError as error:
            if isinstance(error, PermissionDenied | Invalid):
                if not was_refused(place, books.state):
                    await tell_refusal(self._client, place, error, asked=request.recovery)
                raise refusal(place, error) from error
            raise ApplicationError(f"{place.key} cannot be listed: {error}", type=type(error).__name__) from error


def _is_ours(item: Observation) -> bool:
    """Whether a create call made it: what only carries our labels has another name, and no delete call would reach it."""
    owner = item.labels
    return item.ref.name == resource_name(cluster=owner.cluster, group=owner.group, slice_id=owner.slice)


def configured_place(place: Place, state: AutoscalerState | None) -> Place:
    """The place as it is configured now, if it still is."""
    config = state.config if state else None
    return next((other for other in places_of(config) if other.key == place.key), place) if config else place


def was_refused(place: Place, state: AutoscalerState | None) -> bool:
    """Whether groups of the place are blocked because it could not be looked at."""
    config = state.config if state else None
    if state is None or config is None or not any(block.looking for block in state.blocks):
        return False
    here = [group for group in config.groups if (group.provider.account, group.location) == (place.account, place.location)]
    return after_look(state.blocks, here) != state.blocks


def refusal(place: Place, error: PermissionDenied | Invalid) -> ApplicationError:
    """For Temporal to show and to repeat at the pace of audits: the autoscaler tells people, so no log need say it each time."""
    return ApplicationError(
        f"{place.key} cannot be listed: {error}",
        type=type(error).__name__,
        next_retry_delay=timedelta(seconds=place.rules.audit_seconds),
        category=ApplicationErrorCategory.BENIGN,
    )


async def tell_refusal(client: Client, place: Place, error: PermissionDenied | Invalid, *, asked: str | None = None) -> None:
    """Tell the autoscaler why a place cannot be looked at until people mend something."""
    report = LocationReport(
        account=place.account,
        location=place.location,
        at=datetime.now(UTC),
        complete=False,
        asked=asked,
        failure=failure_of(error),
        orders_too=True,
    )
    await send_location(client, place.cluster, report)
