"""The checks of `penstock doctor` in a worker: Temporal, clocks, clusters, cloud accounts and locations, each with its fix."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio import activity
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.clock_skew import worker_clock
from activities.listings import ask_each
from activities.providers.open_providers import Providers
from activities.providers.port import Invalid, PermissionDenied, ProviderError, Unexpected
from activities.providers.runtime import SampleOrder, runtime_of
from activities.provision import order_of
from activities.temporal_reads import gather_limited, state_of
from penstock.client.workers import polling_workers
from penstock.contract import names
from penstock.contract.answers import DoctorReport, Finding, ProblemKind
from penstock.contract.inventories import WatchedLocation
from penstock.core.answers.status import status_of
from penstock.core.state.specs import locations_of, spec_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Availability
from penstock.wording import counted, listed

_PROBLEM_FIXES = {
    ProblemKind.NOT_WATCHED: "correct the group's zone or provider: penstock config apply FILE; it is retried by itself",
    ProblemKind.NO_ANSWER: "check that the workers can reach the cloud; its groups buy again once it answers",
    ProblemKind.REFUSED: "give the worker's credentials access, or correct the group's provider",
}
"""What an operator can do about a location that cannot be watched."""
_UNDECIDED_FIX = (
    "the log of the workers has the whole error; it is tried again by itself, and at once with another configuration: "
    "penstock config apply FILE"
)
"""What an operator can do about evaluations that fail."""


class _Account(NamedTuple):
    """A cloud account, and one order of each group that buys from it, in any cluster."""

    kind: str
    name: str
    orders: tuple[SampleOrder, ...]


class DoctorActivities:
    """The activity behind `penstock doctor`."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers

    @activity.defn(name=names.RUN_DOCTOR)
    async def doctor(self) -> DoctorReport:
        """Check the namespace, and every cluster, account and location."""
        clusters = await self._clusters()
        states = await gather_limited(clusters, lambda cluster: state_of(self._client, cluster))
        running = {cluster: state for cluster, state in zip(clusters, states, strict=True) if state is not None}
        configs = [state.config for state in running.values() if state.config]
        found = [await self._attributes()]
        found += [finding for cluster, state in running.items() for finding in _cluster(cluster, state)]
        found += [finding for several in await gather_limited(_accounts(configs), _account) for finding in several]
        locations = [location for config in configs for location in locations_of(config)]
        answers = zip(locations, await ask_each(locations, self._location), strict=True)
        found += [finding for location, answer in answers for finding in _of_location(location, answer)]
        return DoctorReport(at=datetime.now(UTC), findings=tuple(found))

    @activity.defn(name=names.LIST_WORKERS)
    async def list_workers(self) -> dict[str, float]:
        """Seconds since each worker of this task queue last polled, by its identity."""
        return await polling_workers(self._client, activity.info().task_queue)

    @activity.defn(name=names.READ_CLOCK)
    async def read_clock(self) -> Finding:
        """Compare the clock of this process with Temporal's. It runs on the process's own task queue."""
        return worker_clock(self._client.identity, temporal=activity.info().started_time)

    async def _clusters(self) -> list[str]:
        query = f"WorkflowType = '{names.AUTOSCALER}' AND ExecutionStatus = 'Running'"
        return sorted({run.id.removeprefix(names.autoscaler_id("")) async for run in self._client.list_workflows(query)})

    async def _attributes(self) -> Finding:
        subject, namespace = "search attributes", self._client.namespace
        try:
            request = ListSearchAttributesRequest(namespace=namespace)
            listed = await self._client.operator_service.list_search_attributes(request)
        except RPCError as error:
            return Finding(subject=subject, ok=True, message=f"the server does not list them ({error.message})")
        missing = [name for name in names.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
        if not missing:
            return Finding(subject=subject, ok=True, message=f"registered in namespace {namespace}")
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        fix = f"temporal operator search-attribute create --namespace {namespace} {flags}"
        return Finding(subject=subject, ok=False, message=f"missing in namespace {namespace}: {', '.join(missing)}", fix=fix)

    async def _location(self, location: WatchedLocation) -> list[Finding]:
        """Whether a location can be listed, and whether it has resources with wrong labels."""
        subject = f"{location.cluster}: {location.key}"
        began = time.monotonic()
        provider = await self._providers.of(location.provider, location.settings)
        listing = await provider.list(location.name, cluster=location.cluster)
        mislabelled = await provider.mislabelled(location.name, cluster=location.cluster)
        message = f"{counted(len(listing.items), 'resource')}, listed in {time.monotonic() - began:.2f} s"
        found = [Finding(subject=subject, ok=True, message=message)]
        if not listing.complete:
            fix = "the cloud could not reach all of it; Penstock counts nothing there as lost until a listing is complete"
            found = [Finding(subject=subject, ok=False, message="the list is not complete", fix=fix)]
        if mislabelled:
            message = f"{', '.join(mislabelled)}: labelled as {location.cluster}'s, but labels and metadata do not agree"
            fix = "Penstock does not touch resources that may not be its own: correct the labels, or delete them by hand"
            found.append(Finding(subject=f"{subject} labels", ok=False, message=message, fix=fix))
        return found


def _of_location(location: WatchedLocation, answer: list[Finding] | ProviderError) -> list[Finding]:
    """What is found of a location, or why it cannot be listed."""
    if not isinstance(answer, ProviderError):
        return answer
    subject = f"{location.cluster}: {location.key}"
    return [Finding(subject=subject, ok=False, message=str(answer), fix=_fix(answer, location))]


def _cluster(cluster: str, state: AutoscalerState) -> list[Finding]:
    """Whether the cluster works, and which of its groups are blocked until an operator fixes something."""
    message = f"{counted(len(state.slices), 'slice')}, configuration {state.config_revision}"
    found = _undone(cluster, state) or [Finding(subject=cluster, ok=True, message=message)]
    for key, problem in sorted(state.location_problems.items()):
        found.append(Finding(subject=f"{cluster}: {key}", ok=False, message=str(problem), fix=_PROBLEM_FIXES[problem.kind]))
    disabled = [group for group in status_of(state).groups if group.availability is Availability.DISABLED]
    fix = "fix it, then: penstock clear-block --cluster " + cluster
    found += [Finding(subject=f"{cluster}: {group.name}", ok=False, message=group.reason, fix=fix) for group in disabled]
    return found


def _undone(cluster: str, state: AutoscalerState) -> list[Finding]:
    """What keeps the whole cluster from being decided on."""
    found = []
    if state.recovery is not None:
        recovering = status_of(state).recovery
        assert recovering is not None
        waited = listed(recovering.waiting_for)
        found.append(
            Finding(subject=cluster, ok=False, message=f"recovers: {state.recovery.reason}", fix=f"it waits for {waited}")
        )
    if (undecided := state.undecided) is not None:
        often = f"{counted(undecided.failures, 'evaluation')} failed"
        message = f"not decided on since {undecided.since:%Y-%m-%d %H:%M:%S}Z, {often}: {undecided.problem}"
        found.append(Finding(subject=cluster, ok=False, message=message, fix=_UNDECIDED_FIX))
    return found


def _accounts(configs: Sequence[ClusterConfig]) -> list[_Account]:
    """The accounts of all clusters."""
    orders: dict[tuple[str, str], list[SampleOrder]] = {}
    for config in configs:
        for group in config.groups:
            sample = SampleOrder(order_of(spec_of(config, group, "sample", "doctor")), group.max_slices)
            orders.setdefault((group.provider.kind, group.provider.account), []).append(sample)
    return [_Account(kind, name, tuple(samples)) for (kind, name), samples in sorted(orders.items())]


async def _account(account: _Account, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Orders that would be refused, and what the provider kind checks of an account."""
    try:
        runtime = runtime_of(account.kind)
    except Invalid:
        return []  # The listing of each of its locations reports that.
    found = []
    for order, _ in account.orders:
        try:
            await runtime.check_order(order)
        except ProviderError as error:
            fix = "correct the group's provider: penstock config apply FILE"
            found.append(Finding(subject=f"{order.cluster}: {order.group}", ok=False, message=str(error), fix=fix))
    return found + await runtime.check_account(account.name, account.orders, environ)


def _fix(error: ProviderError, location: WatchedLocation) -> str:
    if isinstance(error, PermissionDenied):
        return f"give the worker's credentials access to {error.subject}"
    if isinstance(error, Invalid):
        return error.fix or f"correct the provider of the groups in {location.name}: penstock config apply FILE"
    if isinstance(error, Unexpected):
        return f"a defect of {location.provider} or its client library, with its traceback in the worker's log: report it"
    return f"check that the worker can reach {location.provider}; it keeps retrying by itself"
