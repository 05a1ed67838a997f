"""Slices above a maximum that was lowered, of their group or of the cluster: they drain before anything is placed."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.model.cluster import ScaleGroup
from penstock.model.slices import Slice
from penstock.model.snapshot import Snapshot

REMOVED = -1
"""The number of a group that is not configured any more."""


class Kind(IntEnum):
    """Kinds of slices on which nothing works, in the order in which they go."""

    NOT_JOINED = 0
    RESERVED = 1
    """It is on its way to replace another slice."""
    NOT_STARTED = 2
    ON_ITS_WAY = 3
    IDLE = 4


_NO_CAPACITY = (Kind.NOT_JOINED, Kind.RESERVED)
"""Kinds of slices that do not count towards the minimum of their group."""


class MayGo(NamedTuple):
    """A slice that may leave at once, and the number of its group."""

    kind: Kind
    piece: Slice
    group: int


class Have(NamedTuple):
    """Slices that are not leaving: those of each group, those of them that count towards its minimum, and all of the cluster."""

    counted: Sequence[int]
    serving: Sequence[int]
    total: int


def above_maximums(snapshot: Snapshot, groups: Sequence[ScaleGroup], have: Have, may_go: Sequence[MayGo]) -> list[Slice]:
    """The slices by which groups exceed their maximum, then those by which the cluster exceeds its own.

    No group falls below its minimum for the cluster's sake: the minimums fit in the cluster's maximum together.
    """
    ordered = _first_to_go_first(snapshot, groups, may_go)
    above = [max(0, count - group.max_slices) for count, group in zip(have.counted, groups, strict=True)]
    serving = list(have.serving)
    going: list[Slice] = []
    staying: list[MayGo] = []
    for each in ordered:
        if each.group == REMOVED or not above[each.group]:
            staying.append(each)
            continue
        above[each.group] -= 1
        serving[each.group] -= each.kind not in _NO_CAPACITY
        going.append(each.piece)
    most = snapshot.config.max_slices
    left = 0 if most is None else have.total - len(going) - most
    for kind, piece, g in staying:
        if left <= 0:
            break
        if g != REMOVED and kind not in _NO_CAPACITY:
            if serving[g] <= groups[g].min_slices:
                continue
            serving[g] -= 1
        left -= 1
        going.append(piece)
    return going


def _first_to_go_first(snapshot: Snapshot, groups: Sequence[ScaleGroup], may_go: Sequence[MayGo]) -> list[MayGo]:
    """By kind: on its way, the newest goes first; idle, the longest idle, and the dearer of equals.

    Of each kind, slices of removed groups go before the others: nothing can use them.
    """
    position = {piece.id: i for i, piece in enumerate(snapshot.slices)}

    def order(each: MayGo) -> tuple[Kind, bool, float, float, str]:
        kind, piece, g = each
        age = piece.idle_since.timestamp() if kind is Kind.IDLE and piece.idle_since is not None else -position[piece.id]
        price = (piece.left.price_per_hour if piece.left else None) if g == REMOVED else groups[g].price
        return (kind, g != REMOVED, age, -(price or 0.0), piece.id)

    return sorted(may_go, key=order)
