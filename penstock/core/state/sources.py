"""Sources of demand and usage over time: when each was last heard, its lease and its epochs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from penstock.contract.orders import OnReady
from penstock.core.state.events import DemandDelta, DemandRefused, DemandSnapshot
from penstock.core.state.state import BEFORE_TIME, AutoscalerState, SourceDemand, UsageSource
from penstock.model.snapshot import SourceTerms

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
    """From when the word of some source on each idle slice is stale, by slice id."""
    if state.config is None:
        return {}
    idle = {piece.id for piece in state.slices if piece.idle_since is not None}
    lasts = timedelta(seconds=state.config.stale_after_seconds)
    found: dict[str, datetime] = {}
    for name, source in sorted(state.usage_sources.items()) if idle else ():
        end = heard_at(state, name) + lasts
        found |= {slice_id: min(end, found.get(slice_id, end)) for slice_id in source.named if slice_id in idle}
    return found


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
    """How long the demand of a source may buy."""
    restarted = state.usage_sources.get(name, UsageSource()).restarted
    return SourceTerms(lease_ends=lease_end(state, name), usage_due=None if restarted is None else restarted + _grace(state))


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


def in_new_epoch(source: UsageSource, at: datetime) -> UsageSource:
    """A source of usage whose controller restarted: what it named does not show running tasks until it is named again."""
    if not source.has_reported:
        return source
    return source.model_copy(update={"outdated": source.named, "restarted": at, "began": at})


def to_be_resynced(sources: Mapping[str, UsageSource], why: str) -> dict[str, UsageSource]:
    """The sources of usage after state was lost: what they reported since is not known, so they must send all of it again."""
    return {
        name: source.model_copy(update={"resync_needed": why}) if source.has_reported else source
        for name, source in sources.items()
    }
