"""Apply demand snapshots and deltas by revision: ignore old ones, request a resync where a delta does not fit."""

from itertools import pairwise

from penstock.core.state.events import DemandDelta, DemandRefused, DemandSnapshot
from penstock.core.state.state import PartialDemand, SourceDemand
from penstock.model.demand import Demand
from penstock.model.demand_builder import inserted, joined, without

MOST_BESIDE = 2_000
"""Changed tasks that are kept beside the base of a demand; once in so many it is rebuilt: a tenth of a second at full size."""
_SHARE_BESIDE = 10
"""At most one task in so many is kept beside the base: a small demand is rebuilt in no time."""


def apply_snapshot(source: SourceDemand, event: DemandSnapshot) -> SourceDemand:
    """A newer snapshot replaces all demand of the source, once all its parts have arrived."""
    stamp = (event.epoch, event.revision)
    if stamp <= source.stamp:
        return source
    source = _with_latest(source, stamp)
    if event.part > event.parts:
        return _resync(source, f"a snapshot's part {event.part} is beyond its {event.parts} parts")
    if event.parts == 1:
        return _complete(source, event, event.demand)
    partial = source.partial
    if partial is not None and partial.stamp > stamp:
        return source
    if partial is None or (partial.stamp, partial.parts) != (stamp, event.parts):
        partial = PartialDemand(epoch=event.epoch, revision=event.revision, parts=event.parts, received={})
    received = {**partial.received, event.part: event.demand}
    if len(received) < event.parts:
        return source.model_copy(update={"partial": partial.model_copy(update={"received": received})})
    return _complete(source, event, joined(received[part] for part in sorted(received)))


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
    removed = set(event.removed)
    twice = next((task_id for task_id in event.added.task_ids if task_id not in removed and source.has(task_id)), None)
    if twice is not None or event.added.duplicate is not None:
        return _resync(source, f"revision {event.revision} adds task {twice or event.added.duplicate}, which is waiting already")
    if not _is_placed(source, event):
        return _resync(source, f"revision {event.revision} gives positions that do not fit the entries that it adds")
    changed = _beside(source, event) if _fits_beside(source, event) else _rebuilt(source, event)
    lease = source.lease_seconds if event.lease_seconds is None else event.lease_seconds
    known = {"revision": event.revision, "partial": _newer(source, stamp), "lease_seconds": lease}
    return changed.model_copy(update=known)


def _is_placed(source: SourceDemand, event: DemandDelta) -> bool:
    """Whether the positions, if a delta has any, are one for each added entry, ascending, and within the demand."""
    if not event.positions:
        return True
    one_each = len(event.positions) == event.added.entry_starts[-1]
    ascending = all(first < second for first, second in pairwise(event.positions))
    left = source.tasks - len(event.removed)
    return one_each and ascending and event.positions[-1] < left + len(event.positions)


def _fits_beside(source: SourceDemand, event: DemandDelta) -> bool:
    """Whether a delta changes few tasks, and completes no gang that has tasks in the base."""
    beside = len(source.removed) + len(source.added.task_ids) + len(event.removed) + len(event.added.task_ids)
    few = beside <= min(MOST_BESIDE, len(source.base.task_ids) // _SHARE_BESIDE)
    return few and not event.positions and source.base.gangs.isdisjoint(event.added.gang_ids)


def _beside(source: SourceDemand, event: DemandDelta) -> SourceDemand:
    """The source with the changes beside its base."""
    removed = set(event.removed)
    from_base = tuple(task_id for task_id in dict.fromkeys(event.removed) if task_id not in source.added.members)
    left = without(source.added, removed)
    added = joined([left, event.added]) if event.added.task_ids else left
    return source.model_copy(update={"removed": (*source.removed, *from_base), "added": added})


def _rebuilt(source: SourceDemand, event: DemandDelta) -> SourceDemand:
    """The source with all changes in its base."""
    left = without(source.demand, set(event.removed))
    if event.positions:
        demand = inserted(left, event.added, event.positions)
    else:
        demand = joined([left, event.added]) if event.added.task_ids else left
    return source.model_copy(update={"base": demand, "removed": (), "added": Demand()})


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
    unknown = next((task_id for task_id in event.removed if not source.has(task_id)), None)
    if unknown is not None:
        return f"revision {event.revision} removes task {unknown}, which is not known here"
    removed = set(event.removed)
    gang = source.base.faulty(removed) or source.added.faulty(removed)
    if gang is not None:
        return f"revision {event.revision} changes gang {gang}, whose tasks disagree: only a snapshot says what is left of it"
    return None


def _complete(source: SourceDemand, event: DemandSnapshot, demand: Demand) -> SourceDemand:
    """The snapshot becomes the demand, with its lease. A resync is over unless a message named a newer revision."""
    stamp = (event.epoch, event.revision)
    if demand.duplicate is not None:
        return _resync(source, f"snapshot {stamp[1]} names task {demand.duplicate} twice")
    return SourceDemand(
        epoch=stamp[0],
        revision=stamp[1],
        demand=demand,
        latest=source.latest,
        resync_needed=source.resync_needed if stamp < source.latest else None,
        partial=_newer(source, stamp),
        lease_seconds=event.lease_seconds,
        at=source.at,
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
