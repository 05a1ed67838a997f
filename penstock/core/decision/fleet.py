"""`Fleet`, the snapshot indexed for placing: groups in rank order, slice counts, bins of free host resources."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import assert_never

from penstock.core.decision.effort import Effort
from penstock.core.decision.first_fit import Layout
from penstock.core.decision.match import Matcher, in_rank_order
from penstock.core.decision.patience import patience_end
from penstock.model.cluster import ScaleDown, ScaleGroup
from penstock.model.resources import GPU, Vector
from penstock.model.shape import gpu_taken
from penstock.model.slices import HostState, HostUsage, Slice, SliceState, SliceUsage
from penstock.model.snapshot import Snapshot
from penstock.model.units import MILLI

BIN_STEPS = 5
"""Steps of making the bin of one host."""
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

    @property
    def usable_alone(self) -> bool:
        """Whether work that does not share a host can take this one."""
        return self.whole or not self.alone

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
    its position among the slices in flight. `reported` unless it is READY and no usage report has named it. `bit` is the kind
    of slice that a search for a host looks for: the group, counted on for those that are not reported.
    """

    __slots__ = ("bit", "busy", "empty", "group", "hosts", "opened", "order", "reported", "used")

    def __init__(self, group: int, *, busy: bool = False, reported: bool = True) -> None:
        self.group = self.bit = group
        self.reported = reported
        self.order = -1
        self.opened = False
        self.hosts: list[HostBin] = []
        self.busy = busy
        self.empty = not busy
        self.used = False


def is_unreported(slice_bin: SliceBin) -> bool:
    """Sort key of READY slices: room that usage reports have shown is filled first."""
    return not slice_bin.reported


class SliceCounts:
    """The slices of one group, counted by lifecycle phase."""

    __slots__ = ("busy", "in_flight", "leaving", "ready", "stalled", "unclaimed")

    def __init__(self) -> None:
        self.ready = self.busy = self.in_flight = self.stalled = self.unclaimed = self.leaving = 0

    @property
    def total(self) -> int:
        """All slices that count against the group's maximum, the cluster's and the pool."""
        return self.ready + self.in_flight + self.stalled + self.unclaimed + self.leaving


class Fleet:
    """The snapshot, indexed. It never changes; plans work on bins made from it."""

    def __init__(self, snapshot: Snapshot, effort: Effort | None = None) -> None:
        self.snapshot = snapshot
        self.effort = effort or Effort()
        self.groups: list[ScaleGroup] = in_rank_order(snapshot.config.groups)
        self.number = {group.name: g for g, group in enumerate(self.groups)}
        self.matcher = Matcher(self.groups, self.effort)
        self.layout = Layout(self.groups)
        alone = sum(1 << g for g, group in enumerate(self.groups) if group.hosts_alone)
        self.alone_bits = alone | alone << len(self.groups)
        """Groups, reported and not, whose hosts take one task on chips each."""
        self.counts = [SliceCounts() for _ in self.groups]
        self.deadlines: list[datetime] = []
        """Times at which a slice counts differently without any event: when patience with it ends, or it is given up."""
        self.given_up: list[Slice] = []
        """Slices that have been unclaimed for `unclaimed_after`."""
        self.reclaimable: list[list[Slice]] = [[] for _ in self.groups]
        """Idle slices whose drains may be cancelled, the newest drain first."""
        self.stalled: list[tuple[Slice, int]] = []
        """Slices on their way that are no longer counted on."""
        self._placeable: list[tuple[Slice, int, SliceUsage | None]] = []
        self._returning: list[tuple[Slice, int, SliceUsage | None]] = []
        for piece in snapshot.slices:
            g = self.number.get(piece.group)
            if g is not None:
                self._count(piece, g)
        self._placeable += self._returning  # After all others in flight, as this decision's predecessor took them back.
        self.excess = [self._above_maximum(g) for g in range(len(self.groups))]
        """Slices of each group above its maximum, which was lowered: they drain at once and are no capacity."""
        self._leaving_now: set[str] = set()
        """The ids of these, unless drains are only shown."""
        if snapshot.config.scale_down is ScaleDown.ON:
            self._leaving_now = {piece.id for pieces in self.excess for piece in pieces}
            self._set_aside(self._leaving_now)
        for drains in self.reclaimable:
            drains.sort(key=lambda piece: piece.drain.number if piece.drain else 0, reverse=True)

    def _count(self, piece: Slice, g: int) -> None:
        counts = self.counts[g]
        if is_leaving(piece):
            counts.leaving += 1
            if piece.reclaimable and piece.id in self.snapshot.usage and self._is_idle(piece, g):
                self.reclaimable[g].append(piece)
            if piece.state.in_flight and piece.queued:
                self._stalled(piece, g)  # only to record its deadline, from which on its group is blocked even if it drains
        elif piece.state.in_flight and self._stalled(piece, g):
            counts.stalled += 1
            self.stalled.append((piece, g))
        elif piece.is_unclaimed and piece.id not in self.snapshot.usage:
            counts.unclaimed += 1
            self._judge_unclaimed(piece)
        elif piece.returning and self._is_idle(piece, g):
            counts.in_flight += 1
            self._returning.append((piece, g, None))
        elif piece.state is SliceState.READY or piece.returning:
            counts.ready += 1
            usage = self._known_usage(piece, g)
            if usage is None or not all(host.idle for host in usage):
                counts.busy += 1
            if usage is not None:
                self._placeable.append((piece, g, usage))
        else:
            counts.in_flight += 1
            self._placeable.append((piece, g, None))

    def _above_maximum(self, g: int) -> list[Slice]:
        """First what was never started, then what is on its way, newest first, then what is idle, the longest idle first."""
        counts, most = self.counts[g], self.groups[g].max_slices
        above = counts.ready + counts.in_flight + counts.stalled - most
        if above <= 0:
            return []
        mine = [piece for piece, owner, _ in self._placeable if owner == g]
        arriving = [piece for piece in reversed(mine) if piece.state.in_flight]
        idle = [piece for piece in mine if piece.state is SliceState.READY and piece.idle_since and self._is_idle(piece, g)]
        idle.sort(key=longest_idle)
        if self.groups[g].protect_first and most:
            head = self.head(g)
            idle.sort(key=lambda piece: piece.id == head)
        stalled = [piece for piece, owner in reversed(self.stalled) if owner == g]
        return [*stalled, *sorted(arriving, key=lambda piece: piece.started), *idle][:above]

    def head(self, g: int) -> str | None:
        """The oldest READY slice of a group."""
        serving = (p for p in self.snapshot.slices if p.state is SliceState.READY and p.drain is None)
        return next((piece.id for piece in serving if piece.group == self.groups[g].name), None)

    def _set_aside(self, slice_ids: AbstractSet[str]) -> None:
        """Count slices as leaving."""
        if not slice_ids:
            return
        for piece, g, _ in self._placeable:
            if piece.id in slice_ids:
                counts = self.counts[g]
                counts.leaving += 1
                counts.ready -= piece.state is SliceState.READY
                counts.in_flight -= piece.state.in_flight
        for piece, g in self.stalled:
            if piece.id in slice_ids:
                self.counts[g].leaving += 1
                self.counts[g].stalled -= 1
        self._placeable = [item for item in self._placeable if item[0].id not in slice_ids]
        self.stalled = [item for item in self.stalled if item[0].id not in slice_ids]

    def _is_idle(self, piece: Slice, g: int) -> bool:
        usage = self._known_usage(piece, g)
        return usage is not None and all(host.idle for host in usage)

    def _stalled(self, piece: Slice, g: int) -> bool:
        """In flight, but no longer counted on: REQUESTING or queued beyond patience, or queued since an unknown time."""
        end = patience_end(self.snapshot.config, self.groups[g], piece)
        return piece.queued if end is None else self._is_over(end)

    def _judge_unclaimed(self, piece: Slice) -> None:
        """Give the slice up once it has been unclaimed for long enough, if the configuration says so."""
        after = self.snapshot.config.unclaimed_after_seconds
        if after is not None and piece.unclaimed is not None and self._is_over(piece.unclaimed + timedelta(seconds=after)):
            self.given_up.append(piece)

    def _known_usage(self, piece: Slice, g: int) -> SliceUsage | None:
        """Usage per host; None if the report does not fit the group. A slice that no report has named counts as idle.

        Otherwise a silent controller would get slice after slice: each one would count as busy, and demand would buy the next.
        """
        hosts = self.groups[g].hosts_per_slice
        usage = self.snapshot.usage.get(piece.id)
        if usage is None:
            return (HostUsage(),) * hosts
        if len(usage) == 1 and usage[0].reserved is None:
            return usage * hosts
        return usage if len(usage) == hosts else None

    def _is_over(self, end: datetime) -> bool:
        if end > self.snapshot.now:
            self.deadlines.append(end)
        return end <= self.snapshot.now

    def reclaimable_counts(self) -> list[int]:
        """How many draining slices of each group may serve again without exceeding its maximum."""
        return [
            min(len(drains), max(0, group.max_slices - counts.total + counts.leaving))
            for drains, group, counts in zip(self.reclaimable, self.groups, self.counts, strict=True)
        ]

    def ready_bins(self) -> list[tuple[Slice, SliceBin]]:
        """READY slices of known usage, with their free resources. Those that a report has named come first."""
        found = []
        for piece, g, usage in sorted(self._placeable, key=lambda item: item[0].id not in self.snapshot.usage):
            if usage is not None:
                self.effort.spend(BIN_STEPS * len(usage))
                reported = piece.id in self.snapshot.usage
                slice_bin = SliceBin(g, busy=not all(host.idle for host in usage), reported=reported)
                slice_bin.bit = g if reported else g + len(self.groups)
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
            if piece.id not in self._leaving_now and (not piece.is_unclaimed or piece.id in self.snapshot.usage)
        ]
        return [self.new_bin(g) for g in ready], self.in_flight_bins()

    def new_bin(self, g: int) -> SliceBin:
        """A whole slice of the group."""
        group = self.groups[g]
        self.effort.spend(BIN_STEPS * group.hosts_per_slice)
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


def longest_idle(piece: Slice) -> tuple[datetime, str]:
    """How idle slices compare: the longest idle first."""
    assert piece.idle_since is not None
    return piece.idle_since, piece.id


def is_leaving(piece: Slice) -> bool:
    """Whether demand may no longer use the slice, though it still counts against every maximum.

    A drain counts from the moment it is ordered, before the slice itself reports DRAINING.
    """
    match piece.state:
        case SliceState.REQUESTING | SliceState.BOOTING | SliceState.INITIALIZING | SliceState.READY:
            return piece.drain is not None
        case SliceState.DRAINING:
            return not piece.returning
        case SliceState.DELETING | SliceState.TERMINATED | SliceState.FAILED:
            return True
        case _:
            assert_never(piece.state)


def unreported_since(piece: Slice, usage: Mapping[str, SliceUsage]) -> datetime | None:
    """When the slice became READY, if no usage report has named it since. One that did not join has its own alert."""
    silent = piece.state is SliceState.READY and piece.unclaimed is None and piece.id not in usage
    return piece.since if silent else None


def free_of(offer: Vector, usage: HostUsage) -> Vector:
    """Free resources of a host. A degraded host, or a busy one with no reserved amounts, has none."""
    if usage.state is HostState.DEGRADED:
        return NOTHING
    if usage.reserved is None:
        return offer if usage.idle else NOTHING
    cpu, memory, disk, gpu, tpu = (max(0, have - taken) for have, taken in zip(offer, usage.reserved.vector, strict=True))
    return (cpu, memory, disk, min(gpu, max(0, offer[GPU] - _gpu_shares(usage.reserved.gpu_milli, len(usage.tasks)))), tpu)


def _gpu_shares(reserved: int, tasks: int) -> int:
    """Milli-GPUs that running tasks take: one GPU each if they reserve, on average, a share above one half."""
    share = reserved % MILLI and tasks and reserved // tasks
    return tasks * gpu_taken(share) if share else reserved
