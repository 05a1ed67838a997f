"""The plan of one evaluation: where entries were placed, and which slices were opened for them."""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import Fleet, HostBin, SliceBin
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.match import Candidates
from penstock.model.decision import Cause, Tier
from penstock.model.resources import Vector


class Unit(NamedTuple):
    """Slices that are launched together or not at all: one slice, or all slices of a gang; repeated `times` times."""

    parts: tuple[tuple[int, int], ...]
    times: int
    cause: Cause


class Assignment(NamedTuple):
    """Entries `first` to `first + entries` of a run, on slices of one group; `opened` if this decision orders them."""

    run: int
    first: int
    entries: int
    group: int
    tier: Tier
    opened: bool


class Plan:
    """Bins, headroom and results of one evaluation. Slices in flight stay in the order in which they were ordered.

    That order makes a decision stable: once it is carried out, the next evaluation finds the slices in the order in which it
    opened them, places every entry where it was placed before, and launches nothing more.
    """

    def __init__(self, fleet: Fleet, headroom: Headroom, floor: Vector) -> None:
        """`floor` is the least that any entry needs: a host with less in any dimension is skipped from then on."""
        self.fleet = fleet
        self.headroom = headroom
        self.floor = floor
        self.assignments: list[Assignment] = []
        self.unplaced: list[tuple[int, int, int]] = []
        self.units: list[Unit] = []
        self.required = [0] * len(fleet.groups)
        self.opened = [0] * len(fleet.groups)
        self.target = [0] * len(fleet.groups)
        """Slices that each group should have; set once the spares are known."""
        self.ready: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self.in_flight_hosts: list[HostBin] = []
        self.in_flight_slices: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self._next_open = [0]
        self._ready_hosts: dict[tuple[int, ...], list[HostBin]] = {}
        self._orders = 0

    def add_ready(self, bins: Iterable[SliceBin]) -> None:
        """Add READY slices, in the order in which they are listed."""
        for slice_bin in bins:
            self.ready[slice_bin.group].append(slice_bin)

    def add_in_flight(self, bins: Iterable[SliceBin], *, opened: bool = True) -> None:
        """Add slices in flight, in the order in which they were ordered; `opened` by this decision or before it."""
        for slice_bin in bins:
            slice_bin.order = self._orders
            slice_bin.opened = slice_bin.opened or opened
            self._orders += 1
            self.in_flight_slices[slice_bin.group].append(slice_bin)
            for host in slice_bin.hosts:
                self._append_in_flight(host)

    def open(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause) -> None:
        """Order whole slices on which nothing is placed yet, as units."""
        self.charge(parts, times, cause)
        for g, slices in parts * times:
            self.add_in_flight(self.fleet.new_bin(g) for _ in range(slices))

    def charge(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause) -> None:
        """Order slices without adding bins: slices that no later entry may use."""
        for g, slices in parts:
            self.headroom.order(g, slices * times)
            self.opened[g] += slices * times
        self.units.append(Unit(parts, times, cause))

    def ready_hosts(self, candidates: Candidates) -> list[HostBin]:
        """READY hosts of the candidates that are not closed, preferred groups first."""
        if candidates.order not in self._ready_hosts:
            bins = (slice_bin for g in candidates.order for slice_bin in self.ready[g])
            self._ready_hosts[candidates.order] = [host for slice_bin in bins for host in slice_bin.hosts if not host.closed]
        return self._ready_hosts[candidates.order]

    def first_open(self, i: int) -> int:
        """The first position from `i` on in `in_flight_hosts` that is not closed; the list's length if there is none.

        Union-find with path halving: closed positions are skipped in almost constant time.
        """
        following = self._next_open
        while following[i] != i:
            following[i] = following[following[i]]
            i = following[i]
        return i

    def close_in_flight(self, i: int) -> None:
        """Skip the host at this position from now on."""
        self._next_open[i] = i + 1

    def take(self, host: HostBin, cursor: ShapeCursor, tasks: int) -> None:
        """Place tasks on a host."""
        owner = host.owner
        owner.empty = False
        if not owner.used:
            owner.used = True
            self.required[owner.group] += not owner.busy
        host.put(cursor.need, tasks, exclusive=cursor.exclusive)
        host.close_below(self.floor)

    def take_whole(self, slice_bin: SliceBin) -> None:
        """Give a whole slice to a gang."""
        self.required[slice_bin.group] += 1
        slice_bin.used = True
        slice_bin.empty = False
        for host in slice_bin.hosts:
            host.shut()

    def assign(self, run: int, first: int, count: int, g: int, tier: Tier, *, opened: bool) -> None:
        """Record where entries were placed, merged with preceding entries that were placed the same way."""
        if self.assignments:
            last = self.assignments[-1]
            if last.run == run and last.first + last.entries == first and last[3:] == (g, tier, opened):
                self.assignments[-1] = last._replace(entries=last.entries + count)
                return
        self.assignments.append(Assignment(run, first, count, g, tier, opened))

    def _append_in_flight(self, host: HostBin) -> None:
        if not host.closed:
            self.in_flight_hosts.append(host)
            self._next_open.append(len(self.in_flight_hosts))
