"""What there is at the moment of deciding: groups in rank order, their slices, and the room on each host."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.core.decision.match import Matcher, in_rank_order
from penstock.model.cluster import ScaleGroup
from penstock.model.resources import Vector
from penstock.model.slices import IN_FLIGHT, HostState, HostUsage, Slice, SliceState, SliceUsage
from penstock.model.snapshot import Snapshot

NOTHING: Vector = (-1, -1, -1, -1, -1)
"""The room of a host that may take nothing more, not even a task that needs nothing."""


class HostBin:
    """What is left of one host. `whole` means untouched; `alone` that TPU work does not share it."""

    __slots__ = ("alone", "closed", "cpu", "disk", "gpu", "memory", "owner", "tpu", "whole")

    def __init__(self, owner: "SliceBin", free: Vector, *, whole: bool, alone: bool) -> None:
        self.owner = owner
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = free
        self.whole = whole
        self.alone = alone
        self.closed = free is NOTHING

    def put(self, need: Vector, tasks: int, *, exclusive: bool) -> None:
        """Take tasks in; exclusive work shuts a host that is not shared."""
        if exclusive and self.alone:
            self.shut()
            return
        self.whole = False
        self.cpu -= need[0] * tasks
        self.memory -= need[1] * tasks
        self.disk -= need[2] * tasks
        self.gpu -= need[3] * tasks
        self.tpu -= need[4] * tasks

    def close_below(self, floor: Vector) -> None:
        """Close if less than the floor is left of anything."""
        if self.cpu < floor[0] or self.memory < floor[1] or self.disk < floor[2] or self.gpu < floor[3] or self.tpu < floor[4]:
            self.closed = True

    def shut(self) -> None:
        """Let nothing more in."""
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = NOTHING
        self.whole, self.closed = False, True


class SliceBin:
    """The hosts of one slice.

    `empty` until something is placed, `busy` if something runs there already, `opened` if this decision orders it; `order`
    is its place among slices on their way.
    """

    __slots__ = ("busy", "empty", "group", "hosts", "opened", "order", "used")

    def __init__(self, group: int, *, busy: bool = False) -> None:
        self.group = group
        self.order = -1
        self.opened = False
        self.hosts: list[HostBin] = []
        self.busy = busy
        self.empty = not busy
        self.used = False


class SliceCounts:
    """How many slices of one group are in which part of their lifecycles."""

    __slots__ = ("busy", "in_flight", "leaving", "ready", "stalled")

    def __init__(self) -> None:
        self.ready = self.busy = self.in_flight = self.stalled = self.leaving = 0

    @property
    def total(self) -> int:
        """All that count against maximum, cluster and pool."""
        return self.ready + self.in_flight + self.stalled + self.leaving


class Fleet:
    """The snapshot as the core computes with it. Nothing here changes; plans work on rooms made from it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.groups: list[ScaleGroup] = in_rank_order(snapshot.config.groups)
        self.number = {group.name: g for g, group in enumerate(self.groups)}
        self.matcher = Matcher(self.groups)
        self.held = [SliceCounts() for _ in self.groups]
        self.deadlines: list[datetime] = []
        self._placeable: list[tuple[Slice, int, SliceUsage | None]] = []
        for piece in snapshot.slices:
            g = self.number.get(piece.group)
            if g is not None:
                self._count(piece, g)

    def _count(self, piece: Slice, g: int) -> None:
        held = self.held[g]
        if piece.state in IN_FLIGHT:
            if self._stalled(piece, g):
                held.stalled += 1
                return
            held.in_flight += 1
            self._placeable.append((piece, g, None))
        elif piece.state is SliceState.READY:
            held.ready += 1
            usage = self._known_usage(piece, g)
            if usage is None or not all(host.idle for host in usage):
                held.busy += 1
            if usage is not None:
                self._placeable.append((piece, g, usage))
        else:
            held.leaving += 1

    def _stalled(self, piece: Slice, g: int) -> bool:
        """Queued at the provider, or REQUESTING beyond patience: on its way, but nothing to wait for."""
        if piece.queued:
            return True
        if piece.state is not SliceState.REQUESTING or piece.since is None:
            return False
        return self._is_over(piece.since, self.snapshot.config.patience_of(self.groups[g]))

    def _known_usage(self, piece: Slice, g: int) -> SliceUsage | None:
        """Usage per host; a slice that just became READY and was never reported on counts as idle for its grace."""
        hosts = self.groups[g].hosts_per_slice
        usage = self.snapshot.usage.get(piece.id)
        if usage is None:
            grace = self.snapshot.config.ready_grace_seconds
            return None if piece.since is None or self._is_over(piece.since, grace) else (HostUsage(),) * hosts
        if len(usage) == 1 and usage[0].reserved is None:
            return usage * hosts
        return usage if len(usage) == hosts else None

    def _is_over(self, since: datetime, seconds: float) -> bool:
        end = since + timedelta(seconds=seconds)
        if end > self.snapshot.now:
            self.deadlines.append(end)
        return end <= self.snapshot.now

    def ready_rooms(self) -> list[tuple[Slice, SliceBin]]:
        """READY slices of known usage, with the room they have left."""
        found = []
        for piece, g, usage in self._placeable:
            if usage is not None:
                room = SliceBin(g, busy=not all(host.idle for host in usage))
                room.hosts = [self._host_room(room, host) for host in usage]
                room.empty = all(host.whole for host in room.hosts)
                found.append((piece, room))
        return found

    def arriving(self) -> list[Slice]:
        """Slices on their way that hold demand, in the order in which they were ordered."""
        return [piece for piece, _, usage in self._placeable if usage is None]

    def flight_rooms(self) -> list[SliceBin]:
        """Slices on their way, whole, in the order in which they were ordered."""
        return [self.new_room(g) for _, g, usage in self._placeable if usage is None]

    def total_rooms(self) -> tuple[list[SliceBin], list[SliceBin]]:
        """READY slices and slices on their way, as if nothing ran there: what standing requests are measured against."""
        ready = [self.number[s.group] for s in self.snapshot.slices if s.state is SliceState.READY and s.group in self.number]
        return [self.new_room(g) for g in ready], self.flight_rooms()

    def new_room(self, g: int) -> SliceBin:
        """A whole slice of that group."""
        group = self.groups[g]
        room = SliceBin(g)
        room.hosts = [HostBin(room, group.host.vector, whole=True, alone=group.hosts_alone) for _ in range(group.hosts_per_slice)]
        return room

    def _host_room(self, room: SliceBin, usage: HostUsage) -> HostBin:
        group = self.groups[room.group]
        free = free_of(group.host.vector, usage)
        return HostBin(room, free, whole=usage.idle and free == group.host.vector, alone=group.hosts_alone)

    def ready_hosts_by_ref(self, rooms: Sequence[tuple[Slice, SliceBin]]) -> dict[tuple[str, int], HostBin]:
        """READY hosts by slice id and position, to keep partly running gangs apart."""
        return {(piece.id, i): host for piece, room in rooms for i, host in enumerate(room.hosts)}


def free_of(offer: Vector, usage: HostUsage) -> Vector:
    """What a host has left: all of it idle, none of it degraded, or busy by an amount nobody stated."""
    if usage.state is HostState.DEGRADED:
        return NOTHING
    if usage.reserved is None:
        return offer if usage.idle else NOTHING
    cpu, memory, disk, gpu, tpu = (max(0, have - held) for have, held in zip(offer, usage.reserved.vector, strict=True))
    return (cpu, memory, disk, gpu, tpu)
