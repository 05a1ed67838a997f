"""Throughput benchmark: slices started per second, compared with bare children that run one activity each."""

from statistics import median
from typing import Any

from temporalio.client import WorkflowHandle

from bench.measuring import progress
from bench.temporal.scene import Scene, now, until
from penstock.contract.names import autoscaler_id
from penstock.model.value import Value


class ThroughputResult(Value):
    """Starts per second of both sides, measured alternately."""

    slices: int
    rounds: int
    bare: float
    ours: float

    @property
    def ratio(self) -> float:
        """Our rate divided by the bare rate."""
        return self.ours / self.bare


async def measure_throughput(scene: Scene, *, slices: int, rounds: int) -> ThroughputResult:
    """Measure from one signal to the last activity, or the last create call, that it causes."""
    parent = scene.client.get_workflow_handle("bare")
    bare: list[float] = []
    ours: list[float] = []
    for i in range(rounds):
        progress(f"throughput: {slices} bare children, then {slices} slices ({i + 1} of {rounds})")
        bare.append(await _bare_round(scene, parent, slices, i))
        ours.append(await _our_round(scene, slices, i))
    return ThroughputResult(slices=slices, rounds=rounds, bare=median(bare), ours=median(ours))


async def _bare_round(scene: Scene, parent: WorkflowHandle[Any, Any], children: int, i: int) -> float:
    before = len(scene.bare_calls())
    sent = now()
    await parent.signal("go", args=[f"many-{i}", children])

    async def ran() -> bool:
        return len(scene.bare_calls()) == before + children

    await until(ran)
    return children / (scene.bare_calls()[-1] - sent)


async def _our_round(scene: Scene, slices: int, i: int) -> float:
    """Start slices that boot slowly, because only the create calls count."""
    zone, cluster = f"throughput-{i}", f"throughput{i}"
    scene.behave(zone, create_latency="1h")
    await scene.cluster(
        {
            "cluster": cluster,
            "evaluation": {"interval": "20ms"},  # Else the demand waits for the end of the interval.
            "groups": [{"name": "g", "host": {"cpu": 4}, "max_slices": slices, "zone": zone}],
        }
    )
    sent = now()
    handle = scene.client.get_workflow_handle(autoscaler_id(cluster))
    await handle.signal("demand", {"tasks": [{"id": "t", "count": slices, "resources": {"cpu": 4}}]})

    async def created() -> bool:
        return len(scene.creates(cluster)) == slices

    await until(created)
    return slices / (scene.creates(cluster)[-1] - sent)
