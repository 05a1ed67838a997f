"""Slices that a configuration makes outdated: how many there are in all, and how many of them are replaced at a time."""

from collections import Counter
from datetime import datetime

from penstock.contract.effects import OutdatedEffect
from penstock.core.decision.fleet import Fleet
from penstock.model.cluster import ClusterConfig
from penstock.model.elasticity import share_of
from penstock.model.slices import DrainCause
from penstock.model.snapshot import Snapshot

_OUTDATED = (DrainCause.DEGRADED, DrainCause.EXPIRY, DrainCause.DRIFT)


def outdating(before: Snapshot, after: Snapshot) -> tuple[OutdatedEffect, ...]:
    """What changes in the slices that are to be replaced, by group and cause. Those that an operator keeps do not count."""
    old, new = _outdated(before), _outdated(after)
    keys = sorted(key for key in {*old, *new} if old[key] != new[key])
    return tuple(_effect(after, group, cause, old[group, cause], new[group, cause]) for group, cause in keys)


def _outdated(snapshot: Snapshot) -> Counter[tuple[str, DrainCause]]:
    fleet = Fleet(snapshot)
    groups = {piece.id: piece.group for piece in snapshot.slices}
    reasons = fleet.replacements.reasons.items()
    return Counter((groups[slice_id], reason.cause) for slice_id, reason in reasons if reason.cause in _OUTDATED)


def _effect(snapshot: Snapshot, group: str, cause: DrainCause, before: int, after: int) -> OutdatedEffect:
    budget = min(_share(snapshot, None), _share(snapshot, group))
    opens_at = _opens_at(snapshot.config, group, snapshot.now)
    return OutdatedEffect(group=group, cause=cause, before=before, after=after, at_once=budget, opens_at=opens_at)


def _share(snapshot: Snapshot, group: str | None) -> int:
    """The `max_unavailable` of a group, or of the cluster, in slices."""
    slices = sum(piece.state.was_ready for piece in snapshot.slices if group in (None, piece.group))
    found = snapshot.config.group(group) if group is not None else None
    return share_of(snapshot.config.max_unavailable if found is None else found.max_unavailable, slices)


def _opens_at(config: ClusterConfig, name: str, now: datetime) -> datetime | None:
    """When the windows of the cluster and of the group that are closed open."""
    group = config.group(name)
    windows = [window for window in (config.window, group.window if group else None) if window is not None]
    edges = (window.next_edge(now) for window in windows if not window.is_open(now))
    return max((edge for edge in edges if edge is not None), default=None)
