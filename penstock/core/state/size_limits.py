"""Size limits of the state: Temporal carries 2 MB from run to run and in an answer, so larger input is refused."""

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
    UsageReported,
)
from penstock.core.state.revisions import apply_snapshot
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.core.state.usage import after_words
from penstock.model.packed import pack
from penstock.model.shape import MOST_TASKS
from penstock.model.slices import HostState, HostUsage, SliceUsage

LARGEST_DEMAND = 1_400_000
"""Bytes of the demand of all sources: 60,000 random UUIDs, or many more tasks if their ids count up."""
LARGEST_REST = 650_000
"""Bytes of everything else: 5,000 busy slices take a third of that, the addresses of their hosts another half."""
LARGEST_USAGE = 500_000
"""Bytes of usage that is kept during a recovery: many times what 5,000 slices need."""
LARGEST_NAMES = 400_000
"""Bytes of the names of running tasks and gangs."""
LONGEST_REASON = 500
"""Characters of the reason of a drain or pause, which slices and every status carry."""
MOST_DRAINS = 2000
"""Drains in progress at once: the state carries each until its slice is gone. Deleting the cluster is exempt."""
_STAMPS = 300
"""Bytes of a source without its tasks."""


def exceeds_limits(state: AutoscalerState, event: AnyEvent) -> str | None:
    """Why the event is refused: the state would exceed a limit. An event that makes it smaller is never refused."""
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
    return f"{field}: has {len(text)} characters, the limit is {LONGEST_REASON}; shorten it"


def _too_many_drains(state: AutoscalerState, event: DrainOrdered) -> str | None:
    draining = {piece.id for piece in state.draining}
    if event.slice_id in draining or len(draining) < MOST_DRAINS:
        return None
    return f"slice_id: {len(draining)} slices drain already; wait until some of them are gone, or delete the cluster"


def _too_much_else(state: AutoscalerState, event: ConfigApplied | CapacityRequested) -> str | None:
    before, after = (len(each.model_dump_json(exclude={"demand"}).encode()) for each in (state, apply(state, event)))
    if after <= max(before, LARGEST_REST):
        return None
    field, fix = ("groups", "configure fewer") if isinstance(event, ConfigApplied) else ("wants", "write `count` for equal items")
    return f"{field}: with them the state without demand takes {after} bytes, the limit is {LARGEST_REST}; {fix}"


def _too_much_demand(state: AutoscalerState, event: DemandSnapshot | DemandDelta) -> str | None:
    source = state.demand.get(event.source, SourceDemand())
    tasks, weight = _snapshot_adds(source, event) if isinstance(event, DemandSnapshot) else _delta_adds(source, event)
    if tasks <= 0 and weight <= 0:
        return None
    waiting = _tasks(source) + tasks
    if waiting > MOST_TASKS and tasks > 0:
        return f"tasks: with them one source has {waiting} tasks, the limit is {MOST_TASKS}; send fewer"
    in_all = sum(map(_weight, state.demand.values())) + weight
    if in_all <= LARGEST_DEMAND or weight <= 0:
        return None
    return (
        f"tasks: with them all demand takes {in_all} bytes, the limit is {LARGEST_DEMAND}; give tasks shorter ids or ids"
        " that count up (job-7/0, job-7/1), write count for equal tasks, or send fewer"
    )


def _snapshot_adds(source: SourceDemand, event: DemandSnapshot) -> tuple[int, int]:
    """Tasks and bytes that a snapshot, or a part of one, adds to its source."""
    after = apply_snapshot(source, event)
    return _tasks(after) - _tasks(source), _weight(after) - _weight(source)


def _delta_adds(source: SourceDemand, event: DemandDelta) -> tuple[int, int]:
    """An upper bound: removed tasks are not subtracted. If it exceeds the limit, the snapshot that is requested then decides."""
    if (event.epoch, event.revision) <= source.stamp or not event.added.task_ids:
        return 0, 0
    return len(event.added.task_ids), event.added.packed_size


def _tasks(source: SourceDemand) -> int:
    """Tasks of a source, or of the received parts of its next snapshot if those are more."""
    coming = sum(len(part.task_ids) for part in source.partial.received.values()) if source.partial else 0
    return max(source.tasks, coming)


def _weight(source: SourceDemand) -> int:
    """Bytes of a source, with the received parts of its next snapshot."""
    parts = source.partial.received.values() if source.partial else ()
    return _STAMPS + source.packed_size + sum(part.packed_size for part in parts)


def usage_fits(state: AutoscalerState, usage: Mapping[str, SliceUsage]) -> bool:
    """Whether usage fits, with the known usage of other slices. Only a recovery needs it: it keeps usage of unknown slices."""
    after = state.model_copy(update={"usage": {**state.usage, **usage}})
    return len(after.model_dump_json(include={"usage"})) <= LARGEST_USAGE


def names_fit(state: AutoscalerState, reported: UsageReported) -> bool:
    """Whether the names of running tasks and gangs fit once the usage is known, with those on other slices.

    What several sources say about a slice is kept apart for each, and once more together.
    """
    if not any(host.tasks or host.gangs for hosts in reported.usage.values() for host in hosts):
        return True
    sources, usage = after_words(state, reported)
    tables = [usage, *(source.words for source in sources.values())]
    said = [host for table in tables for hosts in table.values() for host in hosts]
    names = [name for host in said for name in (*host.tasks, *host.gangs)]
    return len("".join(names).encode()) + 3 * len(names) <= LARGEST_NAMES // 2 or len(pack(names)) <= LARGEST_NAMES


def without_names(usage: Mapping[str, SliceUsage]) -> dict[str, SliceUsage]:
    """The usage of every host without the names of its tasks and gangs."""
    return {slice_id: tuple(map(_nameless, hosts)) for slice_id, hosts in usage.items()}


def _nameless(host: HostUsage) -> HostUsage:
    state = host.state or (HostState.IDLE if host.idle else HostState.BUSY)
    return host.model_copy(update={"state": state, "tasks": (), "gangs": ()})
