"""Slices that operators and controllers protect, and idle slices that are hard to get back: which they are, and until when."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from penstock.model.cluster import ScaleGroup
from penstock.model.slices import Slice, SliceUsage
from penstock.model.snapshot import Snapshot


def is_protected(piece: Slice, usage: SliceUsage, now: datetime) -> bool:
    """Whether no decision may drain the slice, whatever the cause: an operator keeps it, or its controller asked for that.

    The cloud's notices, losses and drains that operators order are not held up.
    """
    kept = piece.kept_until is not None and piece.kept_until > now
    return kept or any(host.do_not_disrupt for host in usage)


def takes_no_work(piece: Slice) -> bool:
    """Whether nothing new is placed on the slice: it counts as in use, with no room left."""
    return piece.cordoned


def protected_slices(snapshot: Snapshot) -> Collection[str]:
    """The ids of all protected slices."""
    usage, now = snapshot.usage, snapshot.now
    return frozenset(piece.id for piece in snapshot.slices if is_protected(piece, usage.get(piece.id, ()), now))


def protection_ends(snapshot: Snapshot) -> Iterator[datetime]:
    """When operators no longer keep slices."""
    ends = (piece.kept_until for piece in snapshot.slices)
    return (end for end in ends if end is not None and end > snapshot.now)


def held_after_stockout(snapshot: Snapshot, group: ScaleGroup) -> datetime | None:
    """Until when idle slices of the group are kept because it was out of stock; None if they are not."""
    last = snapshot.stockouts.get(group.name)
    if last is None or group.hold_after_stockout_seconds is None:
        return None
    end = last + timedelta(seconds=group.hold_after_stockout_seconds)
    return end if end > snapshot.now else None
