"""Patience: until when a REQUESTING or queued slice holds demand, and the block on groups with overdue queued slices."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.slices import Availability, Health, Slice, SliceState


def patience_end(config: ClusterConfig, group: ScaleGroup, piece: Slice) -> datetime | None:
    """When a slice in flight stops holding demand; None if time alone does not stop it."""
    waits = piece.queued or piece.state is SliceState.REQUESTING
    return piece.since + timedelta(seconds=config.patience_of(group)) if waits and piece.since is not None else None


def health_with_queues(
    config: ClusterConfig, slices: Iterable[Slice], health: Mapping[str, Health], now: datetime
) -> dict[str, Health]:
    """Every group's health. A group with slices queued beyond patience is blocked until the queue moves.

    Without the block, every evaluation would add one more order to a queue in which that demand already waits.
    """
    found = dict(health)
    queued = [piece for piece in slices if piece.queued and piece.state.in_flight]
    groups = {group.name: group for group in config.groups} if queued else {}
    known = [(groups[piece.group], piece) for piece in queued if piece.group in groups]
    waiting = Counter(group.name for group, piece in known if _is_over(config, group, piece, now))
    for name, count in waiting.items():
        if not is_blocking(found.get(name), now):
            reason = f"{count} of its slices {'waits' if count == 1 else 'wait'} in the cloud's queue"
            found[name] = Health(availability=Availability.BACKOFF, reason=reason)
    return found


def _is_over(config: ClusterConfig, group: ScaleGroup, piece: Slice, now: datetime) -> bool:
    end = patience_end(config, group, piece)
    return end is not None and end <= now


def is_blocking(health: Health | None, now: datetime) -> bool:
    """Whether this health keeps a group from adding slices now."""
    if health is None or health.availability is Availability.AVAILABLE:
        return False
    return health.until is None or health.until > now
