"""Consolidation: busy slices of a finished plan that could be emptied, because what runs on them fits on other busy slices.

A slice with work on it costs its price for as long as any of that work runs. The dearest slice is emptied first, then the one
with the least to move. Its work goes to slices that stay anyway, then to cheaper ones, and of these where the least room is
left, so that further slices may be emptied as well.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from penstock.core.decision.bins import SliceBin
from penstock.core.decision.floors import StandingResult
from penstock.core.decision.giving_groups import GivingGroups
from penstock.core.decision.plan import Plan
from penstock.core.decision.protections import takes_no_work
from penstock.core.decision.receiving_hosts import (
    HOST_STEPS,
    Load,
    ReceivingHost,
    ReceivingHosts,
    Sizes,
    most_room,
    named_loads,
    rooms_of,
)
from penstock.model.cluster import ScaleGroup
from penstock.model.elasticity import Consolidation
from penstock.model.resources import DIMENSIONS, Vector
from penstock.model.runs import HostRef
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.wording import listed

SEARCH_STEPS = 250_000
"""Steps of searching hosts for loads, some hundredths of a second. What was not tried by then stays where it is."""


class Move(NamedTuple):
    """A slice to empty, the hosts that can take the load of each of its busy hosts, and the money per hour that it saves."""

    piece: Slice
    hosts: tuple[HostRef, ...]
    saving: float

    @property
    def receivers(self) -> tuple[str, ...]:
        """The ids of the slices that receive its load, each once, in the order of its hosts."""
        return tuple(dict.fromkeys(host.slice_id for host in self.hosts))

    @property
    def detail(self) -> str:
        """What is saved, and where the work fits."""
        return f"saves {self.saving:.2f} an hour: its work fits on {listed(self.receivers)}"


class Consolidated(NamedTuple):
    """Slices to empty; drains for consolidation to cancel; and when time alone changes either.

    `outgrown` are slices under way to be emptied whose load fits nowhere any more, because demand took the room.
    """

    moves: tuple[Move, ...] = ()
    outgrown: tuple[Slice, ...] = ()
    next_at: datetime | None = None


class _Giver(NamedTuple):
    """A slice whose load is named, the group by number, and its loads, the largest first."""

    piece: Slice
    g: int
    loads: tuple[Load, ...]
    size: int


def consolidations(
    plan: Plan, standing: StandingResult, *, leaving: Collection[str], most: int, most_of: Mapping[str, int] | None = None
) -> Consolidated:
    """Up to `most` slices of a finished plan that could be emptied to save money, of each group up to its number in `most_of`.

    `leaving` are the ids of slices that this decision drains, or that wait to be replaced: they neither give nor receive.
    """
    settings = plan.fleet.snapshot.config.consolidation
    if settings is None or plan.fleet.effort.is_spent:
        return Consolidated()
    return _Search(plan, standing, settings, leaving).result(most, most_of or {})


class _Search:
    """The slices that may give and receive load, and the search for moves."""

    def __init__(self, plan: Plan, standing: StandingResult, settings: Consolidation, leaving: Collection[str]) -> None:
        self._plan, self._fleet, self._snapshot = plan, plan.fleet, plan.fleet.snapshot
        self._settle = timedelta(seconds=settings.settle_seconds)
        self._groups = GivingGroups(plan, standing, settings, leaving)
        self._sizes = Sizes(plan.fleet.layout)
        self._kinds = kinds_of(plan.fleet.groups)
        self._moments: list[datetime] = []
        self._stale_at: list[datetime] = []
        gone = frozenset(leaving)
        self._here = [item for item in plan.ready_slices if self._may_take_part(item[0], gone)]

    def result(self, most: int, most_of: Mapping[str, int]) -> Consolidated:
        """Slices under way to be emptied keep their room first: what no longer fits is called off, and nothing else begins."""
        givers, under_way = self._in_order(self._givers()), self._in_order(self._under_way())
        if not givers and not under_way:
            return self._found((), ())
        self._moments += self._stale_at
        hosts = self._receiving_hosts(givers, {load.need for giver in (*givers, *under_way) for load in giver.loads})
        both = 1 | 1 << len(self._fleet.groups)
        outgrown, received = [], set[str]()
        for giver in under_way:
            found = hosts.receive(giver.piece.id, giver.loads, both << self._kinds[giver.g])
            received |= {host.slice_id for host in found or ()}
            outgrown += [giver.piece] if found is None and not hosts.is_spent else []
        if outgrown:
            return self._found((), self._within_maximums([piece for piece in outgrown if piece.reclaimable]))
        waiting = [giver for giver in givers if giver.piece.id not in received]
        return self._found(self._moves(waiting, hosts, most, most_of), ())

    def _found(self, moves: Sequence[Move], outgrown: Sequence[Slice]) -> Consolidated:
        moments = [moment for moment in (*self._moments, *self._groups.moments) if moment > self._snapshot.now]
        return Consolidated(tuple(moves), tuple(outgrown), min(moments, default=None))

    def _moves(self, givers: Sequence[_Giver], hosts: ReceivingHosts, most: int, most_of: Mapping[str, int]) -> list[Move]:
        """The moves, one after the other: a slice that received load keeps it."""
        moves: list[Move] = []
        received: set[str] = set()
        left = dict(most_of)
        for piece, g, loads, _ in givers:
            if len(moves) >= most or hosts.is_spent:
                break
            if piece.id in received or not left.get(piece.group, 1) or not self._groups.may_give(g):
                continue
            found = hosts.receive(piece.id, loads, 1 << self._kinds[g])
            saving = self._groups.saving(g)
            if found is None or saving is None:
                continue
            hosts.remove(piece.id)
            self._groups.give(g)
            received |= {host.slice_id for host in found}
            left |= {piece.group: left[piece.group] - 1} if piece.group in left else {}
            moves.append(Move(piece, found, saving))
        return moves

    def _may_take_part(self, piece: Slice, leaving: Collection[str]) -> bool:
        """READY, named by a report that is not stale, and not about to leave."""
        self._fleet.effort.spend(HOST_STEPS)
        if piece.state is not SliceState.READY or piece.returning or piece.id in leaving or piece.id not in self._snapshot.usage:
            return False
        return piece.notice is None and not takes_no_work(piece) and not piece.is_unclaimed and not self._is_stale(piece)

    def _is_stale(self, piece: Slice) -> bool:
        stale_at = self._snapshot.stale_at.get(piece.id)
        self._stale_at += [] if stale_at is None else [stale_at]
        return stale_at is not None and stale_at <= self._snapshot.now

    def _givers(self) -> Iterator[_Giver]:
        """Slices that could be emptied, if there is room for what runs on them."""
        fleet = self._fleet
        for piece, slice_bin in self._here:
            g = slice_bin.group
            if slice_bin.used or not slice_bin.busy or piece.id in fleet.protected or not self._groups.may_give(g):
                continue
            giver = self._giver(piece, g, self._most_room[self._kinds[g]])
            if giver.loads and not self._is_head(piece, g) and not self._settles(piece):
                yield giver

    @cached_property
    def _most_room(self) -> dict[int, Vector]:
        """The most that a host of a busy slice has left, by kind: what needs more is not looked at any further."""
        bins: dict[int, list[SliceBin]] = {kind: [] for kind in self._kinds}
        for _, slice_bin in self._here:
            if slice_bin.busy:
                bins[self._kinds[slice_bin.group]].append(slice_bin)
        return {kind: most_room(of_kind) for kind, of_kind in bins.items()}

    def _giver(self, piece: Slice, g: int, most: Vector) -> _Giver:
        loads = named_loads(self._snapshot.usage.get(piece.id, ()), self._fleet.groups[g], most)
        self._fleet.effort.spend(HOST_STEPS * len(loads))
        if len(loads) == 1:
            return _Giver(piece, g, loads, self._sizes.of(loads[0].need))
        by_size = sorted(loads, key=lambda load: (-self._sizes.of(load.need), load.host))
        return _Giver(piece, g, tuple(by_size), sum(self._sizes.of(load.need) for load in loads))

    def _is_head(self, piece: Slice, g: int) -> bool:
        return self._fleet.groups[g].protect_first and piece.id == self._fleet.head(g)

    def _settles(self, piece: Slice) -> bool:
        """Whether it received load, became READY or came back from a drain too recently to be emptied."""
        ends = [moment + self._settle for moment in (piece.received_at, piece.since, piece.unconfirmed_at) if moment is not None]
        later = [end for end in ends if end > self._snapshot.now]
        self._moments += later
        return bool(later)

    def _under_way(self) -> Iterator[_Giver]:
        """Slices that drain for consolidation, with the load that is still there."""
        for piece in self._snapshot.slices:
            g = self._fleet.number.get(piece.group)
            if piece.drain is None or g is None or piece.drain.known_cause is not DrainCause.CONSOLIDATION:
                continue
            giver = self._giver(piece, g, self._fleet.groups[g].host.vector)
            if giver.loads and piece.state.was_ready and not piece.confirmed_empty:
                yield giver

    def _in_order(self, givers: Iterator[_Giver]) -> list[_Giver]:
        """The dearest first, then the least loaded, then the newest."""
        groups, position = self._fleet.groups, self._fleet.position
        return sorted(givers, key=lambda each: (-groups[each.g].price, each.size, -position(each.piece)))

    def _receiving_hosts(self, givers: Sequence[_Giver], needs: Collection[Vector]) -> ReceivingHosts:
        """Hosts with room for the least of the loads. Those of slices that stay anyway come first."""
        least, may_go = _least(needs), {giver.piece.id for giver in givers}
        hosts = (host for piece, each in self._here for host in self._hosts_of(piece, each, least, may_go=piece.id in may_go))
        return ReceivingHosts(self._fleet.layout, hosts, self._fleet.effort, most_steps=SEARCH_STEPS)

    def _hosts_of(self, piece: Slice, slice_bin: SliceBin, least: Vector, *, may_go: bool) -> Iterator[ReceivingHost]:
        """The hosts of a busy slice: one that is idle may go soon. But what is under way to one may still get there."""
        group = self._fleet.groups[slice_bin.group]
        if not slice_bin.busy:
            if piece.received_at is None or piece.received_at + self._settle <= self._snapshot.now:
                return
            self._moments.append(piece.received_at + self._settle)
        kinds = 1 << self._kinds[slice_bin.group] + (0 if slice_bin.busy else len(self._fleet.groups))
        self._fleet.effort.spend(HOST_STEPS * len(slice_bin.hosts))
        for i, room in rooms_of(slice_bin, self._snapshot.usage[piece.id], group, least):
            order = (may_go, group.price, self._sizes.of(room.free), self._fleet.position(piece), i)
            yield ReceivingHost(HostRef(piece.id, i), room, kinds, order)

    def _within_maximums(self, outgrown: Sequence[Slice]) -> list[Slice]:
        """Those that may serve again without exceeding the maximum of their group or of the cluster."""
        fleet, most = self._fleet, self._snapshot.config.max_slices
        back = [counts.ready + counts.in_flight + counts.stalled + counts.unclaimed for counts in fleet.counts]
        serving = fleet.serving
        found = []
        for piece in outgrown:
            g = fleet.number[piece.group]
            if back[g] < fleet.groups[g].max_slices and (most is None or serving < most):
                back[g] += 1
                serving += 1
                found.append(piece)
        return found


def _least(needs: Collection[Vector]) -> Vector:
    """The least of every dimension, that no host may have less of to receive any load."""
    cpu, memory, disk, gpu, tpu = (min(map(itemgetter(d), needs)) for d in range(len(DIMENSIONS)))
    return (cpu, memory, disk, gpu, tpu)


def kinds_of(groups: Sequence[ScaleGroup]) -> list[int]:
    """The kind of each group, a number: what constraints allow on one group they allow on all of its kind, if large enough."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(_kind(group), len(numbers)) for group in groups]


def _kind(group: ScaleGroup) -> object:
    attributes = tuple((name, type(value).__name__, value) for name, value in sorted(group.all_attributes.items()))
    return group.device, attributes, group.hosts_alone
