"""Fleet benchmark: slices that become READY per second, slices deleted per second, and the events of a slice's life.

`python -m bench.compare` also runs this with the code of an older tree, so it uses nothing that such a tree lacks.
"""

import asyncio
from statistics import mean

from temporalio.api.enums.v1 import EventType

from bench.measuring import progress
from bench.temporal.scene import Scene, now, until
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.slices import SliceReports
from penstock.model.slices import SliceState
from penstock.model.value import Value

SLICES, QUICK_SLICES = 1000, 200
DEADLINE_SECONDS = 600.0
READ_HISTORIES = 20
"""Histories of slices that are read: all lives are alike."""


class FleetResult(Value):
    """Rates of one fleet, from the demand to the last READY report, and from the order to the last slice workflow's end."""

    slices: int
    ready_seconds: float
    deleted_seconds: float
    events_per_life: float
    bytes_per_life: float
    autoscaler_events_per_slice: float

    @property
    def ready_per_second(self) -> float:
        """Slices that became READY per second."""
        return self.slices / self.ready_seconds

    @property
    def deleted_per_second(self) -> float:
        """Slices deleted per second."""
        return self.slices / self.deleted_seconds


async def measure_fleet(here: Scene, *, slices: int, cluster: str = "fleet") -> FleetResult:
    """Launch a fleet in a cloud that grants everything at once, and delete the cluster by force once all of it is READY."""
    progress(f"fleet: {slices} slices to READY, then deleted")
    here.behave(f"{cluster}-a")
    group = {"name": "g", "host": {"cpu": 4}, "max_slices": slices, "zone": f"{cluster}-a"}
    autoscaler = await here.cluster({"cluster": cluster, "ready_grace": "1d", "groups": [group]})
    demanded = now()
    handle = here.client.get_workflow_handle(names.autoscaler_id(cluster))
    await handle.signal("demand", {"tasks": [{"id": "t", "count": slices, "resources": {"cpu": 4}}]})

    async def is_ready() -> bool:
        await asyncio.sleep(1)  # Each look at the whole fleet takes time from what is measured.
        return await _counted(here, cluster, "ExecutionStatus = 'Running'", SliceState.READY) == slices

    async def is_known() -> bool:
        return (await autoscaler.status()).groups[0].slices == {"READY": slices}

    await until(is_ready)
    await until(is_known)
    ready = await _last_ready(here, cluster)
    events, _ = await here.autoscaler_history(cluster)
    deleted_seconds = await _deleted_seconds(here, autoscaler, cluster, slices)
    lives = [await here.history_of(workflow_id) for workflow_id in (await _closed(here, cluster))[:READ_HISTORIES]]
    return FleetResult(
        slices=slices,
        ready_seconds=ready - demanded,
        deleted_seconds=deleted_seconds,
        events_per_life=mean(events for events, _ in lives),
        bytes_per_life=mean(size for _, size in lives),
        autoscaler_events_per_slice=events / slices,
    )


async def _deleted_seconds(here: Scene, autoscaler: AutoscalerClient, cluster: str, slices: int) -> float:
    """Seconds from the order to delete the cluster by force until its last slice workflow ends."""
    ordered = now()
    await autoscaler.delete(force=True)

    async def are_gone() -> bool:
        await asyncio.sleep(1)
        return await _counted(here, cluster, "ExecutionStatus != 'Running'") == slices

    await until(are_gone)
    ends = [each.close_time async for each in here.client.list_workflows(_slices(cluster, "ExecutionStatus != 'Running'"))]
    return max(end.timestamp() for end in ends if end is not None) - ordered


async def _last_ready(here: Scene, cluster: str) -> float:
    """When the autoscaler received the report that made its last slice READY."""
    first: dict[str, float] = {}
    for event in await here.events_of(names.autoscaler_id(cluster)):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == names.SLICES_REPORTED:
                for report in SliceReports.model_validate_json(signal.input.payloads[0].data).reports:
                    if report.state is SliceState.READY:
                        first.setdefault(report.slice_id, event.event_time.ToNanoseconds() / 1e9)
    return max(first.values())


def _slices(cluster: str, condition: str, state: SliceState | None = None) -> str:
    query = f"{names.CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{names.SLICE}' AND {condition}"
    return query if state is None else f"{query} AND {names.STATE_ATTRIBUTE} = '{state}'"


async def _counted(here: Scene, cluster: str, condition: str, state: SliceState | None = None) -> int:
    """Slice workflows by Temporal's own list: asking the autoscaler all the time would take its time."""
    return (await here.client.count_workflows(_slices(cluster, condition, state))).count


async def _closed(here: Scene, cluster: str) -> list[str]:
    return [each.id async for each in here.client.list_workflows(_slices(cluster, "ExecutionStatus != 'Running'"))]
