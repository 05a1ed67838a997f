"""The surplus of a group: the slices that a finished plan does not use, the first to go first."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from penstock.core.decision.bins import SliceBin
from penstock.core.decision.fleet import longest_idle
from penstock.core.decision.plan import Plan
from penstock.model.slices import Slice, SliceState

Keeps = Callable[[Slice, int], bool]
"""Whether something keeps a slice, and the number of its group, though the group can spare it."""
_Bins = Sequence[tuple[Slice, SliceBin]]


class Spared(NamedTuple):
    """Slices that a group gives back: on their way, and READY and idle; of the latter at most `most` that are counted on."""

    on_their_way: list[Slice]
    idle: list[Slice]
    most: int


class Surplus:
    """The slices of one group that the plan does not use, the first to go first."""

    def __init__(self, plan: Plan, g: int, *, arriving: _Bins, stalled: Sequence[Slice], ready: _Bins) -> None:
        fleet, counts = plan.fleet, plan.fleet.counts[g]
        self.g, self.group = g, fleet.groups[g]
        self._spare = counts.ready + counts.in_flight - plan.target[g]
        """Slices that serve beyond the target. Stalled slices come on top."""
        self._stalled = {piece.id for piece in stalled}
        free = [piece for piece, each in arriving if not each.used]
        newest = sorted((*stalled, *(piece for piece in free if not piece.returning)), key=fleet.position, reverse=True)
        self.on_their_way = sorted(newest, key=lambda piece: piece.started)
        """Slices in flight that hold no entry, stalled ones too: those not started first, then the newest first."""
        unused = [piece for piece, each in ready if not each.busy and not each.used]
        self.idle = sorted((p for p in unused if p.idle_since and p.state is SliceState.READY), key=longest_idle)
        """READY slices that usage shows idle and that hold no entry, the longest idle first."""
        self.unused = len(free) + len(unused)
        """Slices that hold no entry, stalled ones left out."""

    def serving(self) -> list[Slice]:
        """The slices that could go and that are counted on, the first to go first."""
        return [*(piece for piece in self.on_their_way if piece.id not in self._stalled), *self.idle]

    def spared(self, keeps: Keeps) -> Spared:
        """What the group gives back, unless something keeps it."""
        return spare(self.on_their_way, self._stalled, self.idle, self._spare, lambda piece: keeps(piece, self.g))


def spare(
    on_their_way: Sequence[Slice], stalled: Collection[str], idle: Iterable[Slice], serving: int, keeps: Callable[[Slice], bool]
) -> Spared:
    """Of `serving` slices beyond the target first what is not needed on its way, then what is idle.

    A stalled slice counts towards the target, because it would only be ordered again. But no slice that serves goes because
    a stalled one is there instead.
    """
    every = serving + len(stalled)
    going = []
    for piece in on_their_way:
        is_stalled = piece.id in stalled
        if every > 0 and (is_stalled or serving > 0) and not keeps(piece):
            every -= 1
            serving -= not is_stalled
            going.append(piece)
    most = max(0, serving)
    return Spared(going, list(islice((piece for piece in idle if not keeps(piece)), most)), most)


def surpluses(plan: Plan) -> list[Surplus]:
    """The surplus of every group that opens no slices in this decision: a group that does gives none back."""
    groups = range(len(plan.fleet.groups))
    arriving: list[list[tuple[Slice, SliceBin]]] = [[] for _ in groups]
    ready: list[list[tuple[Slice, SliceBin]]] = [[] for _ in groups]
    stalled: list[list[Slice]] = [[] for _ in groups]
    for item in plan.arriving_slices:
        arriving[item[1].group].append(item)
    for item in plan.ready_slices:
        ready[item[1].group].append(item)
    for piece, g in plan.fleet.stalled:
        stalled[g].append(piece)
    return [
        Surplus(plan, g, arriving=arriving[g], stalled=stalled[g], ready=ready[g])
        for g in groups
        if not plan.opened[g] and (arriving[g] or ready[g] or stalled[g] or g in plan.wanted)
    ]
