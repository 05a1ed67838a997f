"""Recovery: collect the reports of all slices for a ledger that cannot be trusted, and keep every inventory running."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    MetricMeter,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.service import RPCError

from activities.audit import LocationsCallback
from activities.metrics import count_failed_look
from activities.slice_reports import send_reports
from activities.status_metrics import StatusMetrics
from activities.temporal_reads import (
    gather_limited,
    inventory_id_of,
    inventory_ids,
    is_running,
    last_state_of,
    lifecycle_of,
    running_slices,
    state_of,
    status_of,
)
from penstock.contract import names
from penstock.contract.answers import ProblemKind
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import CollectReportsRequest, CollectReportsResult, KeepInventoriesRequest, KeepInventoriesResult
from penstock.contract.slices import SliceReport
from penstock.core.slices.lifecycle import report_of
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig

_CLUSTER = SearchAttributeKey.for_keyword(names.CLUSTER_ATTRIBUTE)
_TRUSTED = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CANCELED)
"""Statuses of workflows whose last state can be trusted. A terminated workflow left a resource that the audit finds."""


class Silent(Enum):
    """The answer of a slice workflow that runs and does not answer."""

    SILENT = "silent"


SILENT = Silent.SILENT


class RecoveryActivities:
    """The activities that send slice reports to an autoscaler and start missing inventories."""

    def __init__(self, client: Client, *, on_locations: LocationsCallback = lambda _: None) -> None:
        self._client = client
        self._on_locations = on_locations

    @activity.defn(name=names.COLLECT_REPORTS)
    async def collect_reports(self, request: CollectReportsRequest) -> CollectReportsResult:
        """Send the report of every slice to the autoscaler, as the slice itself would; returns those that do not answer.

        The server's list may lag, so it is read until it shows nothing new, and slices of the ledger are read one by one.
        """
        asked: set[str] = set()
        silent: dict[str, str] = {}
        while fresh := {i: g for i, g in (await running_slices(self._client, request.cluster)).items() if i not in asked}:
            asked |= fresh.keys()
            silent |= await self._report(request.cluster, fresh)
        state = await state_of(self._client, request.cluster)
        started = [piece for piece in state.slices if piece.started] if state else []
        left = {piece.id: piece.group for piece in started if piece.id not in asked}
        silent |= await self._report(request.cluster, left)
        return CollectReportsResult(slices=len(asked | left.keys()), silent=silent)

    @activity.defn(name=names.KEEP_INVENTORIES)
    async def keep_inventories(self, request: KeepInventoriesRequest) -> KeepInventoriesResult:
        """Start the missing inventories, and have every location audited if a recovery asks for it.

        A location whose inventory cannot be started is returned with its error, and does not stop the others.
        """
        self._on_locations(request.locations)
        queue = activity.info().task_queue
        failed = await ensure_inventories(self._client, request.locations, recovery=request.recovery, task_queue=queue)
        for location in request.locations:
            if location.key in failed:
                count_failed_look(location, ProblemKind.NOT_WATCHED)
        return KeepInventoriesResult(failed=failed)

    async def _report(self, cluster: str, slices: dict[str, str]) -> dict[str, str]:
        """Send the reports of the slices; returns the groups of those that do not answer, by slice id."""
        asked = sorted(slices.items())
        reports = await gather_limited(asked, lambda item: self._last_report(cluster, *item))
        await send_reports(self._client, cluster, [report for report in reports if isinstance(report, SliceReport)])
        return {slice_id: group for (slice_id, group), report in zip(asked, reports, strict=True) if report is SILENT}

    async def _last_report(self, cluster: str, slice_id: str, group: str) -> SliceReport | Silent | None:
        status = await status_of(self._client, names.slice_workflow_id(cluster, group, slice_id))
        if status not in _TRUSTED:
            return None
        try:
            lifecycle = await lifecycle_of(self._client, cluster, group, slice_id)
        except Exception as error:
            # No answer, or one that this version cannot read: nothing of its group may be decided without it. Others go on.
            activity.logger.warning("slice %s runs, but does not answer: %s", slice_id, error)
            return SILENT
        return None if lifecycle is None else report_of(lifecycle)


async def ensure_inventories(
    client: Client, locations: Iterable[WatchedLocation], recovery: str | None = None, *, task_queue: str = names.TASK_QUEUE
) -> dict[str, str]:
    """Start the inventories that do not run; with `recovery`, request an audit of each. The errors of failed ones, by key."""

    async def started(location: WatchedLocation) -> tuple[str, str | None]:
        try:
            await _ensure(client, location, recovery, task_queue)
        except RPCError as error:
            return location.key, error.message
        return location.key, None

    return {key: error for key, error in await gather_limited(locations, started) if error is not None}


async def guard_inventories(
    client: Client,
    *,
    task_queue: str = names.TASK_QUEUE,
    on_locations: LocationsCallback = lambda _: None,
    metrics: StatusMetrics | None = None,
) -> int:
    """Start every missing inventory of every cluster whose autoscaler runs; how many clusters there are.

    This also restarts an inventory that an operator terminated, and records the metrics of every status. A cluster that does not
    answer does not affect the others; the first error is raised at the end.
    """
    metrics = metrics or StatusMetrics(MetricMeter.noop)
    clusters = [
        execution.id.removeprefix(names.autoscaler_id(""))
        async for execution in client.list_workflows(f"WorkflowType = '{names.AUTOSCALER}' AND ExecutionStatus = 'Running'")
    ]
    errors: list[Exception] = []
    for cluster in clusters:
        try:
            state = await last_state_of(client, cluster)
            if state is not None:
                metrics.record(cluster, state, datetime.now(UTC))
            if state is not None and state.config is not None:
                locations = await _locations_in_use(client, state, state.config)
                on_locations(locations)
                running = await inventory_ids(client, cluster)
                missing = [location for location in locations if inventory_id_of(location) not in running]
                for key, problem in (await ensure_inventories(client, missing, task_queue=task_queue)).items():
                    errors.append(RuntimeError(f"{key}: {problem}"))
        except Exception as error:  # One broken cluster must not affect the others.
            errors.append(error)
    for cluster in metrics.shown.difference(clusters):
        if not await is_running(client, names.autoscaler_id(cluster)):  # The list may lag.
            metrics.clear(cluster)
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
        id=inventory_id_of(location),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=None if recovery is None else names.AUDIT_NOW,
        start_signal_args=() if recovery is None else (recovery,),
        search_attributes=TypedSearchAttributes([SearchAttributePair(_CLUSTER, location.cluster)]),
        static_summary=f"inventory of {location.account} in {location.name}",
    )
