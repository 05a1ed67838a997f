"""Place gangs, each whole or not at all: on whole slices, spread over hosts, or packed on few hosts."""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin, SliceBin
from penstock.core.decision.plan import Plan
from penstock.model.decision import Cause, Tier
from penstock.model.shape import GangPlacement

Apart = frozenset[HostBin]
"""Hosts that a gang must not use, because other tasks of it already run there."""


def place_gangs(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int, *, pending: int, apart: Apart) -> int:
    """Place gangs `first` to `first + count` of a run, `pending` tasks each; returns how many stay unplaced."""
    assert cursor.gang is not None
    if cursor.gang.placement is GangPlacement.WHOLE_SLICES:
        return _place_whole(plan, cursor, run, first, count)
    find = _spread if cursor.gang.placement is GangPlacement.SPREAD else _pack
    for index in range(first, first + count):
        site = find(plan, cursor, pending, apart)
        if site is None:
            return first + count - index
        last = _settle(plan, cursor, site)
        plan.assign(run, index, 1, last.group, site.tier, opened=last.opened)
    return 0


# --- whole slices ---------------------------------------------------------------------------------------------


def _place_whole(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    left = count
    for step in (_whole_on_ready, _whole_in_flight, _whole_on_new):
        left -= step(plan, cursor, run, first + count - left, left)
        if not left:
            break
    return left


def _slices_needed(plan: Plan, cursor: ShapeCursor, g: int) -> int:
    assert cursor.gang is not None
    return cursor.gang.hosts // plan.fleet.groups[g].hosts_per_slice


def _empty(bins: list[SliceBin]) -> list[SliceBin]:
    """The slices that a gang may still take; the others are removed from the list for good."""
    if bins and not all(slice_bin.empty for slice_bin in bins):
        bins[:] = [slice_bin for slice_bin in bins if slice_bin.empty]
    return bins


def _whole_on_ready(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = cursor.candidates.order, count
    while left and cursor.ready_cursor < len(order):
        g = order[cursor.ready_cursor]
        bins, each = [slice_bin for slice_bin in plan.ready[g] if slice_bin.empty], _slices_needed(plan, cursor, g)
        gangs = min(left, len(bins) // each)
        for slice_bin in bins[: gangs * each]:
            plan.take_whole(slice_bin)
        if gangs:
            plan.assign(run, first + count - left, gangs, g, Tier.READY, opened=False)
            left -= gangs
        if left:
            cursor.ready_cursor += 1
    return count - left


def _whole_in_flight(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    """The next gang goes to the group whose empty slices suffice first, in the order in which slices were ordered."""
    if cursor.in_flight_exhausted:
        return 0
    left = count
    heap = [(at, g) for g in cursor.candidates.order if (at := _completed_at(plan, cursor, g)) is not None]
    heapify(heap)
    while left and heap:
        _, g = heap[0]
        taken = _take_empties(plan, cursor, g)
        plan.assign(run, first + count - left, 1, g, Tier.IN_FLIGHT, opened=taken[-1].opened)
        left -= 1
        at = _completed_at(plan, cursor, g)
        if at is None:
            heappop(heap)
        else:
            heapreplace(heap, (at, g))
    cursor.in_flight_exhausted = not heap
    return count - left


def _completed_at(plan: Plan, cursor: ShapeCursor, g: int) -> int | None:
    """Position in flight of the slice that completes one gang on the group's empty slices, READY ones included."""
    in_flight = _empty(plan.in_flight_slices[g])
    if not in_flight:
        return None
    missing = _slices_needed(plan, cursor, g) - sum(slice_bin.empty for slice_bin in plan.ready[g])
    return in_flight[missing - 1].order if 0 < missing <= len(in_flight) else None


def _take_empties(plan: Plan, cursor: ShapeCursor, g: int) -> list[SliceBin]:
    """Take up to one gang's number of empty slices, READY ones first."""
    bins = [slice_bin for slice_bin in plan.ready[g] if slice_bin.empty] + _empty(plan.in_flight_slices[g])
    taken = bins[: _slices_needed(plan, cursor, g)]
    for slice_bin in taken:
        plan.take_whole(slice_bin)
    return taken


def _whole_on_new(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = cursor.buy_order, count
    while left and cursor.new_cursor < len(order):
        g = order[cursor.new_cursor]
        each = _slices_needed(plan, cursor, g)
        empties = sum(slice_bin.empty for slice_bin in plan.ready[g]) + len(_empty(plan.in_flight_slices[g]))
        gangs = min(left, (empties + plan.headroom.of(g)) // each)
        if not gangs:
            cursor.new_cursor += 1
            continue
        taken = len(_take_empties(plan, cursor, g)) if empties else 0
        if taken:
            plan.charge(((g, each - taken),), 1, Cause.DEMAND)
        if gangs > bool(taken):
            plan.charge(((g, each),), gangs - bool(taken), Cause.DEMAND)
        plan.required[g] += gangs * each - taken
        plan.assign(run, first + count - left, gangs, g, Tier.NEW, opened=True)
        left -= gangs
    return count - left


# --- spread and pack -------------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    """Further hosts for a gang, their tier, and every slice opened on trial so far."""

    hosts: Iterable[HostBin]
    tier: Tier
    opened: list[SliceBin]


class _Site(NamedTuple):
    """Where a gang goes: hosts with the number of tasks on each, and the slices to open for them."""

    hosts: list[tuple[HostBin, int]]
    opened: list[SliceBin]
    tier: Tier


def _spread(plan: Plan, cursor: ShapeCursor, members: int, apart: Apart) -> _Site | None:
    """The first hosts with space for one task each."""
    hosts: list[tuple[HostBin, int]] = []
    for batch in _batches(plan, cursor):
        for host in batch.hosts:
            if host not in apart and cursor.tasks_in(host, 1):
                hosts.append((host, 1))
                if len(hosts) == members:
                    return _Site(hosts, batch.opened, batch.tier)
    return None


def _pack(plan: Plan, cursor: ShapeCursor, members: int, apart: Apart) -> _Site | None:
    """The fewest hosts out of as many batches as the gang needs."""
    hosts: list[tuple[HostBin, int]] = []
    space = 0
    for batch in _batches(plan, cursor):
        more = [(host, tasks) for host in batch.hosts if host not in apart and (tasks := cursor.tasks_in(host, members))]
        hosts += more
        space += sum(tasks for _, tasks in more)
        if space >= members:
            chosen = _fewest(hosts, members)
            used = {host.owner for host, _ in chosen}
            _give_back(plan, [slice_bin for slice_bin in batch.opened if slice_bin not in used])
            return _Site(chosen, [slice_bin for slice_bin in batch.opened if slice_bin in used], batch.tier)
    return None


def _batches(plan: Plan, cursor: ShapeCursor) -> Iterator[_Batch]:
    """All READY hosts; then the hosts of one slice in flight at a time; then those of one new slice at a time.

    New slices are charged to the headroom as they are tried, and given back once no group can add another.
    """
    opened: list[SliceBin] = []
    yield _Batch(_ready(plan, cursor), Tier.READY, opened)
    for _, hosts in groupby(_in_flight(plan, cursor), key=attrgetter("owner")):
        yield _Batch(hosts, Tier.IN_FLIGHT, opened)
    while (g := next((g for g in cursor.buy_order if plan.headroom.of(g)), None)) is not None:
        plan.headroom.order(g, 1)
        opened.append(plan.fleet.new_bin(g))
        yield _Batch(opened[-1].hosts, Tier.NEW, opened)
    _give_back(plan, opened)


def _give_back(plan: Plan, opened: list[SliceBin]) -> None:
    for slice_bin in opened:
        plan.headroom.order(slice_bin.group, -1)


def _settle(plan: Plan, cursor: ShapeCursor, site: _Site) -> SliceBin:
    """Place the gang on its site; returns the slice that completes it, whose group the gang counts for."""
    if site.opened:
        _give_back(plan, site.opened)  # tried one by one, ordered as one unit
        parts: dict[int, int] = {}
        for slice_bin in site.opened:
            parts[slice_bin.group] = parts.get(slice_bin.group, 0) + 1
        plan.charge(tuple(parts.items()), 1, Cause.DEMAND)
    for host, tasks in site.hosts:
        plan.take(host, cursor, tasks)
    plan.add_in_flight(site.opened)
    return site.hosts[-1][0].owner


def _fewest(hosts: list[tuple[HostBin, int]], members: int) -> list[tuple[HostBin, int]]:
    """The hosts that hold the most tasks, until every task has a host."""
    chosen, left = [], members
    for host, tasks in sorted(hosts, key=lambda item: -item[1]):
        if left:
            chosen.append((host, min(tasks, left)))
            left -= min(tasks, left)
    return chosen


def _ready(plan: Plan, cursor: ShapeCursor) -> Iterable[HostBin]:
    """READY hosts from the first that has space for the shape; moves the cursor there."""
    hosts = plan.ready_hosts(cursor.candidates)
    while cursor.ready_cursor < len(hosts) and not cursor.tasks_in(hosts[cursor.ready_cursor], 1):
        cursor.ready_cursor += 1
    return hosts[cursor.ready_cursor :]


def _in_flight(plan: Plan, cursor: ShapeCursor) -> Iterator[HostBin]:
    """Hosts in flight of candidate groups, from the first that has space for the shape; moves the cursor there."""
    hosts, mask = plan.in_flight_hosts, cursor.candidates.mask
    i = cursor.in_flight_cursor
    while i < len(hosts) and not (mask[hosts[i].owner.group] and cursor.tasks_in(hosts[i], 1)):
        i += 1
    cursor.in_flight_cursor = i
    for j in range(i, len(hosts)):
        if mask[hosts[j].owner.group]:
            yield hosts[j]
