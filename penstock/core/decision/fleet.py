"""`Fleet`, the snapshot indexed for placing: groups in rank order, slice counts, bins of free host resources."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import cached_property
from typing import assert_never

from penstock.core.decision.bins import BIN_STEPS, NOTHING, HostBin, SliceBin, free_of
from penstock.core.decision.effort import Effort
from penstock.core.decision.excess import REMOVED, Have, Kind, MayGo, above_maximums
from penstock.core.decision.first_fit import Layout
from penstock.core.decision.heads import heads
from penstock.core.decision.match import Matcher, in_rank_order
from penstock.core.decision.patience import patience_end
from penstock.core.decision.protections import protected_slices, protection_ends, takes_no_work
from penstock.core.decision.replacement import Replacements
from penstock.model.cluster import ScaleDown, ScaleGroup
from penstock.model.elasticity import Drive
from penstock.model.slices import HostState, HostUsage, Slice, SliceState, SliceUsage
from penstock.model.snapshot import Snapshot


class SliceCounts:
    """The slices of one group, counted by lifecycle phase."""

    __slots__ = ("busy", "in_flight", "leaving", "ready", "reserved", "stalled", "unclaimed")

    def __init__(self) -> None:
        self.ready = self.busy = self.in_flight = self.stalled = self.unclaimed = self.reserved = self.leaving = 0

    @property
    def total(self) -> int:
        """All slices that count against the group's maximum, the cluster's and the pool."""
        return self.ready + self.in_flight + self.stalled + self.unclaimed + self.reserved + self.leaving


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
        self.deadlines: list[datetime] = [*protection_ends(snapshot)]
        """When a slice counts differently without any event: patience with it ends, it is given up, or no longer kept."""
        self.protected = protected_slices(snapshot)
        """The ids of slices that no decision drains."""
        self.replacements = Replacements(snapshot, self.groups, self.number, self.protected)
        """Slices that are to be replaced, and those that are there to replace them."""
        self.deadlines += self.replacements.moments
        self.given_up: list[Slice] = []
        """Slices that have been unclaimed for `unclaimed_after`."""
        self.reclaimable: list[list[Slice]] = [[] for _ in self.groups]
        """Slices whose drains may be cancelled, the newest drain first: idle ones, or any of a group that pressure drives."""
        self.busy_drains: list[list[Slice]] = [[] for _ in self.groups]
        """Slices that work runs on and whose drains may be cancelled, the newest drain first."""
        self.stalled: list[tuple[Slice, int]] = []
        """Slices on their way that are no longer counted on."""
        self.serving = 0
        """Slices that are not leaving, those of removed groups included."""
        self._unclaimed: list[tuple[Slice, int]] = []
        self._reserved: list[tuple[Slice, int]] = []
        self._placeable: list[tuple[Slice, int, SliceUsage | None]] = []
        self._returning: list[tuple[Slice, int, SliceUsage | None]] = []
        leaving = self.replacements.leaving
        for piece in snapshot.slices:
            self.serving += not is_leaving(piece) and piece.id not in leaving
            g = self.number.get(piece.group)
            if g is not None:
                self._count(piece, g)
        self._placeable += self._returning  # After all others in flight, as this decision's predecessor took them back.
        self.excess = self._above_maximums()
        """Slices above a maximum that was lowered, of their group or of the cluster: they drain at once and are no capacity."""
        self._leaving_now: set[str] = set()
        """The ids of these, unless drains are only shown."""
        if snapshot.config.scale_down is ScaleDown.ON:
            self._leaving_now = {piece.id for piece in self.excess}
            self._set_aside(self._leaving_now)
        for drains in (*self.reclaimable, *self.busy_drains):
            drains.sort(key=lambda piece: piece.drain.number if piece.drain else 0, reverse=True)

    def _count(self, piece: Slice, g: int) -> None:
        counts = self.counts[g]
        if is_leaving(piece):
            self._count_leaving(piece, g)
        elif piece.id in self.replacements.leaving:
            counts.leaving += 1
        elif piece.id in self.replacements.reserved:
            counts.reserved += 1
            self._reserved.append((piece, g))
        elif piece.state.in_flight and self._stalled(piece, g):
            counts.stalled += 1
            self.stalled.append((piece, g))
        elif piece.is_unclaimed and piece.id not in self.snapshot.usage:
            counts.unclaimed += 1
            self._judge_unclaimed(piece, g)
        elif takes_no_work(piece):
            counts.in_flight += piece.state.in_flight
            counts.ready += not piece.state.in_flight
            counts.busy += 1
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

    def _count_leaving(self, piece: Slice, g: int) -> None:
        self.counts[g].leaving += 1
        if piece.id in self.replacements.drains:
            return
        if piece.reclaimable and not takes_no_work(piece) and self._is_by_pressure(g):
            self.reclaimable[g].append(piece)
        elif piece.reclaimable and piece.id in self.snapshot.usage and not takes_no_work(piece):
            (self.reclaimable if self._is_idle(piece, g) else self.busy_drains)[g].append(piece)
        if piece.state.in_flight and piece.queued:
            self._stalled(piece, g)  # only to record its deadline, from which on its group is blocked even if it drains

    def _above_maximums(self) -> list[Slice]:
        """Slices that leave at once because a maximum was lowered. Those that are given up make room, too."""
        given_up, most = [0] * len(self.groups), self.snapshot.config.max_slices
        for piece in self.given_up:
            given_up[self.number[piece.group]] += 1
        serving = [counts.ready + counts.in_flight + counts.stalled for counts in self.counts]
        others = [counts.unclaimed - gone + counts.reserved for counts, gone in zip(self.counts, given_up, strict=True)]
        have = Have([*map(sum, zip(serving, others, strict=True))], serving, self.serving - len(self.given_up))
        within = all(count <= group.max_slices for count, group in zip(have.counted, self.groups, strict=True))
        if within and (most is None or have.total <= most):
            return []
        may_go = [each for each in self._may_go() if each.piece.id not in self.protected]
        return above_maximums(self.snapshot, self.groups, have, may_go)

    def _may_go(self) -> Iterator[MayGo]:
        """Slices on which nothing works: not joined, on their way, or idle by a fresh word and not a protected head."""
        yield from (MayGo(Kind.NOT_JOINED, piece, g) for piece, g in self._unclaimed)
        yield from (MayGo(Kind.RESERVED, piece, g) for piece, g in self._reserved if piece.state.in_flight)
        for piece, g in (*self.stalled, *((piece, g) for piece, g, _ in self._placeable)):
            if piece.state.in_flight:
                yield MayGo(Kind.ON_ITS_WAY if piece.started else Kind.NOT_STARTED, piece, g)
            elif self._is_idle(piece, g) and self._has_idled(piece) and not self._is_protected(piece, g):
                yield MayGo(Kind.IDLE, piece, g)
        for piece in self.snapshot.slices:
            if piece.group in self.number or piece.drain is not None:
                continue
            if piece.state.in_flight:
                yield MayGo(Kind.ON_ITS_WAY if piece.started else Kind.NOT_STARTED, piece, REMOVED)
            elif self._has_idled(piece):
                yield MayGo(Kind.IDLE, piece, REMOVED)

    def _has_idled(self, piece: Slice) -> bool:
        """READY and idle since some time, on the word of sources that are not silent for too long."""
        if piece.state is not SliceState.READY or piece.idle_since is None:
            return False
        stale_at = self.snapshot.stale_at.get(piece.id)
        return stale_at is None or not self._is_over(stale_at)

    def _is_by_pressure(self, g: int) -> bool:
        """Whether reports of pressure drive the group: its READY slices drain only once their controller confirms it."""
        return self.groups[g].drive is Drive.PRESSURE

    def _is_protected(self, piece: Slice, g: int) -> bool:
        """Whether the slice is a head that stays, unless a maximum is zero; or one that only its controller can free."""
        group = self.groups[g]
        return self._is_by_pressure(g) or bool(
            group.protect_first and group.max_slices and self.snapshot.config.max_slices != 0 and piece.id == self.head(g)
        )

    def position(self, piece: Slice) -> int:
        """The place of a slice in the ledger: the newest is the last."""
        return self._positions[piece.id]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {piece.id: position for position, piece in enumerate(self.snapshot.slices)}

    def head(self, g: int) -> str | None:
        """The oldest READY slice of a group that protects it, or that pressure drives."""
        return self._heads.get(self.groups[g].name)

    @cached_property
    def _heads(self) -> dict[str, str]:
        protecting = {group.name for group in self.groups if group.protect_first or group.drive is Drive.PRESSURE}
        return heads(self.snapshot, protecting)

    def _set_aside(self, slice_ids: AbstractSet[str]) -> None:
        """Count slices as leaving."""
        if not slice_ids:
            return
        for piece, g, _ in self._placeable:
            if piece.id in slice_ids:
                self.counts[g].ready -= piece.state is SliceState.READY
                self.counts[g].in_flight -= piece.state.in_flight
        for piece, g in self.stalled:
            self.counts[g].stalled -= piece.id in slice_ids
        for piece, g in self._unclaimed:
            self.counts[g].unclaimed -= piece.id in slice_ids
        for piece, g in self._reserved:
            self.counts[g].reserved -= piece.id in slice_ids
        for piece in self.excess:
            g = self.number.get(piece.group, REMOVED)
            if g != REMOVED:
                self.counts[g].leaving += 1
        self.serving -= len(slice_ids)
        self._placeable = [item for item in self._placeable if item[0].id not in slice_ids]
        self.stalled = [item for item in self.stalled if item[0].id not in slice_ids]

    def _is_idle(self, piece: Slice, g: int) -> bool:
        usage = self._known_usage(piece, g)
        return usage is not None and all(host.idle for host in usage)

    def _stalled(self, piece: Slice, g: int) -> bool:
        """In flight, but no longer counted on: REQUESTING or queued beyond patience, or queued since an unknown time."""
        end = patience_end(self.snapshot.config, self.groups[g], piece)
        return piece.queued if end is None else self._is_over(end)

    def _judge_unclaimed(self, piece: Slice, g: int) -> None:
        """Give the slice up once it has been unclaimed for long enough, if the configuration says so."""
        after = None if piece.id in self.protected else self.snapshot.config.unclaimed_after_seconds
        if after is not None and piece.unclaimed is not None and self._is_over(piece.unclaimed + timedelta(seconds=after)):
            self.given_up.append(piece)
        else:
            self._unclaimed.append((piece, g))

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

    def reclaimable_counts(self, *, busy: bool = False) -> list[int]:
        """How many draining slices of each group may serve again without exceeding its maximum; with `busy`, also busy ones."""
        found = []
        for g, (group, counts) in enumerate(zip(self.groups, self.counts, strict=True)):
            drains = len(self.reclaimable[g]) + (len(self.busy_drains[g]) if busy else 0)
            found.append(min(drains, max(0, group.max_slices - counts.total + counts.leaving)))
        return found

    def ready_bins(self) -> list[tuple[Slice, SliceBin]]:
        """READY slices of known usage, with their free resources. Those that a report has named come first."""
        found = []
        for piece, g, usage in sorted(self._placeable, key=lambda item: item[0].id not in self.snapshot.usage):
            if usage is not None:
                self.effort.spend(BIN_STEPS * len(usage))
                reported = piece.id in self.snapshot.usage
                slice_bin = SliceBin(g, busy=not all(host.idle for host in usage), reported=reported)
                slice_bin.bit = g if reported else g + len(self.groups)
                degraded = any(host.state is HostState.DEGRADED for host in usage)
                slice_bin.hosts = [self._host_bin(slice_bin, host, closed=degraded) for host in usage]
                slice_bin.empty = all(host.whole for host in slice_bin.hosts)
                found.append((piece, slice_bin))
        return found

    def arriving(self) -> list[Slice]:
        """Slices in flight that hold demand, in the order in which they were ordered."""
        return [piece for piece, _, usage in self._placeable if usage is None]

    def arriving_of(self, g: int) -> list[Slice]:
        """Slices of a group in flight, also those that are no longer counted on."""
        arriving = [piece for piece, owner, usage in self._placeable if owner == g and usage is None]
        return [*arriving, *(piece for piece, owner in self.stalled if owner == g)]

    def in_flight_bins(self) -> list[SliceBin]:
        """Slices in flight, whole, in the order in which they were ordered."""
        return [self.new_bin(g) for _, g, usage in self._placeable if usage is None]

    def whole_bins(self) -> tuple[list[SliceBin], list[SliceBin]]:
        """READY slices and slices in flight as if nothing ran on them: the capacity that standing requests are measured on."""
        elsewhere = self._leaving_now | {piece.id for piece, _, _ in self._returning}
        elsewhere |= {*self.replacements.leaving, *self.replacements.reserved}
        ready = [
            self.number[piece.group]
            for piece in self.snapshot.slices
            if (piece.state is SliceState.READY or piece.returning) and not is_leaving(piece) and piece.group in self.number
            if piece.id not in elsewhere and (not piece.is_unclaimed or piece.id in self.snapshot.usage)
            if not takes_no_work(piece)
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

    def _host_bin(self, slice_bin: SliceBin, usage: HostUsage, *, closed: bool) -> HostBin:
        """The bin of a host that is in use. With one degraded host the whole slice is `closed`."""
        group = self.groups[slice_bin.group]
        free = NOTHING if closed else free_of(group.host.vector, usage)
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
