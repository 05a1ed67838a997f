"""Placing tasks that need nothing but a place on some host: ready, then in flight, then new."""

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin
from penstock.core.decision.plan import Plan
from penstock.model.decision import Cause, Tier


def place_singles(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    """Place entries `first` to `first + count` of a run; returns how many found no place."""
    left = count
    for step in (_on_ready, _in_flight, _on_new):
        placed = step(plan, want, run, first + count - left, left)
        left -= placed
        if not left:
            break
    return left


def _on_ready(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    hosts = plan.ready_hosts(want.candidates)
    i, left = want.ready_cursor, count
    while i < len(hosts):
        host = hosts[i]
        if not host.closed:
            left -= _put(plan, want, host, run, first + count - left, left, Tier.READY)
            if not left:
                break
        i += 1
    want.ready_cursor = i
    return count - left


def _in_flight(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    flight, mask, left = plan.flight, want.candidates.mask, count
    cpu, memory, disk, gpu, tpu = want.need
    i = plan.first_open(want.flight_cursor)
    while i < len(flight):
        host = flight[i]
        if (
            host.cpu >= cpu
            and host.memory >= memory
            and host.disk >= disk
            and host.gpu >= gpu
            and host.tpu >= tpu
            and mask[host.owner.group]
        ):
            left -= _put(plan, want, host, run, first + count - left, left, Tier.IN_FLIGHT)
            if host.closed:
                plan.close_flight(i)
            if not left:
                break
        elif host.closed:
            plan.close_flight(i)
        i = plan.first_open(i + 1)
    want.flight_cursor = i
    return count - left


def _put(plan: Plan, want: ShapeCursor, host: HostBin, run: int, first: int, left: int, tier: Tier) -> int:
    tasks = want.tasks_in(host, left)
    if tasks:
        plan.take(host, want, tasks)
        plan.assign(run, first, tasks, host.owner.group, tier, opened=host.owner.opened)
    return tasks


def _on_new(plan: Plan, want: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = want.buying, count
    while left and want.new_cursor < len(order):
        g = order[want.new_cursor]
        room = plan.headroom.of(g)
        if not room:
            want.new_cursor += 1
            continue
        left -= _open_for(plan, want, g, room, run, first + count - left, left)
    return count - left


def _open_for(plan: Plan, want: ShapeCursor, g: int, room: int, run: int, first: int, count: int) -> int:
    """Open as many slices of the group as the entries fill, or as it may add; the last may have room left over."""
    group = plan.fleet.groups[g]
    per_host = want.tasks_in_new(group, count)
    per_slice = per_host * group.hosts_per_slice
    slices = min(room, -(-count // per_slice))
    placed = min(count, slices * per_slice)
    plan.charge(((g, 1),), slices, Cause.DEMAND)
    rooms = [plan.fleet.new_room(g) for _ in range(slices)]
    left = placed
    for host in (host for opened in rooms for host in opened.hosts):
        if not left:
            break
        tasks = min(per_host, left)
        plan.take(host, want, tasks)
        left -= tasks
    plan.add_flight(rooms)
    plan.assign(run, first, placed, g, Tier.NEW, opened=True)
    return placed
