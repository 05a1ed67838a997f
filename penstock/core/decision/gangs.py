"""Placing gangs, all of a gang or nothing: on whole slices, spread over hosts, or packed on few."""

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin, SliceBin
from penstock.core.decision.plan import Plan
from penstock.model.decision import Cause, Tier
from penstock.model.shape import GangPlacement

Apart = frozenset[HostBin]


def place_gangs(plan: Plan, want: ShapeCursor, run: int, first: int, count: int, *, pending: int, apart: Apart) -> int:
    """Place gangs `first` to `first + count` of a run, `pending` tasks each; returns how many found no place."""
    assert want.gang is not None
    if want.gang.placement is GangPlacement.WHOLE_SLICES:
        return _place_whole(plan, want, run, first, count)
    find = _spread if want.gang.placement is GangPlacement.SPREAD else _pack
    for index in range(first, first + count):
        site = find(plan, want, pending, apart)
        if site is None:
            return first + count - index
        owner = _settle(plan, want, site)
        plan.assign(run, index, 1, owner.group, site.tier, opened=owner.opened)
    return 0


# --- whole slices ---------------------------------------------------------------------------------------------


def _place_whole(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    left = count
    for step in (_whole_on_ready, _whole_in_flight, _whole_on_new):
        left -= step(plan, want, run, first + count - left, left)
        if not left:
            break
    return left


def _slices_needed(plan: Plan, want: ShapeCursor, g: int) -> int:
    assert want.gang is not None
    return want.gang.hosts // plan.fleet.groups[g].hosts_per_slice


def _empty(rooms: list[SliceBin]) -> list[SliceBin]:
    """The slices that a gang may still take; those in use are dropped for good."""
    if rooms and not all(room.empty for room in rooms):
        rooms[:] = [room for room in rooms if room.empty]
    return rooms


def _whole_on_ready(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = want.candidates.order, count
    while left and want.ready_cursor < len(order):
        g = order[want.ready_cursor]
        rooms, each = [room for room in plan.ready[g] if room.empty], _slices_needed(plan, want, g)
        gangs = min(left, len(rooms) // each)
        for room in rooms[: gangs * each]:
            plan.take_whole(room)
        if gangs:
            plan.assign(run, first + count - left, gangs, g, Tier.READY, opened=False)
            left -= gangs
        if left:
            want.ready_cursor += 1
    return count - left


def _whole_in_flight(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    """The group whose empty slices are complete first, in the order they were ordered, takes the next gang."""
    if want.flight_spent:
        return 0
    left = count
    heap = [(at, g) for g in want.candidates.order if (at := _completed_at(plan, want, g)) is not None]
    heapify(heap)
    while left and heap:
        _, g = heap[0]
        taken = _take_empties(plan, want, g)
        plan.assign(run, first + count - left, 1, g, Tier.IN_FLIGHT, opened=taken[-1].opened)
        left -= 1
        at = _completed_at(plan, want, g)
        if at is None:
            heappop(heap)
        else:
            heapreplace(heap, (at, g))
    want.flight_spent = not heap
    return count - left


def _completed_at(plan: Plan, want: ShapeCursor, g: int) -> int | None:
    """When, in order of ordering, the group has slices enough for one gang: READY ones and those on their way."""
    flight = _empty(plan.flight_slices[g])
    if not flight:
        return None
    missing = _slices_needed(plan, want, g) - sum(room.empty for room in plan.ready[g])
    return flight[missing - 1].order if 0 < missing <= len(flight) else None


def _take_empties(plan: Plan, want: ShapeCursor, g: int) -> list[SliceBin]:
    """Give up to one gang's worth of empty slices away, READY ones first."""
    rooms = [room for room in plan.ready[g] if room.empty] + _empty(plan.flight_slices[g])
    taken = rooms[: _slices_needed(plan, want, g)]
    for room in taken:
        plan.take_whole(room)
    return taken


def _whole_on_new(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = want.buying, count
    while left and want.new_cursor < len(order):
        g = order[want.new_cursor]
        each = _slices_needed(plan, want, g)
        empties = sum(room.empty for room in plan.ready[g]) + len(_empty(plan.flight_slices[g]))
        gangs = min(left, (empties + plan.headroom.of(g)) // each)
        if not gangs:
            want.new_cursor += 1
            continue
        taken = len(_take_empties(plan, want, g)) if empties else 0
        if taken:
            plan.charge(((g, each - taken),), 1, Cause.DEMAND)
        if gangs > bool(taken):
            plan.charge(((g, each),), gangs - bool(taken), Cause.DEMAND)
        plan.required[g] += gangs * each - taken
        plan.assign(run, first + count - left, gangs, g, Tier.NEW, opened=True)
        left -= gangs
    return count - left


# --- spread and pack -------------------------------------------------------------------------------------------


class _Site(NamedTuple):
    """Where a gang would go: hosts with the tasks each takes, and slices to open for some of them."""

    hosts: list[tuple[HostBin, int]]
    opened: list[SliceBin]
    tier: Tier


def _settle(plan: Plan, want: ShapeCursor, site: _Site) -> SliceBin:
    """Carry the site out; returns the slice that completes it, for whose group the gang counts."""
    if site.opened:
        parts: dict[int, int] = {}
        for room in site.opened:
            plan.headroom.order(room.group, -1)
            parts[room.group] = parts.get(room.group, 0) + 1
        plan.charge(tuple(parts.items()), 1, Cause.DEMAND)
    for host, tasks in site.hosts:
        plan.take(host, want, tasks)
    plan.add_flight(site.opened)
    return site.hosts[-1][0].owner


def _spread(plan: Plan, want: ShapeCursor, members: int, apart: Apart) -> _Site | None:
    """The first hosts with room for one task each."""
    hosts: list[tuple[HostBin, int]] = []
    tier = Tier.READY
    for tier, source in ((Tier.READY, _ready(plan, want)), (Tier.IN_FLIGHT, _flight(plan, want))):
        for host in source:
            if len(hosts) == members:
                break
            if host not in apart and want.tasks_in(host, 1):
                hosts.append((host, 1))
        if len(hosts) == members:
            return _Site(hosts, [], tier)
    opened: list[SliceBin] = []
    while len(hosts) < members:
        room = _tentative(plan, want)
        if room is None:
            _give_up(plan, opened)
            return None
        opened.append(room)
        hosts += [(host, 1) for host in room.hosts[: members - len(hosts)]]
    return _Site(hosts, opened, Tier.NEW)


def _pack(plan: Plan, want: ShapeCursor, members: int, apart: Apart) -> _Site | None:
    """The fewest hosts among READY ones and, slice by slice as ordered, as many more as it takes."""
    hosts: list[tuple[HostBin, int]] = []

    def extend(more: Iterable[HostBin]) -> bool:
        hosts.extend((host, k) for host in more if host not in apart and (k := want.tasks_in(host, members)))
        return sum(k for _, k in hosts) >= members

    if extend(_ready(plan, want)):
        return _Site(_fewest(hosts, members), [], Tier.READY)
    owner: SliceBin | None = None
    for host in _flight(plan, want):
        if host.owner is not owner and extend(owner.hosts if owner else ()):
            return _Site(_fewest(hosts, members), [], Tier.IN_FLIGHT)
        owner = host.owner
    if owner and extend(owner.hosts):
        return _Site(_fewest(hosts, members), [], Tier.IN_FLIGHT)
    opened: list[SliceBin] = []
    while True:
        room = _tentative(plan, want)
        if room is None:
            _give_up(plan, opened)
            return None
        opened.append(room)
        if extend(room.hosts):
            chosen = _fewest(hosts, members)
            used = {host.owner for host, _ in chosen}
            _give_up(plan, [room for room in opened if room not in used])
            return _Site(chosen, [room for room in opened if room in used], Tier.NEW)


def _fewest(hosts: list[tuple[HostBin, int]], members: int) -> list[tuple[HostBin, int]]:
    """The largest hosts first until every member has a place."""
    chosen, left = [], members
    for host, k in sorted(hosts, key=lambda item: -item[1]):
        if left:
            chosen.append((host, min(k, left)))
            left -= min(k, left)
    return chosen


def _ready(plan: Plan, want: ShapeCursor) -> Iterable[HostBin]:
    """READY hosts from the first that has not refused the shape; moves the cursor past those that do."""
    hosts = plan.ready_hosts(want.candidates)
    while want.ready_cursor < len(hosts) and not want.tasks_in(hosts[want.ready_cursor], 1):
        want.ready_cursor += 1
    return hosts[want.ready_cursor :]


def _flight(plan: Plan, want: ShapeCursor) -> Iterable[HostBin]:
    """Hosts on their way, of candidate groups, from the first that has not refused the shape."""
    flight, mask = plan.flight, want.candidates.mask
    i = want.flight_cursor
    while i < len(flight) and not (mask[flight[i].owner.group] and want.tasks_in(flight[i], 1)):
        i += 1
    want.flight_cursor = i
    for j in range(i, len(flight)):
        if mask[flight[j].owner.group]:
            yield flight[j]


def _tentative(plan: Plan, want: ShapeCursor) -> SliceBin | None:
    """One more slice of the first candidate that may add one, charged until it is settled or given up."""
    for g in want.buying:
        if plan.headroom.of(g):
            plan.headroom.order(g, 1)
            return plan.fleet.new_room(g)
    return None


def _give_up(plan: Plan, opened: list[SliceBin]) -> None:
    for room in opened:
        plan.headroom.order(room.group, -1)
