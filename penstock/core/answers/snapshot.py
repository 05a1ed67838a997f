"""A state as a snapshot to decide on, with the ids kept aside to be joined when someone asks."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.core.state.health import health_of
from penstock.core.state.state import AutoscalerState
from penstock.model.building import DemandBuilder, joined, without
from penstock.model.demand import Demand
from penstock.model.runs import HostRef
from penstock.model.shape import GangPlacement
from penstock.model.snapshot import Snapshot


class SnapshotWithIds(NamedTuple):
    """What is decided on, and the demand with ids that lies behind it."""

    snapshot: Snapshot
    demand: Demand


def snapshot_of(state: AutoscalerState) -> SnapshotWithIds:
    """Demand of all sources by name, without tasks that usage shows running; gangs that run in part kept off their hosts."""
    assert state.config is not None, "a state is decided on once it has a configuration"
    demand = joined(state.demand[name].demand for name in sorted(state.demand))
    running = {task for usage in state.usage.values() for host in usage for task in host.tasks}
    demand = _keep_apart(without(demand, running), _gang_hosts(state, demand, running))
    snapshot = Snapshot.model_construct(
        config=state.config,
        now=state.now,
        workload=demand.workload,
        slices=state.slices,
        usage=state.usage,
        health=health_of(state, state.config, state.now),
        standing=tuple(state.standing[owner] for owner in sorted(state.standing)),
        launched=state.launched,
    )
    return SnapshotWithIds(snapshot, demand)


def _gang_hosts(state: AutoscalerState, demand: Demand, running: AbstractSet[str]) -> dict[str, list[HostRef]]:
    """Where members of each gang run: by the gangs that usage names, and by tasks it shows that are listed as demand too."""
    gang_of: dict[str, str] = {}
    if demand.gang_ids and not running.isdisjoint(demand.task_ids):
        gang_of = {task: entry.gang_id for entry in demand.entries() if entry.gang_id for task in entry.task_ids}
    found: dict[str, list[HostRef]] = {}
    for slice_id, usage in sorted(state.usage.items()):
        for i, host in enumerate(usage):
            for gang in sorted({*host.gangs, *(gang_of[task] for task in host.tasks if task in gang_of)}):
                found.setdefault(gang, []).append(HostRef(slice_id, i))
    return found


def _keep_apart(demand: Demand, hosts: dict[str, list[HostRef]]) -> Demand:
    """Spread gangs that run in part, as runs of their own with the hosts they must not use again."""
    if hosts.keys().isdisjoint(demand.gang_ids):
        return demand
    builder = DemandBuilder()
    for entry in demand.entries():
        run = demand.workload.runs[entry.run]
        shape = demand.workload.shapes[run.shape]
        spread = shape.gang is not None and shape.gang.placement is GangPlacement.SPREAD
        apart = tuple(hosts.get(entry.gang_id or "", ())) if spread else ()
        gang_ids = () if entry.gang_id is None else (entry.gang_id,)
        builder.add(shape, entry.task_ids, gang_ids=gang_ids, apart=apart, fault=run.fault)
    return builder.build()
