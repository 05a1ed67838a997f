"""Latency benchmark: from a demand signal to the create call, compared with a bare signal to its child's activity."""

import asyncio
from statistics import median, quantiles
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from bench.measuring import progress
from bench.temporal.scene import Scene, now, until
from penstock.client import AutoscalerClient
from penstock.contract.names import EVALUATE, autoscaler_id
from penstock.model.value import Value

ZONE = "latency-a"
CLUSTER = "latency"
_WARM_UP = 5
PACE_SECONDS = 0.5
"""Least time between evaluations. It is longer than the measured latency, as in production."""
REST_SECONDS = 1.0
"""Pause after a slice is READY, until the evaluation interval is over and the watch has made its last fast poll."""


class Spread(Value):
    """Median and 99th percentile, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Spread":
        """The percentiles of measurements in seconds."""
        return cls(p50=median(seconds) * 1000, p99=quantiles(seconds, n=100, method="inclusive")[98] * 1000)


class LatencyResult(Value):
    """Latencies of both sides, measured alternately, and the part of ours that the decision takes."""

    samples: int
    bare: Spread
    ours: Spread
    decision: Spread


async def measure_latency(scene: Scene, *, samples: int) -> LatencyResult:
    """Alternate bare signals and demands, each demand on an idle cluster."""
    progress(f"latency: {samples} demands and {samples} bare signals in turn")
    scene.behave(ZONE)
    autoscaler = await scene.cluster(
        {
            "cluster": CLUSTER,
            "ready_grace": "1d",
            "evaluation": {"interval": PACE_SECONDS},
            "inventory": {"look": "100ms", "audit": "30s"},
            "groups": [{"name": "g", "host": {"cpu": 4}, "max_slices": 1000, "zone": ZONE}],
        }
    )
    parent = await scene.bare_parent()
    bare: list[float] = []
    ours: list[float] = []
    for i in range(samples + _WARM_UP):
        bare.append(await _bare_sample(scene, parent, i))
        ours.append(await _our_sample(scene, autoscaler, i))
    decision = await _decision_seconds(scene)
    kept = slice(_WARM_UP, None)
    return LatencyResult(
        samples=samples, bare=Spread.of(bare[kept]), ours=Spread.of(ours[kept]), decision=Spread.of(decision[kept])
    )


async def _bare_sample(scene: Scene, parent: WorkflowHandle[Any, Any], i: int) -> float:
    sent = now()
    await parent.signal("go", args=[f"one-{i}", 1])

    async def ran() -> bool:
        return len(scene.bare_calls()) > i

    await until(ran)
    return scene.bare_calls()[i] - sent


async def _our_sample(scene: Scene, autoscaler: AutoscalerClient, i: int) -> float:
    """Demand one task more than there are slices, and wait until the cluster is idle again."""
    handle = scene.client.get_workflow_handle(autoscaler_id(CLUSTER))
    sent = now()
    await handle.signal("demand", {"tasks": [{"id": "t", "count": i + 1, "resources": {"cpu": 4}}]})

    async def created() -> bool:
        return len(scene.creates(CLUSTER)) > i

    await until(created)

    async def rests() -> bool:
        status = await autoscaler.status()
        return status.groups[0].slices == {"READY": i + 1} and status.placed == {"ready": i + 1}

    await until(rests)
    await asyncio.sleep(REST_SECONDS)
    return scene.creates(CLUSTER)[i] - sent


async def _decision_seconds(scene: Scene) -> list[float]:
    """Seconds from schedule to completion of each evaluation that launched a slice, from the history."""
    scheduled: dict[int, float] = {}
    found = []
    for event in await scene.events_of(autoscaler_id(CLUSTER)):
        at = event.event_time.ToNanoseconds() / 1e9
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            if event.activity_task_scheduled_event_attributes.activity_type.name == EVALUATE:
                scheduled[event.event_id] = at
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if completed.scheduled_event_id in scheduled and b'"slice_id"' in completed.result.payloads[0].data:
                found.append(at - scheduled[completed.scheduled_event_id])
    return found
