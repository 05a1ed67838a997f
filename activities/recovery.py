"""Recovery: collect the reports of all slices for a ledger that cannot be trusted, and keep every inventory running."""

from collections.abc import Iterable

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.audit import LocationsCallback, send_reports
from activities.temporal_reads import (
    gather_limited,
    last_state_of,
    lifecycle_of,
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
_TRUSTED = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CANCELED)
"""Statuses of workflows whose last state can be trusted. A terminated workflow left a resource that the audit finds."""


class RecoveryActivities:
    """The activities that send slice reports to an autoscaler and start missing inventories."""

    def __init__(self, client: Client, *, on_locations: LocationsCallback = lambda _: None) -> None:
        self._client = client
        self._on_locations = on_locations

    @activity.defn(name=names.COLLECT_REPORTS)
    async def collect_reports(self, request: CollectReportsRequest) -> int:
        """Send the report of every slice to the autoscaler, as the slice itself would; returns the number of slices.

        The server's list may lag, so it is read until it shows nothing new, and slices of the ledger are read one by one.
        """
        asked: set[str] = set()
        while fresh := {i: g for i, g in (await running_slices(self._client, request.cluster)).items() if i not in asked}:
            asked |= fresh.keys()
            await self._report(request.cluster, fresh)
        state = await state_of(self._client, request.cluster)
        started = [piece for piece in state.slices if piece.started] if state else []
        left = {piece.id: piece.group for piece in started if piece.id not in asked}
        await self._report(request.cluster, left)
        return len(asked | left.keys())

    @activity.defn(name=names.KEEP_INVENTORIES)
    async def keep_inventories(self, request: KeepInventoriesRequest) -> None:
        """Start the missing inventories, and have every location audited if a recovery asks for it."""
        self._on_locations(request.locations)
        queue = activity.info().task_queue
        await ensure_inventories(self._client, request.locations, recovery=request.recovery, task_queue=queue)

    async def _report(self, cluster: str, slices: dict[str, str]) -> None:
        reports = await gather_limited(sorted(slices.items()), lambda item: self._last_report(cluster, *item))
        await send_reports(self._client, cluster, [report for report in reports if report is not None])

    async def _last_report(self, cluster: str, slice_id: str, group: str) -> SliceReport | None:
        status = await status_of(self._client, names.slice_workflow_id(cluster, group, slice_id))
        if status not in _TRUSTED:
            return None
        try:
            lifecycle = await lifecycle_of(self._client, cluster, group, slice_id)
        except RPCError as error:
            # The state of a slice that does not answer is unknown, so nothing may be decided without it.
            raise ApplicationError(f"slice {slice_id} runs, but does not answer: {error.message}") from error
        return None if lifecycle is None else report_of(lifecycle)


async def ensure_inventories(
    client: Client, locations: Iterable[WatchedLocation], recovery: str | None = None, *, task_queue: str = names.TASK_QUEUE
) -> None:
    """Start the inventories that do not run; with `recovery`, request an audit of each."""
    await gather_limited(locations, lambda location: _ensure(client, location, recovery, task_queue))


async def guard_inventories(
    client: Client, *, task_queue: str = names.TASK_QUEUE, on_locations: LocationsCallback = lambda _: None
) -> int:
    """Start every missing inventory of every cluster whose autoscaler runs; how many clusters there are.

    This also restarts an inventory that an operator terminated. A cluster that does not answer does not affect the others; the
    first error is raised at the end.
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
        except Exception as error:  # One broken cluster must not affect the others.
            errors.append(error)
    if errors:
        raise errors[0]
    return len(clusters)


async def _locations_in_use(client: Client, state: AutoscalerState, config: ClusterConfig) -> list[WatchedLocation]:
    """The configured locations, and those of slices whose groups were removed or moved."""
    left = [piece for piece in state.slices if piece.location is not None or config.group(piece.group) is None]
    lifecycles = await gather_limited(left, lambda piece: lifecycle_of(client, config.cluster, piece.group, piece.id))
    specs = [lifecycle.spec for lifecycle in lifecycles if lifecycle is not None]
    locations = [WatchedLocation.of(spec.location, cluster=spec.cluster, rules=config.inventory) for spec in specs]
    return list({location.key: location for location in (*locations, *locations_of(config))}.values())


async def _ensure(client: Client, location: WatchedLocation, recovery: str | None, task_queue: str) -> None:
    """Start an inventory. One that already runs gets no event, unless an audit is requested."""
    await client.start_workflow(
        names.INVENTORY,
        args=[location, ""],
        id=names.inventory_id(location.cluster, location.account, location.name),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=None if recovery is None else names.AUDIT_NOW,
        start_signal_args=() if recovery is None else (recovery,),
        search_attributes=TypedSearchAttributes([SearchAttributePair(_CLUSTER, location.cluster)]),
        static_summary=f"inventory of {location.account} in {location.name}",
    )
