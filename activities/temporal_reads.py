"""What Temporal knows of a cluster: its ledger, the slice workflows that run, and what gather_limited of them says."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import NamedTuple, TypeVar

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import SliceLifecycle, SliceSpec
from penstock.core.slices.lifecycle import spec_location_key
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import InventoryRules

AT_ONCE = 16
"""Calls under way at once, to Temporal or to a cloud: more of them gain nothing on either side."""
QUERY_SECONDS = 20.0
"""For an answer to a query: a workflow that has to be replayed first takes seconds."""

T = TypeVar("T")
R = TypeVar("R")


class ClusterReading(NamedTuple):
    """The autoscaler's state, None if none runs, and the running slice workflows' groups by slice id."""

    state: AutoscalerState | None
    running: dict[str, str]


class CachedReadings:
    """The reading of clusters, read again once they are too old: inventories of many locations share one reading."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, tuple[float, ClusterReading]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, cluster: str, *, oldest_seconds: float) -> ClusterReading:
        """What is known of a cluster, read at most so long ago."""
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            read, reading = self._read.get(cluster, (0.0, ClusterReading(None, {})))
            if cluster in self._read and time.monotonic() - read <= oldest_seconds:
                return reading
            began = time.monotonic()
            reading = ClusterReading(await state_of(self._client, cluster), await running_slices(self._client, cluster))
            self._read[cluster] = (began, reading)
            return reading


async def status_of(client: Client, workflow_id: str) -> WorkflowExecutionStatus | None:
    """How a workflow's newest run is; None if there is none."""
    try:
        return (await client.get_workflow_handle(workflow_id).describe()).status
    except ValueError:
        # The SDK does not know the status of a workflow that an operator paused: it is there, and will go on.
        return WorkflowExecutionStatus.RUNNING
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def is_running(client: Client, workflow_id: str) -> bool:
    """Whether a workflow runs, asked of the workflow itself: lists may lag behind."""
    return await status_of(client, workflow_id) is WorkflowExecutionStatus.RUNNING


async def state_of(client: Client, cluster: str) -> AutoscalerState | None:
    """The state of the cluster's autoscaler, if one runs: what a closed one last knew is nobody's truth any more."""
    if not await is_running(client, names.autoscaler_id(cluster)):
        return None
    return await last_state_of(client, cluster)


async def last_state_of(client: Client, cluster: str) -> AutoscalerState | None:
    """The last state of the cluster's autoscaler, running or not; None if there never was one."""
    return await _query(client, names.autoscaler_id(cluster), names.DUMP, AutoscalerState)


async def _query(client: Client, workflow_id: str, question: str, kind: type[T]) -> T | None:
    """What a workflow answers, also after its end; None if there is no such workflow any more."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        answer: T = await handle.query(question, result_type=kind, rpc_timeout=timedelta(seconds=QUERY_SECONDS))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return answer


async def running_slices(client: Client, cluster: str) -> dict[str, str]:
    """Groups by slice id of the slice workflows that the server lists as running; the list may lag behind."""
    query = f"{names.CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{names.SLICE}' AND ExecutionStatus = 'Running'"
    found: dict[str, str] = {}
    async for execution in client.list_workflows(query):
        group, _, slice_id = execution.id.removeprefix(f"{names.autoscaler_id(cluster)}/").partition("/")
        found[slice_id] = group
    return found


async def watched_locations(client: Client, cluster: str) -> list[WatchedLocation]:
    """The locations that running inventories of the cluster watch, configured still or not; the server's list may lag behind."""
    query = f"{names.CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{names.INVENTORY}' AND ExecutionStatus = 'Running'"
    ids = [execution.id async for execution in client.list_workflows(query)]
    found = await gather_limited(ids, lambda workflow_id: _query(client, workflow_id, names.LOCATION, WatchedLocation))
    return [location for location in found if location is not None]


async def lifecycle_of(client: Client, cluster: str, group: str, slice_id: str) -> SliceLifecycle | None:
    """What a slice's workflow says of it, also after its end; None if there is no such workflow any more."""
    return await _query(client, names.slice_workflow_id(cluster, group, slice_id), names.LIFECYCLE, SliceLifecycle)


def location_of(spec: SliceSpec, rules: InventoryRules = InventoryRules()) -> WatchedLocation:  # noqa: B008 - it is frozen
    """Where a slice is, as it was ordered, whatever the configuration says of its group by now."""
    account = spec_location_key(spec).removesuffix(f"/{spec.location}")
    return WatchedLocation(
        cluster=spec.cluster,
        provider=spec.provider,
        account=account,
        settings=spec.settings,
        name=spec.location,
        rules=rules,
    )


async def signal_if_running(client: Client, workflow_id: str, signal: str, message: object) -> bool:
    """Signal a workflow; whether there was one to hear it."""
    try:
        await client.get_workflow_handle(workflow_id).signal(signal, message)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def gather_limited(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """The results of the work for every item, in order, so many at once. The first error ends it."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> R:
        async with room:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
