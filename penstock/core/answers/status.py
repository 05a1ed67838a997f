"""The status of a cluster (counts by group, demand sources, recent failures) and pages of its slices."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from operator import attrgetter
from typing import Any

from penstock.contract.answers import (
    ClusterStatus,
    GroupStatus,
    RecoveryStatus,
    SlicePage,
    SourceStatus,
    UsageStatus,
)
from penstock.contract.messages import SlicesRequest
from penstock.contract.orders import MOST_SOURCES, Orders
from penstock.contract.slice_answers import DrainStatus
from penstock.core.answers.driven import driven_groups
from penstock.core.answers.figures import pools_of, standing_of
from penstock.core.answers.held import awaited_reports, held_because
from penstock.core.answers.money import Costs, costs_of, idle_cost_of_day, price_per_hour
from penstock.core.answers.notices import notices_of
from penstock.core.answers.silence import kept_by_silence
from penstock.core.decision.fleet import unreported_since
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.holds import hold_of
from penstock.core.decision.match import in_rank_order
from penstock.core.state.blocks import health_of
from penstock.core.state.protections import with_protection
from penstock.core.state.sources import heard_at, overdue_on_ready, stale_since, terms_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleDown
from penstock.model.slices import DrainTerms, Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.wording import listed

MOST_HOSTS_SHOWN = 8000
"""Hosts in one page of slices: about 1 MB, half of what Temporal allows for an answer."""


def status_of(state: AutoscalerState, since: int | None = None, *, now: datetime | None = None) -> ClusterStatus:
    """The status of the cluster at `now`, the time of asking; only its name and version if nothing changed `since` that version.

    What the last evaluation counted is left out once the cluster is being deleted, because its demand is dropped.
    """
    name = state.config.cluster if state.config else ""
    if since is not None and since == state.version:
        return ClusterStatus(cluster=name, version=state.version, changed=False)
    orders = None if state.closing else state.orders
    now = max(now or state.now, state.now)
    held = held_because(state, now)
    costs, headroom = costs_of(state), _headroom(state, now)
    silent = kept_by_silence(state, now)
    return ClusterStatus(
        cluster=name,
        version=state.version,
        held=held,
        outdated=orders is not None and orders.input_version < state.input_version,
        behind=_behind(state, orders),
        thorough=orders is None or orders.thorough,
        now=now,
        config_revision=state.config_revision,
        ready_grace_seconds=state.config.ready_grace_seconds if state.config else 0.0,
        usage_stale_after_seconds=state.config.stale_after_seconds if state.config else 0.0,
        slices=len(state.slices),
        cost=costs.cluster,
        idle_cost_of_day=idle_cost_of_day(state, now),
        unpriced=costs.unpriced,
        groups=_groups(state, headroom, costs, now, held=held is not None),
        pools=pools_of(state.config, orders, headroom.charged) if state.config and headroom else (),
        demand={source: _source(state, source, now) for source in sorted(state.demand)},
        usage={source: _usage(state, source, silent.get(source, ()), now) for source in sorted(state.usage_sources)},
        resync_needed=state.resync_needed,
        evaluations=state.evaluations,
        evaluated_at=state.orders.at if state.orders else None,
        decided_in_seconds=state.orders.seconds if state.orders else 0.0,
        undecided=state.undecided,
        next_change_at=orders.next_change_at if orders and held is None else None,
        placed=orders.placed if orders else {},
        unmet=orders.unmet if orders else {},
        deferred=orders.deferred if orders else 0,
        drains=tuple(
            drain_status(state, piece, piece.drain)
            for piece in sorted(state.draining, key=attrgetter("id"))
            if piece.drain is not None
        ),
        **notices_of(state),
        scale_down=state.config.scale_down if state.config else ScaleDown.ON,
        observed_drains=orders.observed_drains if orders else 0,
        standing=standing_of(state, orders),
        paused=state.paused,
        closing=state.closing,
        recovery=_recovery(state),
        locations=dict(sorted(state.location_problems.items())),
        recent_failures=state.recent_failures,
        rejected=state.rejected,
        rejected_in_all=state.rejected_in_all,
    )


def _behind(state: AutoscalerState, orders: Orders | None) -> str | None:
    """On which demand the last decision was made, and what has arrived since; None if nothing has."""
    if orders is None or orders.input_version >= state.input_version:
        return None
    newer = [name for name in sorted(state.demand) if name in orders.demand and orders.demand[name] != state.demand[name].stamp]
    fresh = [name for name in sorted(state.demand) if name not in orders.demand] if len(orders.demand) < MOST_SOURCES else []
    since = [_revision(state.demand[name].stamp, orders.demand[name]) + f" of {name}" for name in newer]
    waiting = [*since, *(f"the first demand of {name}" for name in fresh)] or ["what was reported since"]
    used = [f"{_revision(orders.demand[name], state.demand[name].stamp)} of {name}" for name in newer]
    on = f" on {listed(used)}" if used else ""
    wait = "wait" if len(waiting) > 1 else "waits"
    return f"decided at {orders.at:%H:%M:%S}Z{on}; {listed(waiting)} {wait} for the next evaluation"


def _revision(stamp: tuple[int, int], other: tuple[int, int]) -> str:
    """The revision, with its epoch if the other one is of a different epoch."""
    epoch, revision = stamp
    return f"revision {revision}" if epoch == other[0] else f"epoch {epoch} revision {revision}"


def page_of(state: AutoscalerState, request: SlicesRequest) -> SlicePage:
    """The requested page of slices."""
    found = [piece for piece in state.slices if request.group in (None, piece.group) and request.state in (None, piece.state)]
    first = (request.page - 1) * request.page_size
    slices = [with_protection(state, _identified(piece)) for piece in found[first : first + request.page_size]]
    whole = sum(hosts <= MOST_HOSTS_SHOWN for hosts in accumulate(len(piece.hosts) for piece in slices))
    return SlicePage(
        total=len(found),
        page=request.page,
        pages=max(1, ceil(len(found) / request.page_size)),
        slices=(*slices[:whole], *(piece.changed(hosts=()) for piece in slices[whole:])),
        without_addresses=len(slices) - whole,
    )


def _identified(piece: Slice) -> Slice:
    """The slice without the settings of its location, which may be long and are in its workflow."""
    return piece if piece.location is None else piece.changed(location=piece.location.identity)


def drain_status(state: AutoscalerState, piece: Slice, terms: DrainTerms) -> DrainStatus:
    """A drain that is ordered or under way."""
    return DrainStatus(
        slice_id=piece.id,
        number=terms.number,
        cause=terms.cause,
        detail=terms.detail,
        force=terms.force,
        idle=piece.idle_since is not None,
        needs_confirmation=terms.needs_confirmation,
        deadline=terms.deadline or _deadline(state, piece),
    )


def _deadline(state: AutoscalerState, piece: Slice) -> datetime | None:
    """When a drain that was ordered by an earlier version ends, by the timeout that its group has now."""
    group = state.config.group(piece.group) if state.config else None
    if group is None or piece.state is not SliceState.DRAINING or piece.since is None:
        return None
    return piece.since + timedelta(seconds=group.timeouts.drain_seconds)


def _groups(
    state: AutoscalerState, headroom: Headroom | None, costs: Costs, now: datetime, *, held: bool
) -> tuple[GroupStatus, ...]:
    """Configured groups in the order of the configuration, then removed groups that still have slices."""
    if state.config is None or headroom is None:
        return ()
    by_group: dict[str, list[Slice]] = {}
    for piece in state.slices:
        by_group.setdefault(piece.group, []).append(piece)
    facts = {name: _unreported(slices, state) | {"cost": costs.groups[name]} for name, slices in by_group.items()}
    for found in ({} if held else _not_started(state, now), _pressure(state), _availability(state.config, headroom, by_group)):
        for name, more in found.items():
            facts[name] = facts.get(name, {}) | more
    for name, driven in driven_groups(state, now).items():
        quiet = {"unreported": 0, "unreported_since": None, "unreported_cost_per_hour": 0.0}
        facts[name] = facts.get(name, {}) | quiet | {"driven": driven}
    configured = [
        _group(group.name, by_group.pop(group.name, []), max_slices=group.max_slices, **facts[group.name])
        for group in state.config.groups
    ]
    removed = [_group(name, slices, configured=False, **facts[name]) for name, slices in sorted(by_group.items())]
    return (*configured, *removed)


def _unreported(slices: list[Slice], state: AutoscalerState) -> dict[str, Any]:
    """How many READY slices no usage report has named, and since when the first is READY; apart from them, those unclaimed."""
    unreported = [piece for piece in slices if unreported_since(piece, state.usage) is not None]
    unclaimed = [piece for piece in slices if piece.is_unclaimed]
    return {
        "unreported": len(unreported),
        "unreported_since": min((piece.since for piece in unreported if piece.since), default=None),
        "unreported_cost_per_hour": price_per_hour(state, unreported),
        "unclaimed": len(unclaimed),
        "unclaimed_since": min((piece.unclaimed for piece in unclaimed if piece.unclaimed), default=None),
        "unclaimed_cost_per_hour": price_per_hour(state, unclaimed),
    }


def _not_started(state: AutoscalerState, now: datetime) -> dict[str, dict[str, Any]]:
    """By group, tasks that have been placed on READY slices for the grace, as the last evaluation saw them."""
    found: dict[str, dict[str, Any]] = {}
    for item in overdue_on_ready(state, now):
        facts = found.setdefault(item.group, {"not_started": (), "not_started_since": item.since})
        facts["not_started"] += (item.task_id,)
        facts["not_started_since"] = min(facts["not_started_since"], item.since)
    return found


def _pressure(state: AutoscalerState) -> dict[str, dict[str, Any]]:
    """By group, the pressure that the last decision found. That of a cluster that is deleted is dropped with its demand."""
    figures = {} if state.orders is None or state.closing else state.orders.figures
    return {name: {"pressure": found.pressure} for name, found in figures.items()}


def _headroom(state: AutoscalerState, now: datetime) -> Headroom | None:
    """How many slices each group may add, as a decision would find it."""
    config = state.config
    if config is None:
        return None
    groups, slices = in_rank_order(config.groups), Counter(piece.group for piece in state.slices)
    snapshot = Snapshot.model_construct(config=config, now=now, slices=state.slices, health=health_of(state, config, now))
    return Headroom(snapshot, groups, [slices[group.name] for group in groups])


def _availability(config: ClusterConfig, headroom: Headroom, by_group: dict[str, list[Slice]]) -> dict[str, dict[str, Any]]:
    """Availability, `until` and reason of each group, as a decision would report them, without the cost of a decision."""
    found = {}
    for g, group in enumerate(in_rank_order(config.groups)):
        availability, reason = headroom.availability(g, len(by_group.get(group.name, ())))
        block = headroom.block(g)
        found[group.name] = {"availability": availability, "until": block.until if block else None, "reason": reason}
    return found


def _group(name: str, slices: list[Slice], **fields: Any) -> GroupStatus:
    counts: dict[SliceState, int] = {}
    for piece in slices:
        counts[piece.state] = counts.get(piece.state, 0) + 1
    ordered = {state: counts[state] for state in SliceState if state in counts}
    return GroupStatus.model_validate(
        {"name": name, "slices": ordered, "queued": sum(piece.queued for piece in slices), **fields}
    )


def _usage(state: AutoscalerState, name: str, kept: Collection[Slice], now: datetime) -> UsageStatus:
    source, heard = state.usage_sources[name], heard_at(state, name)
    return UsageStatus(
        epoch=source.epoch,
        revision=source.revision,
        at=heard,
        age_seconds=max(0.0, (now - heard).total_seconds()),
        stale_since=stale_since(state, name, now),
        slices=len(source.named),
        kept_idle=len(kept),
        cost_per_hour=price_per_hour(state, kept),
        resync_needed=source.resync_needed,
    )


def _source(state: AutoscalerState, name: str, now: datetime) -> SourceStatus:
    source = state.demand[name]
    terms = terms_of(state, name)
    hold = hold_of(name, terms, now) if source.tasks else None
    return SourceStatus(
        epoch=source.epoch,
        revision=source.revision,
        tasks=source.tasks,
        resync_needed=source.resync_needed,
        lease_ends=terms.lease_ends,
        buys_nothing=hold.message if hold else None,
    )


def _recovery(state: AutoscalerState) -> RecoveryStatus | None:
    found = state.recovery
    if found is None:
        return None
    return RecoveryStatus(reason=found.reason, since=found.since, waiting_for=awaited_reports(state), goes_on=found.goes_on)
