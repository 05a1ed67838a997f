"""Footprint benchmark: history events and bytes per evaluation, per slice lifecycle, and while the cluster is idle."""

import asyncio

from bench.measuring import progress
from bench.temporal.latency import CLUSTER, ZONE
from bench.temporal.scene import Scene, until
from penstock.client import AutoscalerClient
from penstock.contract.names import slice_workflow_id
from penstock.model.value import Value
from workflows.policies import WATCH_ROUND

_HOUR_SECONDS = 3600.0


class FootprintResult(Value):
    """Events and bytes in histories. `rested_seconds` is how long the cluster of the latency benchmark was left idle.

    The inventory's events per hour are the events of one round of its watch, times the rounds per hour. A drain for idleness is
    counted from the idle report to the end of the slice, in the histories of the slice and of the autoscaler.
    """

    evaluations: int
    events_per_evaluation: float
    bytes_per_evaluation: float
    events_per_life: int
    bytes_per_life: int
    rested_seconds: float
    slices: int
    autoscaler_at_rest: int
    slices_at_rest: int
    inventory_at_rest: int
    inventory_per_round: int
    drained: int
    slice_events_per_drain: float
    autoscaler_events_per_drain: float

    @property
    def inventory_per_hour(self) -> float:
        """Events per hour of one location."""
        return self.inventory_per_round * _HOUR_SECONDS / WATCH_ROUND.total_seconds()


async def measure_footprint(scene: Scene, *, rest_seconds: float) -> FootprintResult:
    """Measure on the cluster of the latency benchmark, where each evaluation launched one slice."""
    autoscaler = AutoscalerClient(scene.client, CLUSTER)
    events, size = await scene.autoscaler_history(CLUSTER)
    status = await autoscaler.status()
    progress(f"footprint: {status.slices} slices at rest for {rest_seconds:g} s")
    page = await autoscaler.slices()
    names = [slice_workflow_id(CLUSTER, piece.group, piece.id) for piece in page.slices]
    before = [await _events(scene, names), events, (await scene.inventory_history(CLUSTER, ZONE))[0]]
    await asyncio.sleep(rest_seconds)
    after = [
        await _events(scene, names),
        (await scene.autoscaler_history(CLUSTER))[0],
        (await scene.inventory_history(CLUSTER, ZONE))[0],
    ]
    lifecycle = await _whole_lifecycle(scene, autoscaler, page.slices[-1].id, names[-1])
    per_round = await _one_round(scene, autoscaler)
    drained = await _idle_drains(scene, autoscaler)
    return FootprintResult(
        evaluations=status.evaluations,
        events_per_evaluation=events / status.evaluations,
        bytes_per_evaluation=size / status.evaluations,
        events_per_life=lifecycle[0],
        bytes_per_life=lifecycle[1],
        rested_seconds=rest_seconds,
        slices=len(names),
        slices_at_rest=after[0] - before[0],
        autoscaler_at_rest=after[1] - before[1],
        inventory_at_rest=after[2] - before[2],
        inventory_per_round=per_round,
        drained=drained[0],
        slice_events_per_drain=drained[1],
        autoscaler_events_per_drain=drained[2],
    )


async def _one_round(scene: Scene, autoscaler: AutoscalerClient) -> int:
    """Events of the inventory between two rounds of its watch. A configuration change ends a round."""
    state = await autoscaler.dump()
    assert state.config is not None
    before = (await scene.inventory_history(CLUSTER, ZONE))[0]
    rules = state.config.inventory.model_copy(update={"audit_seconds": 600.0})
    await autoscaler.apply_config(state.config.model_copy(update={"inventory": rules}))

    async def begun() -> bool:
        return (await scene.inventory_history(CLUSTER, ZONE))[0] > before

    await until(begun)
    await asyncio.sleep(1)  # The end of one round and the start of the next are recorded together, in a few workflow tasks.
    return (await scene.inventory_history(CLUSTER, ZONE))[0] - before


async def _idle_drains(scene: Scene, autoscaler: AutoscalerClient) -> tuple[int, float, float]:
    """How many slices drain once they are idle, and the events per drain in the histories of slices and autoscaler."""
    slices = (await autoscaler.slices()).slices
    names = [slice_workflow_id(CLUSTER, piece.group, piece.id) for piece in slices]
    before = [await _events(scene, names), (await scene.autoscaler_history(CLUSTER))[0]]
    await autoscaler.usage({piece.id: "idle" for piece in slices})
    state = await autoscaler.dump()
    assert state.config is not None
    groups = tuple(group.model_copy(update={"idle_timeout_seconds": 0.0}) for group in state.config.groups)
    await autoscaler.apply_config(state.config.model_copy(update={"groups": groups, "usage_stale_after_seconds": _HOUR_SECONDS}))

    confirmed: set[str] = set()

    async def drain() -> bool:
        """Confirm what drains, once; whether every slice is gone."""
        status = await autoscaler.status()
        new = [drain for drain in status.drains if drain.slice_id not in confirmed]
        confirmed.update(drain.slice_id for drain in new)
        if new:
            await autoscaler.confirm_drain(*new)
        return not status.slices

    await until(drain)
    after = [await _events(scene, names), (await scene.autoscaler_history(CLUSTER))[0]]
    return len(names), (after[0] - before[0]) / len(names), (after[1] - before[1]) / len(names)


async def _events(scene: Scene, workflow_ids: list[str]) -> int:
    return sum([(await scene.history_of(workflow_id))[0] for workflow_id in workflow_ids])


async def _whole_lifecycle(scene: Scene, autoscaler: AutoscalerClient, slice_id: str, workflow_id: str) -> tuple[int, int]:
    """Events and bytes of a whole slice lifecycle: created, READY, drained, deleted."""
    await autoscaler.submit_demand([])
    await autoscaler.drain(slice_id, cause="operator", force=False)
    await autoscaler.confirm_drain(slice_id)

    async def gone() -> bool:
        return all(piece.id != slice_id for piece in (await autoscaler.slices()).slices)

    await until(gone)
    await scene.client.get_workflow_handle(workflow_id).result()
    return await scene.history_of(workflow_id)
