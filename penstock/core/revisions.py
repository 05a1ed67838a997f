"""Demand that never drifts: what fits is applied, what is old is ignored, what does not fit asks for a snapshot."""

from penstock.core.events import DemandDelta, DemandSnapshot
from penstock.core.state import PartialDemand, SourceDemand
from penstock.model.demand import Demand


def apply_snapshot(source: SourceDemand, event: DemandSnapshot) -> SourceDemand:
    """A newer snapshot replaces everything, once all its parts have come."""
    if (event.epoch, event.revision) < (source.epoch, source.revision):
        return source
    if (event.epoch, event.revision) == (source.epoch, source.revision) and source.resync_needed is None:
        return source
    if event.part > event.parts:
        return _resync(source, f"a snapshot's part {event.part} is beyond its {event.parts} parts")
    if event.parts == 1:
        return _complete(source, event, event.demand)
    partial = source.partial
    if partial is not None and (event.epoch, event.revision) < (partial.epoch, partial.revision):
        return source
    if partial is None or (partial.epoch, partial.revision, partial.parts) != (event.epoch, event.revision, event.parts):
        partial = PartialDemand(epoch=event.epoch, revision=event.revision, parts=event.parts, received={})
    received = {**partial.received, event.part: event.demand}
    if len(received) < event.parts:
        return source.model_copy(update={"partial": partial.model_copy(update={"received": received})})
    return _complete(source, event, Demand.joined(received[part] for part in sorted(received)))


def apply_delta(source: SourceDemand, event: DemandDelta) -> SourceDemand:
    """A delta applies to exactly the revision it names."""
    if (event.epoch, event.revision) <= (source.epoch, source.revision):
        return source
    if event.epoch != source.epoch:
        return _resync(source, f"epoch {event.epoch} began without a snapshot")
    if source.resync_needed is not None:
        return source
    if event.base != source.revision:
        return _resync(source, f"revision {event.revision} builds on {event.base}, but {source.revision} is the latest here")
    known = set(source.demand.task_ids)
    unknown = next((task_id for task_id in event.removed if task_id not in known), None)
    if unknown is not None:
        return _resync(source, f"revision {event.revision} removes task {unknown}, which is not known here")
    left = source.demand.without(set(event.removed))
    demand = Demand.joined([left, event.added]) if event.added.task_ids else left
    if demand.duplicate is not None:
        return _resync(source, f"revision {event.revision} adds task {demand.duplicate}, which is waiting already")
    return source.model_copy(update={"revision": event.revision, "demand": demand})


def _complete(source: SourceDemand, event: DemandSnapshot, demand: Demand) -> SourceDemand:
    if demand.duplicate is not None:
        return _resync(source, f"snapshot {event.revision} names task {demand.duplicate} twice")
    return SourceDemand(epoch=event.epoch, revision=event.revision, demand=demand)


def _resync(source: SourceDemand, why: str) -> SourceDemand:
    """Keep what is known, and say that it may be wrong."""
    return source.model_copy(update={"resync_needed": why})
