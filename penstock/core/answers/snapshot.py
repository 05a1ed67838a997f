"""Take the snapshot of a state, the input of a decision, with the task and gang ids of its demand."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.core.state.blocks import health_of
from penstock.core.state.state import AutoscalerState
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder, joined, without
from penstock.model.runs import HostRef
from penstock.model.shape import GangPlacement
from penstock.model.snapshot import Snapshot


class SnapshotWithIds(NamedTuple):
    """A snapshot, and its demand with ids. Decisions need no ids; explanations do."""

    snapshot: Snapshot
    demand: Demand


def snapshot_of(state: AutoscalerState) -> SnapshotWithIds:
    """The snapshot of a state.

    Its demand is that of all sources, sorted by name, without the tasks that already run according to the usage reports.
    Spread gangs that run in part must not use the hosts of their running tasks again.
    """
    assert state.config is not None, "a decision needs a configuration"
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
    """Hosts on which tasks of each gang run: from the gangs in usage reports, and from running tasks that are still demand."""
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
    """Give each spread gang that runs in part a separate run, with the hosts that it must not use again."""
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
