"""The status of a cluster (counts by group, demand sources, recent failures) and pages of its slices."""

from collections.abc import Mapping
from itertools import accumulate
from math import ceil
from operator import attrgetter
from typing import Any

from penstock.contract.answers import (
    ClusterStatus,
    DrainStatus,
    GroupStatus,
    RecoveryStatus,
    SlicePage,
    SourceStatus,
)
from penstock.contract.messages import SlicesRequest
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.match import in_rank_order
from penstock.core.state.blocks import health_of
from penstock.core.state.state import AutoscalerState, Recovery
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice, SliceState
from penstock.model.snapshot import Snapshot

SLICE_WORKFLOWS = "slice workflows"
"""Item of `waiting_for` until a recovery has collected the reports of all slice workflows."""


MOST_HOSTS_SHOWN = 8000
"""Hosts in one page of slices: about 1 MB, half of what Temporal allows for an answer."""


def status_of(state: AutoscalerState, since: int | None = None) -> ClusterStatus:
    """The status of the cluster; only its name and version if nothing changed `since` that version."""
    name = state.config.cluster if state.config else ""
    if since is not None and since == state.version:
        return ClusterStatus(cluster=name, version=state.version, changed=False)
    orders = state.orders
    return ClusterStatus(
        cluster=name,
        version=state.version,
        now=state.now,
        config_revision=state.config_revision,
        slices=len(state.slices),
        groups=_groups(state),
        demand={source: _source(state, source) for source in sorted(state.demand)},
        resync_needed=state.resync_needed,
        evaluations=state.evaluations,
        evaluated_at=orders.at if orders else None,
        decided_in_seconds=orders.seconds if orders else 0.0,
        next_change_at=orders.next_change_at if orders else None,
        placed=orders.placed if orders else {},
        unmet=orders.unmet if orders else {},
        deferred=orders.deferred if orders else 0,
        drains=tuple(
            DrainStatus(slice_id=piece.id, cause=piece.drain.cause, force=piece.drain.force)
            for piece in sorted(state.draining, key=attrgetter("id"))
            if piece.drain is not None
        ),
        standing=tuple(sorted(state.standing)),
        paused=state.paused,
        closing=state.closing,
        recovery=_recovery(state.recovery) if state.recovery else None,
        recent_failures=state.recent_failures,
        rejected=state.rejected,
        rejected_in_all=state.rejected_in_all,
    )


def page_of(state: AutoscalerState, request: SlicesRequest) -> SlicePage:
    """The requested page of slices."""
    wanted = request.state.upper() if request.state else None
    found = [piece for piece in state.slices if request.group in (None, piece.group) and wanted in (None, piece.state)]
    first = (request.page - 1) * request.page_size
    slices = [_identified(piece) for piece in found[first : first + request.page_size]]
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


def _groups(state: AutoscalerState) -> tuple[GroupStatus, ...]:
    """Configured groups in the order of the configuration, then removed groups that still have slices."""
    if state.config is None:
        return ()
    by_group: dict[str, list[Slice]] = {}
    for piece in state.slices:
        by_group.setdefault(piece.group, []).append(piece)
    availability = _availability(state, state.config, {name: len(slices) for name, slices in by_group.items()})
    found = [
        _group(group.name, by_group.pop(group.name, []), max_slices=group.max_slices, **availability[group.name])
        for group in state.config.groups
    ]
    found += [_group(name, slices, configured=False) for name, slices in sorted(by_group.items())]
    return tuple(found)


def _availability(state: AutoscalerState, config: ClusterConfig, slices: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Availability, `until` and reason of each group, as a decision would report them, without the cost of a decision."""
    groups = in_rank_order(config.groups)
    counts = [slices.get(group.name, 0) for group in groups]
    now = Snapshot.model_construct(config=config, now=state.now, slices=state.slices, health=health_of(state, config, state.now))
    headroom = Headroom(now, groups, counts)
    found = {}
    for g, group in enumerate(groups):
        availability, reason = headroom.availability(g, counts[g])
        block = headroom.blocked[g]
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


def _source(state: AutoscalerState, name: str) -> SourceStatus:
    source = state.demand[name]
    return SourceStatus(
        epoch=source.epoch,
        revision=source.revision,
        tasks=len(source.demand.task_ids),
        resync_needed=source.resync_needed,
    )


def _recovery(recovery: Recovery) -> RecoveryStatus:
    workflows = () if recovery.reports_collected else (SLICE_WORKFLOWS,)
    return RecoveryStatus(reason=recovery.reason, since=recovery.since, waiting_for=(*workflows, *recovery.waiting))
