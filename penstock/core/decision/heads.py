"""The head of a group: its oldest READY slice, which `protect_first` keeps to the last."""

from collections.abc import Collection
from datetime import datetime

from penstock.contract.names import ordered_at
from penstock.model.slices import Slice, SliceState
from penstock.model.snapshot import Snapshot


def heads(snapshot: Snapshot, groups: Collection[str]) -> dict[str, str]:
    """The id of the head of each of these groups that has a READY slice."""
    oldest: dict[str, tuple[datetime, int, str]] = {}
    for position, piece in enumerate(snapshot.slices if groups else ()):
        if piece.group in groups and piece.state is SliceState.READY and piece.drain is None:
            item = (*age_order(piece, position, snapshot.now), piece.id)
            oldest[piece.group] = min(item, oldest.get(piece.group, item))
    return {name: slice_id for name, (_, _, slice_id) in oldest.items()}


def age_order(piece: Slice, position: int, now: datetime) -> tuple[datetime, int]:
    """How slices compare by age, the oldest first.

    After a recovery the ledger has slices in another order than they were made in. Of those whose age is not known, the first in
    the ledger is the oldest.
    """
    return made_at(piece) or now, position


def made_at(piece: Slice) -> datetime | None:
    """When the slice was made: its id says so, or the cloud did if its id does not."""
    return ordered_at(piece.id) or piece.created_at
