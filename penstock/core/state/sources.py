"""Sources of demand and usage over time: when each was last heard, its lease and its epochs."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from penstock.contract.orders import OnReady
from penstock.core.state.events import DemandDelta, DemandRefused, DemandSnapshot, PressureReported, UsageReported
from penstock.core.state.state import BEFORE_TIME, AutoscalerState, SourceDemand, UsageSource
from penstock.model.pressure import PressureState
from penstock.model.slices import SliceState
from penstock.model.snapshot import SourceTerms

KEPT_SILENT_SOURCES = 100
"""Sources that name no slice and whose stamps are kept. A forgotten one starts again with its next message."""

DemandEvent = DemandSnapshot | DemandDelta | DemandRefused


def heard_at(state: AutoscalerState, name: str) -> datetime:
    """When the source sent its last message, whatever it was about."""
    demand, usage = state.demand.get(name), state.usage_sources.get(name)
    return max(demand.at if demand else BEFORE_TIME, usage.at if usage else BEFORE_TIME)


def stale_since(state: AutoscalerState, name: str, now: datetime) -> datetime | None:
    """Since when the word of a source is stale, if it has been silent for too long."""
    if state.config is None:
        return None
    end = heard_at(state, name) + timedelta(seconds=state.config.stale_after_seconds)
    return end if end <= now else None


def stale_at(state: AutoscalerState) -> dict[str, datetime]:
    """From when the word of some source on each idle slice is stale, by slice id; with consolidation, on each READY one.

    What a source said before some of it was lost, or in an older epoch, has been stale since then.
    """
    if state.config is None:
        return {}
    every = state.config.consolidation is not None
    judged = {p.id for p in state.slices if p.idle_since is not None or (every and p.state is SliceState.READY)}
    lasts = timedelta(seconds=state.config.stale_after_seconds)
    found: dict[str, datetime] = {}
    for name, source in sorted(state.usage_sources.items()) if judged else ():
        old, began, end = old_words(source), source.began or source.at, heard_at(state, name) + lasts
        ends = {slice_id: began if slice_id in old else end for slice_id in source.named if slice_id in judged}
        found |= {slice_id: min(moment, found.get(slice_id, moment)) for slice_id, moment in ends.items()}
    return found


def old_words(source: UsageSource) -> frozenset[str]:
    """Slices on which the last word of a source is of an older epoch, or of before some of its words were lost."""
    return frozenset(source.named if source.resync_needed is not None else source.outdated)


def driving(driven: Mapping[str, PressureState]) -> set[str]:
    """The sources whose reports of pressure drive groups."""
    return {said.source for said in driven.values()}


def pressure_stale_at(state: AutoscalerState, said: PressureState) -> datetime | None:
    """From when a report of pressure is stale: once its source is silent; if it restarted or state was lost, already.

    None if its source is not known, as in a file.
    """
    source = state.usage_sources.get(said.source)
    if said.stale_at is not None or not said.source or state.config is None:
        return said.stale_at
    if source is None or said.stamp[0] < source.epoch:
        return said.at
    return heard_at(state, said.source) + timedelta(seconds=state.config.stale_after_seconds)


def drives_again(state: AutoscalerState, name: str, at: datetime) -> bool:
    """Whether a message of a source that was silent makes its reports of pressure count again."""
    source = state.usage_sources.get(name)
    if source is None or stale_since(state, name, at) is None:
        return False
    mine = (said for said in state.pressure.values() if said.source == name)
    return any(said.stale_at is None and said.stamp[0] >= source.epoch for said in mine)


def lease_end(state: AutoscalerState, name: str) -> datetime | None:
    """When the lease of a source lapses unless it is heard of again; None if its demand has none."""
    source = state.demand.get(name)
    if source is None or source.lease_seconds is None:
        return None
    return heard_at(state, name) + timedelta(seconds=source.lease_seconds)


def has_lapsed(state: AutoscalerState, name: str, now: datetime) -> bool:
    """Whether the lease of a source has lapsed."""
    end = lease_end(state, name)
    return end is not None and end <= now


def terms_of(state: AutoscalerState, name: str) -> SourceTerms:
    """How long the demand of a source may buy, and whether all of it is known."""
    restarted = state.usage_sources.get(name, UsageSource()).restarted
    return SourceTerms(
        lease_ends=lease_end(state, name),
        usage_due=None if restarted is None else restarted + _grace(state),
        resync=state.demand[name].resync_needed,
    )


def overdue_on_ready(state: AutoscalerState, now: datetime) -> tuple[OnReady, ...]:
    """Tasks that have been placed on READY slices for the grace: their controller should have started them."""
    watched = state.orders.on_ready if state.orders else ()
    return tuple(item for item in watched if item.since + _grace(state) <= now)


def _grace(state: AutoscalerState) -> timedelta:
    return timedelta(seconds=state.config.ready_grace_seconds if state.config else 0.0)


def after_demand(state: AutoscalerState, event: DemandEvent, source: SourceDemand) -> tuple[SourceDemand, dict[str, UsageSource]]:
    """The source of a demand message, which was heard and may have begun a new epoch; and all sources of usage.

    A message of an older epoch is of a controller that is gone, and renews nothing.
    """
    before, usage = state.demand.get(event.source, SourceDemand()), state.usage_sources
    known = max(before.stamp, before.latest)[0]
    if event.epoch >= known:
        source = source.model_copy(update={"at": max(before.at, event.at)})
    reporter = usage.get(event.source)
    if reporter is not None and known >= 0 and event.epoch > max(known, reporter.epoch):
        usage = {**usage, event.source: in_new_epoch(reporter, event.at)}
    return source, usage


def heard(state: AutoscalerState, before: UsageSource, event: UsageReported | PressureReported) -> UsageSource:
    """The source of a message, with its stamp and time, and what the message ends: a silence, an epoch, a resync.

    Reports of pressure say nothing about slices. A source that sends nothing else need not send more after a loss.
    """
    restarts = event.epoch is not None and event.epoch > before.epoch >= 0
    says = isinstance(event, UsageReported) and (bool(event.usage) or event.complete)
    complete = event.complete if isinstance(event, UsageReported) else not before.has_reported
    resynced = before.resync_needed is not None and (restarts or complete or (says and event.epoch is None))
    silent = (event.at - heard_at(state, event.source)).total_seconds() > (
        state.config.stale_after_seconds if state.config else 0
    )
    source = in_new_epoch(before, event.at) if restarts else before
    stamp = before.stamp if event.epoch is None or event.revision is None else max(before.stamp, (event.epoch, event.revision))
    return source.model_copy(
        update={
            "epoch": stamp[0],
            "revision": stamp[1],
            "at": max(before.at, event.at),
            "reported": source.has_reported or says,
            "began": event.at if silent or resynced or source.began is None else source.began,
            "restarted": None if says else source.restarted,
            "resync_needed": None if resynced else source.resync_needed,
        }
    )


def in_new_epoch(source: UsageSource, at: datetime) -> UsageSource:
    """A source of usage whose controller restarted: what it named does not show running tasks until it is named again."""
    if not source.has_reported:
        return source
    return source.model_copy(update={"outdated": source.named, "restarted": at, "began": at})


def to_be_resynced(state: AutoscalerState, why: str, at: datetime) -> dict[str, UsageSource]:
    """The sources of usage and pressure after state was lost: what they reported since must be sent again."""
    drive = driving(state.pressure)
    return {
        name: source.model_copy(update={"resync_needed": why, "began": at}) if source.has_reported or name in drive else source
        for name, source in state.usage_sources.items()
    }


def bounded(sources: dict[str, UsageSource], kept: AbstractSet[str]) -> dict[str, UsageSource]:
    """The sources without those that name no slice, drive no group and were heard longest ago, beyond the limit."""
    idle = (name for name, known in sources.items() if not known.named and name not in kept)
    silent = sorted(idle, key=lambda name: (sources[name].at, name))
    forgotten = set(silent[: max(0, len(silent) - KEPT_SILENT_SOURCES)])
    return {name: known for name, known in sources.items() if name not in forgotten}
