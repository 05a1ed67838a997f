"""Place gangs, each whole or not at all: on whole slices, spread over hosts, or packed on few hosts."""

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

from penstock.core.decision.bins import HostBin, SliceBin, is_unreported
from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.first_fit import NONE
from penstock.core.decision.plan import Plan
from penstock.model.decision import Cause, Tier
from penstock.model.shape import GangPlacement

GROUP_STEPS = 5
"""Steps of looking at one group for a gang."""
HOST_STEPS = 6
"""Steps of looking at one host for a gang."""

Apart = frozenset[HostBin]
"""Hosts that a gang must not use, because other tasks of it already run there."""


def place_gangs(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int, *, pending: int, apart: Apart) -> int:
    """Place gangs `first` to `first + count` of a run, `pending` tasks each; returns how many stay unplaced."""
    assert cursor.gang is not None
    if cursor.gang.placement is GangPlacement.WHOLE_SLICES:
        return _place_whole(plan, cursor, run, first, count)
    find = _spread if cursor.gang.placement is GangPlacement.SPREAD else _pack
    for index in range(first, first + count):
        if plan.gives_up(run):
            return first + count - index
        site = find(plan, cursor, pending, apart)
        if site is None:
            return first + count - index
        last = _settle(plan, cursor, site, run)
        plan.assign(run, index, 1, last.group, site.tier, opened=last.opened)
    return 0


# --- whole slices ---------------------------------------------------------------------------------------------


def _place_whole(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    left = count
    for step in (_whole_on_ready, _whole_in_flight, _whole_on_draining, _whole_on_new):
        left -= step(plan, cursor, run, first + count - left, left)
        if not left:
            break
    return left


def _slices_needed(plan: Plan, cursor: ShapeCursor, g: int) -> int:
    assert cursor.gang is not None
    return cursor.gang.hosts // plan.fleet.groups[g].hosts_per_slice


def _whole_on_ready(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    """On the slices of one group that usage reports have named, in any group; only then on those that none has named."""
    if not cursor.candidates.bits & plan.empty_groups:
        return 0
    order, left = cursor.candidates.order, count
    while left and cursor.ready_cursor < 2 * len(order):
        g, any_slice = order[cursor.ready_cursor % len(order)], cursor.ready_cursor >= len(order)
        plan.fleet.effort.spend(GROUP_STEPS)
        bins = [slice_bin for slice_bin in plan.empty_ready(g) if any_slice or not is_unreported(slice_bin)]
        each = _slices_needed(plan, cursor, g)
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
    if cursor.in_flight_exhausted or not cursor.candidates.bits & plan.empty_groups:
        return 0
    left = count
    plan.fleet.effort.spend(GROUP_STEPS * len(cursor.candidates.order))
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
    in_flight = plan.empty_in_flight(g)
    if not in_flight:
        return None
    missing = _slices_needed(plan, cursor, g) - len(plan.empty_ready(g))
    return in_flight[missing - 1].order if 0 < missing <= len(in_flight) else None


def _take_empties(plan: Plan, cursor: ShapeCursor, g: int) -> list[SliceBin]:
    """Take up to one gang's number of empty slices, READY ones first."""
    needed = _slices_needed(plan, cursor, g)
    taken = plan.empty_ready(g)[:needed]
    taken += plan.empty_in_flight(g)[: needed - len(taken)]
    plan.fleet.effort.spend(len(taken))
    for slice_bin in taken:
        plan.take_whole(slice_bin)
    return taken


def _whole_on_draining(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    """Take draining slices back for gangs that they complete, in any group, before a slice is launched in another."""
    left = count
    for g in cursor.buy_order if plan.reclaims else ():
        left -= _open_whole(plan, cursor, g, plan.headroom.back(g), run, first + count - left, left)
    return count - left


def _whole_on_new(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = cursor.buy_order, count
    while left and cursor.new_cursor < len(order):
        g = order[cursor.new_cursor]
        plan.fleet.effort.spend(GROUP_STEPS)
        gangs = _open_whole(plan, cursor, g, plan.headroom.of(g), run, first + count - left, left)
        left -= gangs
        cursor.new_cursor += not gangs
    return count - left


def _open_whole(plan: Plan, cursor: ShapeCursor, g: int, headroom: int, run: int, first: int, count: int) -> int:
    """Place gangs on empty slices of a group and on slices opened for them; returns how many."""
    each = _slices_needed(plan, cursor, g)
    empties = len(plan.empty_ready(g)) + len(plan.empty_in_flight(g))
    gangs = min(count, (empties + headroom) // each) if headroom else 0
    if not gangs:
        return 0
    taken = len(_take_empties(plan, cursor, g)) if empties else 0
    if taken:
        plan.charge(((g, each - taken),), 1, Cause.DEMAND, plan.source_of(run), home=plan.home_of(cursor, g))
    if gangs > bool(taken):
        plan.charge(((g, each),), gangs - bool(taken), Cause.DEMAND, plan.source_of(run), home=plan.home_of(cursor, g))
    plan.required[g] += gangs * each - taken
    plan.assign(run, first, gangs, g, Tier.NEW, opened=True)
    return gangs


# --- spread and pack -------------------------------------------------------------------------------------------


_Position = tuple[int, int]
"""Where a READY host comes: the tier of preference of its group, and its place in the index."""


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
    for batch in chain([_Batch(_ready(plan, cursor), Tier.READY, [])], _further_batches(plan, cursor)):
        for host in batch.hosts:
            if host not in apart and cursor.tasks_in(host, 1):
                hosts.append((host, 1))
                if len(hosts) == members:
                    return _Site(hosts, batch.opened, batch.tier)
    return None


def _pack(plan: Plan, cursor: ShapeCursor, members: int, apart: Apart) -> _Site | None:
    """The fewest hosts out of as many batches as the gang needs."""
    hosts = _roomiest_ready(plan, cursor, members, apart)
    space = sum(tasks for _, tasks in hosts)
    if space == members:
        return _Site(hosts, [], Tier.READY)
    for batch in _further_batches(plan, cursor):
        more = [(host, tasks) for host in batch.hosts if host not in apart and (tasks := cursor.tasks_in(host, members))]
        hosts += more
        space += sum(tasks for _, tasks in more)
        if space >= members:
            chosen = _fewest(hosts, members)
            used = {host.owner for host, _ in chosen}
            _give_back(plan, [slice_bin for slice_bin in batch.opened if slice_bin not in used])
            return _Site(chosen, [slice_bin for slice_bin in batch.opened if slice_bin in used], batch.tier)
    return None


def _roomiest_ready(plan: Plan, cursor: ShapeCursor, members: int, apart: Apart) -> list[tuple[HostBin, int]]:
    """READY hosts with the most space first, until every task has a host, the last one perhaps used in part.

    If they do not suffice: all that have space, in order, to be compared with further hosts. Hosts are searched for by the
    number of tasks that they can take: those for all tasks first, then those for fewer.
    """
    chosen: dict[_Position, tuple[HostBin, int]] = {}
    left, tasks = members, members if cursor.per_host is None else min(members, cursor.per_host)
    while left and tasks:
        for i, host in _ready_for(plan, cursor, tasks, chosen, apart):
            chosen[i] = host, min(tasks, left)
            left -= min(tasks, left)
            if not left:
                return list(chosen.values())
        tasks = _next_size(plan, cursor, tasks - 1, chosen, apart)
    return [(host, cursor.tasks_in(host, members)) for _, (host, _) in sorted(chosen.items())]


def _next_size(plan: Plan, cursor: ShapeCursor, most: int, chosen: Collection[_Position], apart: Apart) -> int:
    """The greatest number of tasks, up to `most`, that some other READY host can take. Bisection: what takes more takes fewer."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if next(_ready_for(plan, cursor, middle, chosen, apart), None):
            least = middle
        else:
            most = middle - 1
    return least


def _ready_for(
    plan: Plan, cursor: ShapeCursor, tasks: int, chosen: Collection[_Position], apart: Apart
) -> Iterator[tuple[_Position, HostBin]]:
    """READY hosts, with their positions, that can take a number of tasks, in order, without the chosen ones."""
    index, bound = plan.ready_index, cursor.bound(plan.fleet.layout, tasks)
    hopeless = plan.fleet.alone_bits if cursor.exclusive and tasks > (cursor.per_host or 1) else 0
    for tier, groups in enumerate(plan.ready_tiers(cursor.candidates)):
        groups &= ~hopeless
        i = index.first(0, bound, groups) if groups else NONE
        while i != NONE:
            plan.fleet.effort.spend(HOST_STEPS)
            host = index.hosts[i]
            if (tier, i) not in chosen and host not in apart and cursor.tasks_in(host, tasks) == tasks:
                yield (tier, i), host
            i = index.first(i + 1, bound, groups)


def _further_batches(plan: Plan, cursor: ShapeCursor) -> Iterator[_Batch]:
    """Beyond READY hosts: the hosts of one slice in flight at a time; then those of one new slice at a time.

    New slices are charged to the headroom as they are tried, and given back once no group can add another.
    """
    opened: list[SliceBin] = []
    for _, hosts in groupby(_in_flight(plan, cursor), key=attrgetter("owner")):
        yield _Batch(hosts, Tier.IN_FLIGHT, opened)
    for g in _to_open(plan, cursor):
        plan.headroom.order(g, 1)
        opened.append(plan.fleet.new_bin(g))
        yield _Batch(opened[-1].hosts, Tier.NEW, opened)
    _give_back(plan, opened)


def _to_open(plan: Plan, cursor: ShapeCursor) -> Iterator[int]:
    """The group to open a slice of next: those with draining slices to take back, then each while it may add a slice.

    Trying only takes headroom.
    """
    for reclaims in (True, False) if plan.reclaims else (False,):
        for g in cursor.buy_order:
            plan.fleet.effort.spend(GROUP_STEPS)
            while plan.headroom.back(g) if reclaims else plan.headroom.of(g):
                yield g


def _give_back(plan: Plan, opened: list[SliceBin]) -> None:
    for slice_bin in opened:
        plan.headroom.order(slice_bin.group, -1)


def _settle(plan: Plan, cursor: ShapeCursor, site: _Site, run: int) -> SliceBin:
    """Place the gang on its site; returns the slice that completes it, whose group the gang counts for."""
    if site.opened:
        _give_back(plan, site.opened)  # tried one by one, ordered as one unit
        parts: dict[int, int] = {}
        for slice_bin in site.opened:
            parts[slice_bin.group] = parts.get(slice_bin.group, 0) + 1
        home = plan.home_of(cursor, next(iter(parts))) if len(parts) == 1 else ""
        plan.charge(tuple(parts.items()), 1, Cause.DEMAND, plan.source_of(run), home=home)
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


def _ready(plan: Plan, cursor: ShapeCursor) -> Iterator[HostBin]:
    """READY hosts with space for the shape; moves the cursor to the first."""
    index, tiers, bound = plan.ready_index, plan.ready_tiers(cursor.candidates), cursor.bound(plan.fleet.layout)
    moves = True
    for tier in range(cursor.ready_tier, len(tiers)):
        i = index.first(cursor.ready_cursor if moves else 0, bound, tiers[tier])
        if moves:
            moves = i == NONE
            cursor.ready_tier, cursor.ready_cursor = (tier + 1, 0) if moves else (tier, i)
        while i != NONE:
            yield index.hosts[i]
            i = index.first(i + 1, bound, tiers[tier])


def _in_flight(plan: Plan, cursor: ShapeCursor) -> Iterator[HostBin]:
    """Hosts in flight with space for the shape; moves the cursor to the first."""
    index, bound = plan.in_flight, cursor.bound(plan.fleet.layout)
    i = index.first(cursor.in_flight_cursor, bound, cursor.candidates.bits)
    cursor.in_flight_cursor = len(index.hosts) if i == NONE else i  # hosts are still added at the end
    while i != NONE:
        yield index.hosts[i]
        i = index.first(i + 1, bound, cursor.candidates.bits)
