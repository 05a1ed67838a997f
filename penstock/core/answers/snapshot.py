"""Take the snapshot of a state, the input of a decision, with the task and gang ids of its demand."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.core.decision.effort import Effort
from penstock.core.decision.group_bits import positions
from penstock.core.decision.match import Matcher
from penstock.core.state.blocks import health_of
from penstock.core.state.pressure import pressure_now
from penstock.core.state.protections import slices_with_protections
from penstock.core.state.sources import stale_at, terms_of
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.core.state.unlisted import unlisted_groups, unseen_slices
from penstock.core.state.usage import usage_now
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder, joined, sourced, without
from penstock.model.runs import Fault, FaultCode, HostRef
from penstock.model.shape import GangPlacement
from penstock.model.slices import SliceUsage, StandingRequest
from penstock.model.snapshot import Snapshot


class SnapshotWithIds(NamedTuple):
    """A snapshot, and its demand with ids. Decisions need no ids; explanations do."""

    snapshot: Snapshot
    demand: Demand


def snapshot_of(state: AutoscalerState, effort: Effort | None = None) -> SnapshotWithIds:
    """The snapshot of a state. `effort` counts the work of it, which grows with the state only.

    Its demand is that of all sources, sorted by name, without the tasks that already run according to the usage reports.
    Spread gangs that run in part must not use the hosts of their running tasks again.
    """
    assert state.config is not None, "a decision needs a configuration"
    demand = joined(sourced(state.demand[name].demand, name) for name in sorted(state.demand))
    current = usage_now(state)
    running = {task for usage in current.values() for host in usage for task in host.tasks}
    demand = _keep_apart(without(demand, running), _gang_hosts(current, demand, running))
    unlisted = unlisted_groups(state, state.config)
    unlisted_matcher = Matcher(unlisted, effort) if unlisted else None
    demand = _without_doubt(demand, unlisted_matcher) if unlisted_matcher else demand
    standing = [request for _, request in sorted(state.standing.items())]
    in_doubt = {request.owner for request in standing if unlisted_matcher and _is_in_doubt(request, unlisted_matcher)}
    snapshot = Snapshot.model_construct(
        config=_without_floors(state.config) if state.closing else state.config,
        now=state.now,
        workload=demand.workload,
        slices=slices_with_protections(state),
        usage=state.usage,
        stale_at=stale_at(state),
        sources={name: terms_of(state, name) for name in sorted(state.demand) if _matters(state.demand[name])},
        health=health_of(state, state.config, state.now),
        waiting_since=state.orders.waiting_since if state.orders else {},
        standing=tuple(request for request in standing if request.owner not in in_doubt),
        standing_in_doubt=tuple(request for request in standing if request.owner in in_doubt),
        stockouts=state.stockouts,
        setbacks=state.setbacks,
        pressure=pressure_now(state),
        launched=state.launched,
        unseen_slices=unseen_slices(state, state.config) if unlisted else 0,
    )
    return SnapshotWithIds(snapshot, demand)


def _matters(source: SourceDemand) -> bool:
    """Whether a source of demand has anything to do with a decision: tasks, or a gap in what is known of them."""
    return bool(source.tasks) or source.resync_needed is not None


def _without_floors(config: ClusterConfig) -> ClusterConfig:
    """The configuration of a cluster that is being deleted: nothing is launched for minimum, warm slices or watermark."""
    none = {"min_slices": 0, "warm_slices": 0, "watermark": None}
    return config.model_copy(update={"groups": tuple(group.model_copy(update=none) for group in config.groups)})


def _without_doubt(demand: Demand, unlisted: Matcher) -> Demand:
    """The demand with a fault on every run that a slice nobody has seen yet may hold already: it buys nothing new."""
    faults = [_in_doubt(group) for group in unlisted.groups]
    candidates = [unlisted.candidates(shape).bits for shape in demand.workload.shapes]
    first = [next(positions(bits), None) for bits in candidates]
    of_shape = [None if g is None else faults[g] for g in first]
    runs = tuple(run._replace(fault=run.fault or of_shape[run.shape]) for run in demand.workload.runs)
    return demand.model_copy(update={"workload": demand.workload.model_copy(update={"runs": runs})})


def _in_doubt(group: ScaleGroup) -> Fault:
    where = f"{group.location_key} was not listed since the recovery began"
    message = f"{group.name} may have slices for it that are not known yet: {where}"
    return Fault(code=FaultCode.NO_CAPACITY, message=message)


def _is_in_doubt(request: StandingRequest, unlisted: Matcher) -> bool:
    """Whether slices nobody has seen yet may meet a standing request already."""
    return any(unlisted.candidates(item).bits for item in request.wants)


def _gang_hosts(current: Mapping[str, SliceUsage], demand: Demand, running: AbstractSet[str]) -> dict[str, list[HostRef]]:
    """Hosts on which tasks of each gang run: from the gangs in usage reports, and from running tasks that are still demand."""
    gang_of: dict[str, str] = {}
    if demand.gang_ids and not running.isdisjoint(demand.task_ids):
        gang_of = {task: entry.gang_id for entry in demand.entries() if entry.gang_id for task in entry.task_ids}
    found: dict[str, list[HostRef]] = {}
    for slice_id, usage in sorted(current.items()):
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
        builder.add(shape, entry.task_ids, gang_ids=gang_ids, apart=apart, fault=run.fault, source=run.source)
    return builder.build()
