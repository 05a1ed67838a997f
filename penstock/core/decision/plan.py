"""The decision in the making: what has been placed where, and which slices have been opened for it."""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import Fleet, HostBin, SliceBin
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.match import Candidates
from penstock.model.decision import Cause, Tier
from penstock.model.resources import Vector


class Unit(NamedTuple):
    """Slices that are ordered together or not at all, `times` over: one slice, or all that a gang needs."""

    parts: tuple[tuple[int, int], ...]
    times: int
    cause: Cause


class Assignment(NamedTuple):
    """Entries `first` to `first + entries` of a run, on one group's capacity; `opened` if this decision orders it."""

    run: int
    first: int
    entries: int
    group: int
    tier: Tier
    opened: bool


class Plan:
    """Rooms, headroom and results of one evaluation. Slices on their way are kept in the order they were ordered.

    That order makes a decision stable: carried out, it finds its own slices in the order in which it opened them, puts
    every entry where it did before, and has nothing left to launch.
    """

    def __init__(self, fleet: Fleet, headroom: Headroom, floor: Vector) -> None:
        """`floor` is the least any entry needs: a host with less of anything is passed over from then on."""
        self.fleet = fleet
        self.headroom = headroom
        self.floor = floor
        self.assignments: list[Assignment] = []
        self.unplaced: list[tuple[int, int, int]] = []
        self.units: list[Unit] = []
        self.required = [0] * len(fleet.groups)
        self.opened = [0] * len(fleet.groups)
        self.ready: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self.flight: list[HostBin] = []
        self.flight_slices: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self._next_open = [0]
        self._ready_hosts: dict[tuple[int, ...], list[HostBin]] = {}
        self._orders = 0

    def add_ready(self, rooms: Iterable[SliceBin]) -> None:
        """READY slices, in the order they are listed."""
        for room in rooms:
            self.ready[room.group].append(room)

    def add_flight(self, rooms: Iterable[SliceBin], *, opened: bool = True) -> None:
        """Slices on their way, in the order they were ordered; `opened` by this decision or before it."""
        for room in rooms:
            room.order = self._orders
            room.opened = room.opened or opened
            self._orders += 1
            self.flight_slices[room.group].append(room)
            for host in room.hosts:
                self._append_flight(host)

    def open(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause) -> None:
        """Order whole slices that hold nothing yet, as units."""
        self.charge(parts, times, cause)
        for g, slices in parts * times:
            self.add_flight(self.fleet.new_room(g) for _ in range(slices))

    def charge(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause) -> None:
        """Order slices without rooms of their own: those filled to the brim as they are opened."""
        for g, slices in parts:
            self.headroom.order(g, slices * times)
            self.opened[g] += slices * times
        self.units.append(Unit(parts, times, cause))

    def ready_hosts(self, candidates: Candidates) -> list[HostBin]:
        """READY hosts of the candidates that may take something, preferred groups first."""
        if candidates.order not in self._ready_hosts:
            rooms = (room for g in candidates.order for room in self.ready[g])
            self._ready_hosts[candidates.order] = [host for room in rooms for host in room.hosts if not host.closed]
        return self._ready_hosts[candidates.order]

    def first_open(self, i: int) -> int:
        """The first position from `i` on, in `flight`, whose host may take something; its length if there is none."""
        following = self._next_open
        while following[i] != i:
            following[i] = following[following[i]]
            i = following[i]
        return i

    def close_flight(self, i: int) -> None:
        """Pass over the host at this position from now on."""
        self._next_open[i] = i + 1

    def take(self, host: HostBin, want: ShapeCursor, tasks: int) -> None:
        """Put tasks on a host."""
        owner = host.owner
        owner.empty = False
        if not owner.used:
            owner.used = True
            self.required[owner.group] += not owner.busy
        host.put(want.need, tasks, exclusive=want.exclusive)
        host.close_below(self.floor)

    def take_whole(self, room: SliceBin) -> None:
        """Give a whole slice to a gang."""
        self.required[room.group] += 1
        room.used = True
        room.empty = False
        for host in room.hosts:
            host.shut()

    def assign(self, run: int, first: int, count: int, g: int, tier: Tier, *, opened: bool) -> None:
        """Record where entries went, as one with their neighbours where they went the same way."""
        if self.assignments:
            last = self.assignments[-1]
            if last.run == run and last.first + last.entries == first and last[3:] == (g, tier, opened):
                self.assignments[-1] = last._replace(entries=last.entries + count)
                return
        self.assignments.append(Assignment(run, first, count, g, tier, opened))

    def _append_flight(self, host: HostBin) -> None:
        if not host.closed:
            self.flight.append(host)
            self._next_open.append(len(self.flight))
