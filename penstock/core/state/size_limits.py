"""What a state weighs. Temporal carries two megabytes from run to run and in an answer, so what would not fit is refused."""

from collections.abc import Mapping

from penstock.core.state.apply import apply
from penstock.core.state.events import (
    AnyEvent,
    CapacityRequested,
    ConfigApplied,
    DemandDelta,
    DemandSnapshot,
    DrainOrdered,
    Paused,
)
from penstock.core.state.revisions import apply_snapshot
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.demand import MOST_TASKS
from penstock.model.packed import pack
from penstock.model.slices import HostState, HostUsage, SliceUsage

LARGEST_DEMAND = 1_400_000
"""Bytes of the demand of all sources: sixty thousand random UUIDs, or many times the tasks of a cluster if their ids count up."""
LARGEST_REST = 650_000
"""Bytes of everything else: with five thousand busy slices it is a third of that."""
LARGEST_USAGE = 500_000
"""Bytes thereof for usage of slices that are still to be found: many times what five thousand of them need."""
LARGEST_NAMES = 400_000
"""Bytes thereof for the names of running tasks."""
LONGEST_REASON = 500
"""Characters of why a slice drains or a cluster is paused: slices are told, and every status."""
MOST_DRAINS = 2000
"""Drains under way at once: each is carried until its slice is gone. A cluster that is deleted wants nothing else any more."""
_STAMPS = 300
"""Bytes of a source without its tasks."""


def exceeds_limits(state: AutoscalerState, event: AnyEvent) -> str | None:
    """Why the event cannot be taken in: the state would be larger than can be carried. One that makes it smaller always can."""
    if isinstance(event, DemandSnapshot | DemandDelta):
        return _too_much_demand(state, event)
    if isinstance(event, ConfigApplied | CapacityRequested):
        return _too_much_else(state, event)
    if isinstance(event, DrainOrdered):
        return _too_long("cause", event.terms.cause) or _too_many_drains(state, event)
    return _too_long("reason", event.reason) if isinstance(event, Paused) else None


def _too_long(field: str, text: str) -> str | None:
    if len(text) <= LONGEST_REASON:
        return None
    return f"{field}: has {len(text)} characters, and {LONGEST_REASON} can be carried; say it shorter"


def _too_many_drains(state: AutoscalerState, event: DrainOrdered) -> str | None:
    draining = {piece.id for piece in state.draining}
    if event.slice_id in draining or len(draining) < MOST_DRAINS:
        return None
    return f"slice_id: {len(draining)} slices drain already; wait until some of them are gone, or delete the cluster"


def _too_much_else(state: AutoscalerState, event: ConfigApplied | CapacityRequested) -> str | None:
    before, after = (len(each.model_dump_json(exclude={"demand"}).encode()) for each in (state, apply(state, event)))
    if after <= max(before, LARGEST_REST):
        return None
    field, fix = (
        ("groups", "configure fewer") if isinstance(event, ConfigApplied) else ("wants", "say count for wants that are alike")
    )
    return f"{field}: with them all but demand takes {after} bytes, and {LARGEST_REST} can be carried; {fix}"


def _too_much_demand(state: AutoscalerState, event: DemandSnapshot | DemandDelta) -> str | None:
    source = state.demand.get(event.source, SourceDemand())
    tasks, weight = _snapshot_adds(source, event) if isinstance(event, DemandSnapshot) else _delta_adds(source, event)
    if tasks <= 0 and weight <= 0:
        return None
    waiting = _tasks(source) + tasks
    if waiting > MOST_TASKS and tasks > 0:
        return f"tasks: with them {waiting} tasks of one source wait, and it may have {MOST_TASKS}; send fewer"
    in_all = sum(map(_weight, state.demand.values())) + weight
    if in_all <= LARGEST_DEMAND or weight <= 0:
        return None
    return (
        f"tasks: with them all demand takes {in_all} bytes, and {LARGEST_DEMAND} can be carried; give tasks shorter ids or ids"
        " that count up (job-7/0, job-7/1), write count for tasks that are alike, or send fewer"
    )


def _snapshot_adds(source: SourceDemand, event: DemandSnapshot) -> tuple[int, int]:
    """Tasks and bytes that a snapshot, or a part of one, puts on top of what its source has."""
    after = apply_snapshot(source, event)
    return _tasks(after) - _tasks(source), _weight(after) - _weight(source)


def _delta_adds(source: SourceDemand, event: DemandDelta) -> tuple[int, int]:
    """At most, for tasks that leave weigh something too. If that is too much, the snapshot that is asked for then tells."""
    if (event.epoch, event.revision) <= source.stamp or not event.added.task_ids:
        return 0, 0
    return len(event.added.task_ids), event.added.packed_size


def _tasks(source: SourceDemand) -> int:
    """Tasks of a source, or those that have come of the snapshot after it, if they are more."""
    coming = sum(len(part.task_ids) for part in source.partial.received.values()) if source.partial else 0
    return max(len(source.demand.task_ids), coming)


def _weight(source: SourceDemand) -> int:
    """Bytes of a source, with the parts of a snapshot that have come so far."""
    parts = source.partial.received.values() if source.partial else ()
    return _STAMPS + source.demand.packed_size + sum(part.packed_size for part in parts)


def usage_fits(state: AutoscalerState, usage: Mapping[str, SliceUsage]) -> bool:
    """Whether usage can be carried, with what is known of other slices: for slices that nobody has counted yet."""
    after = state.model_copy(update={"usage": {**state.usage, **usage}})
    return len(after.model_dump_json(include={"usage"})) <= LARGEST_USAGE


def names_fit(state: AutoscalerState, usage: Mapping[str, SliceUsage]) -> bool:
    """Whether the names of running tasks can be carried, with those that are known of other slices."""
    known = {piece.id for piece in state.slices}
    after = {one: hosts for one, hosts in {**state.usage, **usage}.items() if one in known or state.recovery is not None}
    names = [task for hosts in after.values() for host in hosts for task in host.tasks]
    return len("".join(names).encode()) + 3 * len(names) <= LARGEST_NAMES // 2 or len(pack(names)) <= LARGEST_NAMES


def without_names(usage: Mapping[str, SliceUsage]) -> dict[str, SliceUsage]:
    """The same usage of every host, without the tasks that run there."""
    return {slice_id: tuple(map(_nameless, hosts)) for slice_id, hosts in usage.items()}


def _nameless(host: HostUsage) -> HostUsage:
    state = host.state or (HostState.IDLE if host.idle else HostState.BUSY)
    return host.model_copy(update={"state": state, "tasks": ()})
