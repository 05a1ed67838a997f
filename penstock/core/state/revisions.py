"""Apply demand snapshots and deltas by revision: ignore old ones, request a resync where a delta does not fit."""

from penstock.core.state.events import DemandDelta, DemandRefused, DemandSnapshot
from penstock.core.state.state import PartialDemand, SourceDemand
from penstock.model.demand import Demand
from penstock.model.demand_builder import joined, without


def apply_snapshot(source: SourceDemand, event: DemandSnapshot) -> SourceDemand:
    """A newer snapshot replaces all demand of the source, once all its parts have arrived."""
    stamp = (event.epoch, event.revision)
    if stamp <= source.stamp:
        return source
    source = _with_latest(source, stamp)
    if event.part > event.parts:
        return _resync(source, f"a snapshot's part {event.part} is beyond its {event.parts} parts")
    if event.parts == 1:
        return _complete(source, stamp, event.demand)
    partial = source.partial
    if partial is not None and partial.stamp > stamp:
        return source
    if partial is None or (partial.stamp, partial.parts) != (stamp, event.parts):
        partial = PartialDemand(epoch=event.epoch, revision=event.revision, parts=event.parts, received={})
    received = {**partial.received, event.part: event.demand}
    if len(received) < event.parts:
        return source.model_copy(update={"partial": partial.model_copy(update={"received": received})})
    return _complete(source, stamp, joined(received[part] for part in sorted(received)))


def apply_delta(source: SourceDemand, event: DemandDelta) -> SourceDemand:
    """A delta applies to exactly the revision it names."""
    stamp = (event.epoch, event.revision)
    if stamp <= source.stamp:
        return source
    source = _with_latest(source, stamp)
    if source.resync_needed is not None:
        return source
    misfit = _misfit(source, event)
    if misfit is not None:
        return _resync(source, misfit)
    left = without(source.demand, set(event.removed))
    demand = joined([left, event.added]) if event.added.task_ids else left
    if demand.duplicate is not None:
        return _resync(source, f"revision {event.revision} adds task {demand.duplicate}, which is waiting already")
    return source.model_copy(update={"revision": event.revision, "demand": demand, "partial": _newer(source, stamp)})


def apply_refused(source: SourceDemand, event: DemandRefused) -> SourceDemand:
    """Keep the known demand and request a smaller snapshot; drop the parts of the refused one."""
    stamp = (event.epoch, event.revision)
    if stamp <= source.stamp:
        return source
    source = _with_latest(source, stamp)
    return _resync(source.model_copy(update={"partial": _newer(source, stamp)}), event.problem)


def _misfit(source: SourceDemand, event: DemandDelta) -> str | None:
    """Why a delta cannot be applied to the known demand; None if it can."""
    if event.epoch != source.epoch:
        return f"epoch {event.epoch} began without a snapshot"
    if event.base != source.revision:
        return f"revision {event.revision} builds on {event.base}, but {source.revision} is the latest here"
    known = set(source.demand.task_ids)
    unknown = next((task_id for task_id in event.removed if task_id not in known), None)
    if unknown is not None:
        return f"revision {event.revision} removes task {unknown}, which is not known here"
    gang = source.demand.faulty(set(event.removed))
    if gang is not None:
        return f"revision {event.revision} changes gang {gang}, whose tasks disagree: only a snapshot says what is left of it"
    return None


def _complete(source: SourceDemand, stamp: tuple[int, int], demand: Demand) -> SourceDemand:
    """The snapshot becomes the demand. A resync is over unless a message named a newer revision."""
    if demand.duplicate is not None:
        return _resync(source, f"snapshot {stamp[1]} names task {demand.duplicate} twice")
    return SourceDemand(
        epoch=stamp[0],
        revision=stamp[1],
        demand=demand,
        latest=source.latest,
        resync_needed=source.resync_needed if stamp < source.latest else None,
        partial=_newer(source, stamp),
    )


def _newer(source: SourceDemand, stamp: tuple[int, int]) -> PartialDemand | None:
    """The received parts of a snapshot newer than the stamp."""
    return source.partial if source.partial is not None and source.partial.stamp > stamp else None


def _with_latest(source: SourceDemand, stamp: tuple[int, int]) -> SourceDemand:
    """The source, with the newest (epoch, revision) that any message named."""
    return source.model_copy(update={"latest": max(source.latest, stamp)})


def _resync(source: SourceDemand, why: str) -> SourceDemand:
    """Keep the known demand, and record why it may be out of date."""
    return source.model_copy(update={"resync_needed": why})
