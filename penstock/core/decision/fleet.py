"""`Fleet`, the snapshot indexed for placing: groups in rank order, slice counts, bins of free host resources."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

from penstock.core.decision.match import Matcher, in_rank_order
from penstock.core.decision.patience import patience_end
from penstock.model.cluster import ScaleGroup
from penstock.model.resources import Vector
from penstock.model.slices import HostState, HostUsage, Slice, SliceState, SliceUsage
from penstock.model.snapshot import Snapshot

NOTHING: Vector = (-1, -1, -1, -1, -1)
"""Free resources of a closed host: below zero, so that even a task that needs nothing does not fit."""


class HostBin:
    """Free resources of one host. A `whole` host is unused; on an `alone` host, TPU work shares with nothing."""

    __slots__ = ("alone", "closed", "cpu", "disk", "gpu", "memory", "owner", "tpu", "whole")

    def __init__(self, owner: "SliceBin", free: Vector, *, whole: bool, alone: bool) -> None:
        self.owner = owner
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = free
        self.whole = whole
        self.alone = alone
        self.closed = free is NOTHING

    def put(self, need: Vector, tasks: int, *, exclusive: bool) -> None:
        """Place tasks; exclusive work closes a host that is not shared."""
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
        """Close the host if less than the floor is left in any dimension."""
        if self.cpu < floor[0] or self.memory < floor[1] or self.disk < floor[2] or self.gpu < floor[3] or self.tpu < floor[4]:
            self.closed = True

    def shut(self) -> None:
        """Close the host for good."""
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = NOTHING
        self.whole, self.closed = False, True


class SliceBin:
    """The hosts of one slice.

    `empty` until an entry is placed on it, `busy` if work already runs on it, `opened` if this decision orders it. `order` is
    its position among the slices in flight.
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
    """The slices of one group, counted by lifecycle phase."""

    __slots__ = ("busy", "in_flight", "leaving", "ready", "stalled")

    def __init__(self) -> None:
        self.ready = self.busy = self.in_flight = self.stalled = self.leaving = 0

    @property
    def total(self) -> int:
        """All slices that count against the group's maximum, the cluster's and the pool."""
        return self.ready + self.in_flight + self.stalled + self.leaving


class Fleet:
    """The snapshot, indexed. It never changes; plans work on bins made from it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.groups: list[ScaleGroup] = in_rank_order(snapshot.config.groups)
        self.number = {group.name: g for g, group in enumerate(self.groups)}
        self.matcher = Matcher(self.groups)
        self.counts = [SliceCounts() for _ in self.groups]
        self.deadlines: list[datetime] = []
        """Times at which a slice counts differently without any event: when patience or `ready_grace` ends."""
        self._placeable: list[tuple[Slice, int, SliceUsage | None]] = []
        for piece in snapshot.slices:
            g = self.number.get(piece.group)
            if g is not None:
                self._count(piece, g)

    def _count(self, piece: Slice, g: int) -> None:
        counts = self.counts[g]
        if is_leaving(piece):
            counts.leaving += 1
            if piece.state.in_flight and piece.queued:
                self._stalled(piece, g)  # only to record its deadline, from which on its group is blocked even if it drains
        elif piece.state.in_flight and self._stalled(piece, g):
            counts.stalled += 1
        elif piece.state is SliceState.READY:
            counts.ready += 1
            usage = self._known_usage(piece, g)
            if usage is None or not all(host.idle for host in usage):
                counts.busy += 1
            if usage is not None:
                self._placeable.append((piece, g, usage))
        else:
            counts.in_flight += 1
            self._placeable.append((piece, g, None))

    def _stalled(self, piece: Slice, g: int) -> bool:
        """In flight, but no longer counted on: REQUESTING or queued beyond patience, or queued since an unknown time."""
        end = patience_end(self.snapshot.config, self.groups[g], piece)
        return piece.queued if end is None else self._is_over(end)

    def _known_usage(self, piece: Slice, g: int) -> SliceUsage | None:
        """Usage per host. A slice without a report counts as idle during its grace after it became READY."""
        hosts = self.groups[g].hosts_per_slice
        usage = self.snapshot.usage.get(piece.id)
        if usage is None:
            grace = timedelta(seconds=self.snapshot.config.ready_grace_seconds)
            return None if piece.since is None or self._is_over(piece.since + grace) else (HostUsage(),) * hosts
        if len(usage) == 1 and usage[0].reserved is None:
            return usage * hosts
        return usage if len(usage) == hosts else None

    def _is_over(self, end: datetime) -> bool:
        if end > self.snapshot.now:
            self.deadlines.append(end)
        return end <= self.snapshot.now

    def ready_bins(self) -> list[tuple[Slice, SliceBin]]:
        """READY slices of known usage, with their free resources."""
        found = []
        for piece, g, usage in self._placeable:
            if usage is not None:
                slice_bin = SliceBin(g, busy=not all(host.idle for host in usage))
                slice_bin.hosts = [self._host_bin(slice_bin, host) for host in usage]
                slice_bin.empty = all(host.whole for host in slice_bin.hosts)
                found.append((piece, slice_bin))
        return found

    def arriving(self) -> list[Slice]:
        """Slices in flight that hold demand, in the order in which they were ordered."""
        return [piece for piece, _, usage in self._placeable if usage is None]

    def in_flight_bins(self) -> list[SliceBin]:
        """Slices in flight, whole, in the order in which they were ordered."""
        return [self.new_bin(g) for _, g, usage in self._placeable if usage is None]

    def whole_bins(self) -> tuple[list[SliceBin], list[SliceBin]]:
        """READY slices and slices in flight as if nothing ran on them: the capacity that standing requests are measured on."""
        ready = [
            self.number[piece.group]
            for piece in self.snapshot.slices
            if piece.state is SliceState.READY and not is_leaving(piece) and piece.group in self.number
        ]
        return [self.new_bin(g) for g in ready], self.in_flight_bins()

    def new_bin(self, g: int) -> SliceBin:
        """A whole slice of the group."""
        group = self.groups[g]
        slice_bin = SliceBin(g)
        offer, alone = group.host.vector, group.hosts_alone
        slice_bin.hosts = [HostBin(slice_bin, offer, whole=True, alone=alone) for _ in range(group.hosts_per_slice)]
        return slice_bin

    def _host_bin(self, slice_bin: SliceBin, usage: HostUsage) -> HostBin:
        group = self.groups[slice_bin.group]
        free = free_of(group.host.vector, usage)
        return HostBin(slice_bin, free, whole=usage.idle and free == group.host.vector, alone=group.hosts_alone)

    def ready_hosts_by_ref(self, bins: Sequence[tuple[Slice, SliceBin]]) -> dict[tuple[str, int], HostBin]:
        """READY hosts by slice id and position, to find the hosts on which part of a gang already runs."""
        return {(piece.id, i): host for piece, slice_bin in bins for i, host in enumerate(slice_bin.hosts)}


def is_leaving(piece: Slice) -> bool:
    """Whether demand may no longer use the slice, though it still counts against every maximum.

    A drain counts from the moment it is ordered, before the slice itself reports DRAINING.
    """
    match piece.state:
        case SliceState.REQUESTING | SliceState.BOOTING | SliceState.INITIALIZING | SliceState.READY:
            return piece.drain is not None
        case SliceState.DRAINING | SliceState.DELETING | SliceState.TERMINATED | SliceState.FAILED:
            return True
        case _:
            assert_never(piece.state)


def free_of(offer: Vector, usage: HostUsage) -> Vector:
    """Free resources of a host. A degraded host, or a busy one with no reserved amounts, has none."""
    if usage.state is HostState.DEGRADED:
        return NOTHING
    if usage.reserved is None:
        return offer if usage.idle else NOTHING
    cpu, memory, disk, gpu, tpu = (max(0, have - taken) for have, taken in zip(offer, usage.reserved.vector, strict=True))
    return (cpu, memory, disk, gpu, tpu)
