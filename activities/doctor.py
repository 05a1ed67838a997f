"""DoctorActivities a worker's surroundings: what it can reach, with the credentials it has, and what to do about the rest."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, runtime_checkable

from temporalio import activity
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.heartbeats import beating
from activities.providers.gcp import opening as gcp
from activities.providers.gcp.packages import load
from activities.providers.port import Invalid, Order, PermissionDenied, ProviderError
from activities.providers.registry import Providers
from activities.provision import order_of
from activities.temporal_reads import gather_limited, state_of
from penstock.contract import names
from penstock.contract.answers import DoctorReport, Finding
from penstock.contract.inventories import WatchedLocation
from penstock.core.answers.status import status_of
from penstock.core.state.specs import locations_of, spec_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.slices import Availability
from penstock.wording import counted

GREATEST_SKEW_SECONDS = 10.0
"""Between clocks: deadlines and blocks are minutes, and a busy worker takes seconds to begin what the server started."""
SET_CLOCK = "set the clock of the worker's machine, by NTP: deadlines and the ends of blocks are counted by it"


@runtime_checkable
class Labelling(Protocol):
    """A provider whose resources carry labels that somebody may have changed."""

    async def strays(self, location: str, *, cluster: str) -> Sequence[str]:
        """Names of resources that carry the cluster's label and are yet not its own."""
        ...


class _Account(NamedTuple):
    """Groups, of whatever cluster, that are paid by the same project."""

    kind: str
    name: str
    groups: tuple[tuple[ClusterConfig, ScaleGroup], ...]


class DoctorActivities:
    """The activity behind `penstock doctor`."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers

    @activity.defn(name=names.RUN_DOCTOR)
    async def doctor(self) -> DoctorReport:
        """Look at the namespace, the clocks, every cluster, every account, and every location."""
        server = _skew("Temporal's clock", theirs=activity.info().started_time, within=0.0)
        async with beating():
            clusters = await self._clusters()
            states = await gather_limited(clusters, lambda cluster: state_of(self._client, cluster))
            running = {cluster: state for cluster, state in zip(clusters, states, strict=True) if state is not None}
            configs = [state.config for state in running.values() if state.config]
            found = [await self._attributes(), server]
            found += [finding for cluster, state in running.items() for finding in _cluster(cluster, state)]
            found += [finding for several in await gather_limited(_accounts(configs), _account) for finding in several]
            locations = [location for config in configs for location in locations_of(config)]
            found += [finding for several in await gather_limited(locations, self._location) for finding in several]
        return DoctorReport(at=datetime.now(UTC), findings=tuple(found))

    async def _clusters(self) -> list[str]:
        query = f"WorkflowType = '{names.AUTOSCALER}' AND ExecutionStatus = 'Running'"
        return sorted({run.id.removeprefix(names.autoscaler_id("")) async for run in self._client.list_workflows(query)})

    async def _attributes(self) -> Finding:
        subject, namespace = "search attributes", self._client.namespace
        try:
            request = ListSearchAttributesRequest(namespace=namespace)
            listed = await self._client.operator_service.list_search_attributes(request)
        except RPCError as error:
            return Finding(subject=subject, ok=True, message=f"the server does not say which there are ({error.message})")
        missing = [name for name in names.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
        if not missing:
            return Finding(subject=subject, ok=True, message=f"registered in namespace {namespace}")
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        fix = f"temporal operator search-attribute create --namespace {namespace} {flags}"
        return Finding(subject=subject, ok=False, message=f"missing in namespace {namespace}: {', '.join(missing)}", fix=fix)

    async def _location(self, location: WatchedLocation) -> list[Finding]:
        """Whether one location of one cluster can be listed, and whether all that is labelled there is the cluster's."""
        subject = f"{location.cluster}: {location.key}"
        began = time.monotonic()
        try:
            provider = await self._providers.of(location.provider, location.settings)
            listing = await provider.list(location.name, cluster=location.cluster)
            strays = await provider.strays(location.name, cluster=location.cluster) if isinstance(provider, Labelling) else ()
        except ProviderError as error:
            return [Finding(subject=subject, ok=False, message=str(error), fix=_fix(error, location))]
        told = f"{counted(len(listing.items), 'resource')}, listed in {time.monotonic() - began:.2f} s"
        found = [Finding(subject=subject, ok=True, message=told)]
        if not listing.complete:
            fix = "the cloud could not reach all of it; nothing there is believed lost meanwhile"
            found = [Finding(subject=subject, ok=False, message="the list is not complete", fix=fix)]
        if strays:
            message = f"{', '.join(strays)}: labelled as {location.cluster}'s, but labels and metadata do not agree"
            fix = "Penstock does not touch what is not surely its own: mend the labels, or delete them by hand"
            found.append(Finding(subject=f"{subject} labels", ok=False, message=message, fix=fix))
        return found


def _cluster(cluster: str, state: AutoscalerState) -> list[Finding]:
    """Whether it works, and which of its groups cannot be asked until people mend something."""
    told = f"{counted(len(state.slices), 'slice')}, configuration {state.config_revision}"
    found = [Finding(subject=cluster, ok=True, message=told)]
    if state.recovery is not None:
        waited = ", ".join(state.recovery.waiting) or "its slices' reports"
        found = [Finding(subject=cluster, ok=False, message=f"recovers: {state.recovery.reason}", fix=f"it waits for {waited}")]
    disabled = [group for group in status_of(state).groups if group.availability is Availability.DISABLED]
    fix = "mend it, then: penstock clear-block --cluster " + cluster
    found += [Finding(subject=f"{cluster}: {group.name}", ok=False, message=group.reason, fix=fix) for group in disabled]
    return found


def _accounts(configs: Sequence[ClusterConfig]) -> list[_Account]:
    """The accounts that something can be told of."""
    held: dict[tuple[str, str], list[tuple[ClusterConfig, ScaleGroup]]] = {}
    for config in configs:
        for group in config.groups:
            if group.provider.kind in gcp.KINDS:
                held.setdefault((group.provider.kind, group.provider.account), []).append((config, group))
    return [_Account(kind, name, tuple(groups)) for (kind, name), groups in sorted(held.items())]


async def _account(account: _Account, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Orders that would be refused, credentials, the cloud's clock, and quotas."""
    try:
        google = await load("examination")
    except Invalid:
        return []  # Google's libraries are missing; the finding of every location of the account says so.
    wanted = [google.Wanted(_order(config, group), group.max_slices) for config, group in account.groups]
    found = []
    for (config, group), one in zip(account.groups, wanted, strict=True):
        try:
            await asyncio.to_thread(google.check_order, account.kind, one.order)
        except ProviderError as error:
            fix = "correct the group's provider: penstock config apply FILE"
            found.append(Finding(subject=f"{config.cluster}: {group.name}", ok=False, message=str(error), fix=fix))
    try:
        connection = gcp.connection_of(account.groups[0][1].provider.settings, environ)
    except Invalid:
        return found  # Every group of the account has said so.
    credentials = await google.credentials(account.name, connection)
    found.append(credentials)
    if credentials.ok:
        clock = await google.clock(account.kind, connection)
        found += [] if clock is None else [_skew(f"{account.name}: clock", theirs=clock.at, within=clock.within)]
        found += await google.quotas(account.name, connection, wanted) if account.kind == "gce" else []
    return found


def _order(config: ClusterConfig, group: ScaleGroup) -> Order:
    """A slice of the group as it would be ordered; it never is."""
    return order_of(spec_of(config, group.name, "examined", "doctor"))


def _skew(subject: str, *, theirs: datetime, within: float) -> Finding:
    """Whether this machine's clock agrees with another's, as closely as that can be told."""
    seconds = (datetime.now(UTC) - theirs).total_seconds()
    if abs(seconds) - within <= GREATEST_SKEW_SECONDS:
        return Finding(subject=subject, ok=True, message="agrees with the worker's")
    told = f"the worker's is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} it"
    return Finding(subject=subject, ok=False, message=told, fix=SET_CLOCK)


def _fix(error: ProviderError, location: WatchedLocation) -> str:
    if isinstance(error, PermissionDenied):
        return f"give the worker's credentials access to {error.subject}"
    if isinstance(error, Invalid):
        return f"correct the provider of the groups in {location.name}: penstock config apply FILE"
    return f"see that the worker can reach {location.provider}; it goes on trying by itself"
