"""The roll of a cluster's slices, called when a ledger cannot be trusted, and the inventories that must run."""

from collections.abc import Iterable

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.audit import LocationsCallback, send_reports
from activities.heartbeats import beating
from activities.temporal_reads import (
    gather_limited,
    last_state_of,
    lifecycle_of,
    location_of,
    running_slices,
    state_of,
    status_of,
)
from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import CollectReportsRequest, KeepInventoriesRequest
from penstock.contract.slices import SliceReport
from penstock.core.slices.lifecycle import report_of
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig

_CLUSTER = SearchAttributeKey.for_keyword(names.CLUSTER_ATTRIBUTE)
_SPEAK_FOR_THEMSELVES = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CANCELED)
"""Workflows whose last word holds. One that was terminated left its slice behind: the inventory finds that."""


class RecoveryActivities:
    """The activities by which an autoscaler learns who is there."""

    def __init__(self, client: Client, *, on_locations: LocationsCallback = lambda _: None) -> None:
        self._client = client
        self._on_locations = on_locations

    @activity.defn(name=names.COLLECT_REPORTS)
    async def collect_reports(self, request: CollectReportsRequest) -> int:
        """Have every slice's last word sent to the autoscaler, as the same report that the slice would send; how many there were.

        The server's list may lag behind: it is read until it brings nothing new, and slices of the ledger are asked one by one.
        """
        async with beating():
            asked: set[str] = set()
            while fresh := {i: group for i, group in (await self._listed(request.cluster)).items() if i not in asked}:
                asked |= fresh.keys()
                await self._report(request.cluster, fresh)
            state = await state_of(self._client, request.cluster)
            starting = set(state.starting) if state else set()
            slices = state.slices if state else ()
            left = {piece.id: piece.group for piece in slices if piece.id not in asked and piece.id not in starting}
            await self._report(request.cluster, left)
            return len(asked | left.keys())

    @activity.defn(name=names.KEEP_INVENTORIES)
    async def keep_inventories(self, request: KeepInventoriesRequest) -> None:
        """See that every location is watched, and audited if a recovery asks for it."""
        self._on_locations(request.locations)
        queue = activity.info().task_queue
        await ensure_inventories(self._client, request.locations, recovery=request.recovery, task_queue=queue)

    async def _listed(self, cluster: str) -> dict[str, str]:
        return await running_slices(self._client, cluster)

    async def _report(self, cluster: str, slices: dict[str, str]) -> None:
        reports = await gather_limited(sorted(slices.items()), lambda item: self._last_word(cluster, *item))
        await send_reports(self._client, cluster, [report for report in reports if report is not None])

    async def _last_word(self, cluster: str, slice_id: str, group: str) -> SliceReport | None:
        status = await status_of(self._client, names.slice_workflow_id(cluster, group, slice_id))
        if status not in _SPEAK_FOR_THEMSELVES:
            return None
        try:
            lifecycle = await lifecycle_of(self._client, cluster, group, slice_id)
        except RPCError as error:
            # A slice that does not answer may be anywhere in its lifecycle: nothing is decided without it.
            raise ApplicationError(f"slice {slice_id} runs and does not say where it is: {error.message}") from error
        return None if lifecycle is None else report_of(lifecycle)


async def ensure_inventories(
    client: Client, locations: Iterable[WatchedLocation], recovery: str | None = None, *, task_queue: str = names.TASK_QUEUE
) -> None:
    """Start the inventories that do not run; with `recovery`, ask gather_limited for an audit."""
    await gather_limited(locations, lambda location: _ensure(client, location, recovery, task_queue))


async def guard_inventories(
    client: Client, *, task_queue: str = names.TASK_QUEUE, on_locations: LocationsCallback = lambda _: None
) -> int:
    """Once: start every inventory that is missing, of every cluster whose autoscaler runs; how many clusters were seen.

    An inventory that was terminated by hand is thus started again, whoever did it. Clusters that do not answer keep nobody from
    looking after the others; the first error is raised in the end.
    """
    clusters = [
        execution.id.removeprefix(names.autoscaler_id(""))
        async for execution in client.list_workflows(f"WorkflowType = '{names.AUTOSCALER}' AND ExecutionStatus = 'Running'")
    ]
    errors = []
    for cluster in clusters:
        try:
            state = await last_state_of(client, cluster)
            if state is not None and state.config is not None:
                locations = await _locations_in_use(client, state, state.config)
                on_locations(locations)
                await ensure_inventories(client, locations, task_queue=task_queue)
        except Exception as error:  # Whatever ails one cluster: the others are looked after.
            errors.append(error)
    if errors:
        raise errors[0]
    return len(clusters)


async def _locations_in_use(client: Client, state: AutoscalerState, config: ClusterConfig) -> list[WatchedLocation]:
    """Where the configuration may have slices, and where slices of groups are that are gone or have moved."""
    left = [piece for piece in state.slices if piece.location is not None or config.group(piece.group) is None]
    lifecycles = await gather_limited(left, lambda piece: lifecycle_of(client, config.cluster, piece.group, piece.id))
    locations = [location_of(lifecycle.spec, config.inventory) for lifecycle in lifecycles if lifecycle is not None]
    return list({location.key: location for location in (*locations, *locations_of(config))}.values())


async def _ensure(client: Client, location: WatchedLocation, recovery: str | None, task_queue: str) -> None:
    """To start one that runs costs it nothing, not even an event, unless it is asked for an audit."""
    await client.start_workflow(
        names.INVENTORY,
        args=[location, ""],
        id=names.inventory_id(location.cluster, location.account, location.name),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=None if recovery is None else names.AUDIT_NOW,
        start_signal_args=() if recovery is None else (recovery,),
        search_attributes=TypedSearchAttributes([SearchAttributePair(_CLUSTER, location.cluster)]),
        static_summary=f"what {location.account} has in {location.name}",
    )
