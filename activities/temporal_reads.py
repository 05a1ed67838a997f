"""Calls to Temporal: query autoscalers and slices, list running workflows, signal, and cached readings of a cluster."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from functools import cached_property
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import SliceLifecycle
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import Slice

AT_ONCE = 16
"""Concurrent calls to Temporal or to a cloud: more gain nothing on either side."""
QUERY_SECONDS = 20.0
"""Timeout of a query: a workflow that must be replayed first takes seconds."""

_STATE = SearchAttributeKey.for_keyword(names.STATE_ATTRIBUTE)
T = TypeVar("T")
R = TypeVar("R")


class ClusterReading:
    """The state of the autoscaler, None if none runs; and the groups of running slice workflows, by slice id.

    Inventories of thousands of locations share one reading, so what each of them looks up is indexed by location once.
    """

    def __init__(self, state: AutoscalerState | None, running: dict[str, str]) -> None:
        self.state = state
        self.running = running

    @cached_property
    def locations(self) -> dict[str, WatchedLocation]:
        """The configured locations, by key."""
        config = self.state.config if self.state else None
        return {location.key: location for location in locations_of(config)} if config else {}

    def slices_at(self, location_key: str) -> list[Slice]:
        """Slices that can be at the location. Only its workflow knows where a slice of an unknown group is."""
        return [*self._slices.get(location_key, ()), *self._slices.get(None, ())]

    @cached_property
    def _slices(self) -> dict[str | None, list[Slice]]:
        found: dict[str | None, list[Slice]] = {}
        config = self.state.config if self.state else None
        for piece in self.state.slices if self.state else ():
            group = config.group(piece.group) if config else None
            where = piece.location.key if piece.location else group.location_key if group else None
            found.setdefault(where, []).append(piece)
        return found


class CachedReadings:
    """Readings of clusters, repeated once they are too old. Inventories of many locations share one reading."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, tuple[float, ClusterReading]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, cluster: str, *, oldest_seconds: float) -> ClusterReading:
        """The reading of a cluster, at most `oldest_seconds` older than this call: all who wait for a reading share the next."""
        asked = time.monotonic()
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            read, reading = self._read.get(cluster, (0.0, ClusterReading(None, {})))
            if cluster in self._read and asked - read <= oldest_seconds:
                return reading
            began = time.monotonic()
            reading = ClusterReading(await state_of(self._client, cluster), await running_slices(self._client, cluster))
            self._read[cluster] = (began, reading)
            return reading


async def status_of(client: Client, workflow_id: str) -> WorkflowExecutionStatus | None:
    """The status of a workflow's latest run; None if there is no such workflow."""
    try:
        return (await client.get_workflow_handle(workflow_id).describe()).status
    except ValueError:
        # The SDK does not know the status of a workflow that an operator paused; it counts as running.
        return WorkflowExecutionStatus.RUNNING
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def is_running(client: Client, workflow_id: str) -> bool:
    """Whether a workflow runs. Describes the workflow itself, because lists may lag."""
    return await status_of(client, workflow_id) is WorkflowExecutionStatus.RUNNING


async def state_of(client: Client, cluster: str) -> AutoscalerState | None:
    """The state of the cluster's autoscaler; None if it does not run, because the state of a closed one is out of date."""
    if not await is_running(client, names.autoscaler_id(cluster)):
        return None
    return await last_state_of(client, cluster)


async def last_state_of(client: Client, cluster: str) -> AutoscalerState | None:
    """The last state of the cluster's autoscaler, running or closed; None if there never was one."""
    return await _query(client, names.autoscaler_id(cluster), names.DUMP, AutoscalerState)


async def _query(client: Client, workflow_id: str, question: str, kind: type[T]) -> T | None:
    """Query a workflow, running or closed; None if there is no such workflow."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        answer: T = await handle.query(question, result_type=kind, rpc_timeout=timedelta(seconds=QUERY_SECONDS))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return answer


async def running_slices(client: Client, cluster: str) -> dict[str, str]:
    """The groups of running slice workflows, by slice id. The server's list may lag."""
    return {slice_id: group for slice_id, (group, _) in (await told_states(client, cluster)).items()}


async def told_states(client: Client, cluster: str) -> dict[str, tuple[str, str]]:
    """The group of each running slice workflow, and the state that it last showed, by slice id. The server's list may lag."""
    query = f"{names.CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{names.SLICE}' AND ExecutionStatus = 'Running'"
    found: dict[str, tuple[str, str]] = {}
    async for execution in client.list_workflows(query):
        group, _, slice_id = execution.id.removeprefix(f"{names.autoscaler_id(cluster)}/").partition("/")
        found[slice_id] = group, execution.typed_search_attributes.get(_STATE, "")
    return found


async def inventory_ids(client: Client, cluster: str) -> set[str]:
    """Ids of the running inventories of the cluster. The server's list may lag."""
    query = f"{names.CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{names.INVENTORY}' AND ExecutionStatus = 'Running'"
    return {execution.id async for execution in client.list_workflows(query)}


async def watched_locations(client: Client, cluster: str, *, known: Iterable[WatchedLocation]) -> list[WatchedLocation]:
    """The locations that running inventories of the cluster watch beside the known ones, which need not be queried."""
    ids = await inventory_ids(client, cluster) - {inventory_id_of(location) for location in known}
    found = await gather_limited(sorted(ids), lambda workflow_id: _query(client, workflow_id, names.LOCATION, WatchedLocation))
    return [location for location in found if location is not None]


def inventory_id_of(location: WatchedLocation) -> str:
    """Workflow id of the location's inventory."""
    return names.inventory_id(location.cluster, location.account, location.name)


async def lifecycle_of(client: Client, cluster: str, group: str, slice_id: str) -> SliceLifecycle | None:
    """The state of a slice workflow, running or closed; None if there is no such workflow."""
    return await _query(client, names.slice_workflow_id(cluster, group, slice_id), names.LIFECYCLE, SliceLifecycle)


async def signal_if_running(client: Client, workflow_id: str, signal: str, message: object) -> bool:
    """Signal a workflow; whether one was running."""
    try:
        await client.get_workflow_handle(workflow_id).signal(signal, message)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def gather_limited(items: Iterable[T], work: Callable[[T], Awaitable[R]], *, at_once: int = AT_ONCE) -> list[R]:
    """The results of `work` for every item, in order, at most `at_once` concurrently. The first error ends it."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with slots:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
