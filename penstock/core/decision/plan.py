"""The plan of one evaluation: where entries were placed, and which slices were opened for them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from penstock.core.decision.bins import HostBin, SliceBin, is_unreported
from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import Fleet, is_leaving
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.host_index import HostIndex
from penstock.core.decision.match import Candidates
from penstock.core.decision.pressure import Wanted
from penstock.model.cluster import Placement
from penstock.model.decision import Cause, Tier
from penstock.model.resources import Vector
from penstock.model.slices import Slice

ROUNDED = 9
"""Decimals compared in ratios and prices: differences beyond them come from floating-point arithmetic."""


class Unit(NamedTuple):
    """Slices that are launched together or not at all: one slice, or all slices of a gang; repeated `times` times.

    `source` is the source whose demand they are for; empty if they are for no demand, or for that of several sources. `home` is
    the group that the demand prefers to this one; `replaces` the slice that a replacement is for.
    """

    parts: tuple[tuple[int, int], ...]
    times: int
    cause: Cause
    source: str = ""
    home: str = ""
    replaces: str = ""


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
        self.held_unplaced: list[tuple[int, int, int]] = []
        """Entries that may buy nothing new and found no room: they neither explain nor gain by slices that are opened."""
        self.sources: Sequence[str] = ()
        """The source of each run, if runs have any."""
        self.counts_use = True
        """Whether a slice that an entry is placed on counts as required."""
        self.units: list[Unit] = []
        self.required = [0] * len(fleet.groups)
        self.opened = [0] * len(fleet.groups)
        self.replacing = [0] * len(fleet.groups)
        """Replacements that are ordered: they neither count as had nor keep what their group can spare."""
        self.target = [0] * len(fleet.groups)
        """Slices that each group should have; set once the spares are known."""
        self.wanted: Mapping[int, Wanted] = {}
        """What reports of pressure want of the groups that they drive."""
        self.ready_slices: list[tuple[Slice, SliceBin]] = []
        """READY slices of known usage with their bins."""
        self.arriving_slices: list[tuple[Slice, SliceBin]] = []
        """Slices in flight with their bins, without those that this plan opened."""
        self.reclaims = any(headroom.back(g) for g in range(len(fleet.groups)))
        """Whether the plan may take draining slices back."""
        self.ready: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self.has_unreported = False
        """Whether any READY slice was never named by a usage report."""
        self.in_flight_hosts: list[HostBin] = []
        self.in_flight = HostIndex(fleet.layout, self.in_flight_hosts, fleet.effort)
        self.empty_groups = 0
        """Groups with an empty slice, READY or in flight, as bits."""
        self._empty_ready: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self._empty_in_flight: list[list[SliceBin]] = [[] for _ in fleet.groups]
        self._stale: set[int] = set()
        """Groups of which a slice is no longer empty, though their lists still have it."""
        self._full: dict[Candidates, int] = {}
        self._orders = 0
        self.effort = 0
        """Searches made for slices on trial."""
        self.beyond_effort = False
        """Whether a slice was bought without comparing every group, because the budget for that was spent."""
        self.expecting: set[str] = set()
        """Slices that hold no entry, and that the work of a draining slice moves to."""
        self.untried: set[int] = set()
        """Runs of which some entries were not tried, because the effort of the whole evaluation was spent."""

    def price(self, *, by_cost: bool) -> tuple[int, float, int]:
        """How plans compare: entries left unplaced, then for `cost` the price of the opened slices, then their number."""
        cost = sum(count * group.price for count, group in zip(self.opened, self.fleet.groups, strict=True)) if by_cost else 0.0
        return (sum(count for _, _, count in self.unplaced), round(cost, ROUNDED), sum(self.opened))

    def unneeded(self) -> list[Slice]:
        """Idle READY slices that hold no entry, of groups that have more slices than their target."""
        counts = self.fleet.counts
        spare = [c.ready + c.in_flight + self.opened[g] > self.target[g] for g, c in enumerate(counts)]
        return [piece for piece, each in self.ready_slices if spare[each.group] and not each.busy and not each.used]

    def holding(self) -> dict[str, int]:
        """Tasks that are placed on existing slices, by slice id; 0 for a gang that takes whole slices."""
        held = ((piece.id, each) for piece, each in chain(self.ready_slices, self.arriving_slices) if each.used)
        return {slice_id: each.tasks for slice_id, each in held if each.tasks or slice_id not in self.expecting}

    def add_ready(self, bins: Iterable[SliceBin]) -> None:
        """Add READY slices, in the order in which they are listed."""
        for slice_bin in bins:
            self.ready[slice_bin.group].append(slice_bin)
            self.has_unreported = self.has_unreported or is_unreported(slice_bin)
            if slice_bin.empty:
                self._empty_ready[slice_bin.group].append(slice_bin)
                self.empty_groups |= 1 << slice_bin.group

    def add_in_flight(self, bins: Iterable[SliceBin], *, opened: bool = True) -> None:
        """Add slices in flight, in the order in which they were ordered; `opened` by this decision or before it."""
        for slice_bin in bins:
            slice_bin.order = self._orders
            slice_bin.opened = slice_bin.opened or opened
            self._orders += 1
            if slice_bin.empty:
                self._empty_in_flight[slice_bin.group].append(slice_bin)
                self.empty_groups |= 1 << slice_bin.group
            for host in slice_bin.hosts:
                self._append_in_flight(host)

    def open(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause, source: str = "", *, home: str = "") -> None:
        """Order whole slices on which nothing is placed yet, as units."""
        self.charge(parts, times, cause, source, home=home)
        for g, slices in parts * times:
            self.add_in_flight(self.fleet.new_bin(g) for _ in range(slices))

    def charge(self, parts: tuple[tuple[int, int], ...], times: int, cause: Cause, source: str = "", *, home: str = "") -> None:
        """Order slices without adding bins: slices that no later entry may use."""
        for g, slices in parts:
            self.headroom.order(g, slices * times)
            self.opened[g] += slices * times
        self.units.append(Unit(parts, times, cause, source, home))

    def replace(self, piece: Slice, g: int, cause: Cause) -> bool:
        """Order a slice that takes the place of another; returns whether the group may add one."""
        if not self.headroom.may_add(g):
            return False
        self.headroom.order_new(g)
        self.replacing[g] += 1
        self.units.append(Unit(((g, 1),), 1, cause, replaces=piece.id))
        return True

    def home_of(self, cursor: ShapeCursor, g: int) -> str:
        """The group that a shape prefers to the one that a slice is opened in; empty if that is the same.

        Only `priority` has an order of preference.
        """
        order = cursor.candidates.order
        if self.fleet.snapshot.config.placement is not Placement.PRIORITY or not order or order[0] == g:
            return ""
        return self.fleet.groups[order[0]].name

    def expect_moved_work(self) -> None:
        """Count slices as required on which nothing is placed yet, and to which the work of a draining slice moves."""
        slices, leaving = self.fleet.snapshot.slices, self.fleet.replacements.leaving
        moving = {piece.id for piece in slices if piece.state.was_ready and (is_leaving(piece) or piece.id in leaving)}
        for piece, each in chain(self.ready_slices, self.arriving_slices) if moving else ():
            if piece.replaces in moving and not (each.used or each.busy):
                each.used = True
                self.required[each.group] += 1
                self.expecting.add(piece.id)

    def source_of(self, *runs: int) -> str:
        """The source of the runs; empty if they have several, or none."""
        found = {self.sources[run] for run in runs} if self.sources else set()
        return found.pop() if len(found) == 1 else ""

    @cached_property
    def ready_index(self) -> HostIndex:
        """READY hosts of all groups, in rank order. A search is for one of the `ready_tiers` of a shape after the other."""
        hosts = [host for bins in self.ready for slice_bin in bins for host in slice_bin.hosts if not host.closed]
        return HostIndex(self.fleet.layout, hosts, self.fleet.effort)

    def ready_tiers(self, candidates: Candidates) -> tuple[int, ...]:
        """READY hosts by preference: the candidates' slices that usage reports have named, then those that none has."""
        if not self.has_unreported:
            return candidates.tiers
        return candidates.tiers + tuple(tier << len(self.fleet.groups) for tier in candidates.tiers)

    def first_with_headroom(self, candidates: Candidates) -> tuple[int, int] | None:
        """The first group that may add a slice, and how many. Draining slices of any group are taken back before.

        Headroom only shrinks, except for trials, which do not call this.
        """
        order, headroom = candidates.order, self.headroom
        draining = next((g for g in order if headroom.back(g)), None) if self.reclaims else None
        if draining is not None:
            return draining, headroom.back(draining)
        first = i = self._full.get(candidates, 0)
        while i < len(order) and not headroom.of(order[i]):
            i += 1
        self.fleet.effort.spend(3 * (1 + i - first))
        self._full[candidates] = i
        return (order[i], headroom.of(order[i])) if i < len(order) else None

    def empty_ready(self, g: int) -> list[SliceBin]:
        """READY slices of the group on which nothing is placed, in the order in which they are listed."""
        self._drop_used(g)
        return self._empty_ready[g]

    def empty_in_flight(self, g: int) -> list[SliceBin]:
        """Slices of the group in flight on which nothing is placed, in the order in which they were ordered."""
        self._drop_used(g)
        return self._empty_in_flight[g]

    def _drop_used(self, g: int) -> None:
        if g not in self._stale:
            return
        self._stale.discard(g)
        for bins in (self._empty_ready[g], self._empty_in_flight[g]):
            self.fleet.effort.spend(len(bins))
            bins[:] = [slice_bin for slice_bin in bins if slice_bin.empty]
        if not self._empty_ready[g] and not self._empty_in_flight[g]:
            self.empty_groups &= ~(1 << g)

    def gives_up(self, run: int) -> bool:
        """Whether the effort is spent, so that the entries of a run that are left are not tried any more."""
        if not self.fleet.effort.is_spent:
            return False
        self.untried.add(run)
        return True

    def take(self, host: HostBin, cursor: ShapeCursor, tasks: int) -> None:
        """Place tasks on a host."""
        owner = host.owner
        self._use(owner)
        if self.counts_use:
            owner.tasks += tasks
            self.required[owner.group] += not (owner.used or owner.busy)
            owner.used = True
        host.put(cursor.need, tasks, exclusive=cursor.exclusive)
        host.close_below(self.floor)

    def take_whole(self, slice_bin: SliceBin) -> None:
        """Give a whole slice to a gang."""
        self.required[slice_bin.group] += self.counts_use
        slice_bin.used = slice_bin.used or self.counts_use
        self._use(slice_bin)
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

    def _use(self, slice_bin: SliceBin) -> None:
        if slice_bin.empty:
            slice_bin.empty = False
            self._stale.add(slice_bin.group)

    def _append_in_flight(self, host: HostBin) -> None:
        if not host.closed:
            self.in_flight_hosts.append(host)
