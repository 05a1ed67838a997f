"""Place single tasks: on READY hosts, then on hosts in flight, then on new slices."""

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin
from penstock.core.decision.plan import Plan
from penstock.model.decision import Cause, Tier


def place_singles(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    """Place entries `first` to `first + count` of a run; returns how many stay unplaced."""
    left = count
    for step in (_on_ready, _in_flight, _on_new):
        left -= step(plan, cursor, run, first + count - left, left)
        if not left:
            break
    return left


def _on_ready(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    hosts = plan.ready_hosts(cursor.candidates)
    i, left = cursor.ready_cursor, count
    while i < len(hosts):
        host = hosts[i]
        if not host.closed:
            left -= _put(plan, cursor, host, run, first + count - left, left, Tier.READY)
            if not left:
                break
        i += 1
    cursor.ready_cursor = i
    return count - left


def _in_flight(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    hosts, mask, left = plan.in_flight_hosts, cursor.candidates.mask, count
    cpu, memory, disk, gpu, tpu = cursor.need
    i = plan.first_open(cursor.in_flight_cursor)
    while i < len(hosts):
        host = hosts[i]
        if (
            host.cpu >= cpu
            and host.memory >= memory
            and host.disk >= disk
            and host.gpu >= gpu
            and host.tpu >= tpu
            and mask[host.owner.group]
        ):
            left -= _put(plan, cursor, host, run, first + count - left, left, Tier.IN_FLIGHT)
            if host.closed:
                plan.close_in_flight(i)
            if not left:
                break
        elif host.closed:
            plan.close_in_flight(i)
        i = plan.first_open(i + 1)
    cursor.in_flight_cursor = i
    return count - left


def _put(plan: Plan, cursor: ShapeCursor, host: HostBin, run: int, first: int, left: int, tier: Tier) -> int:
    tasks = cursor.tasks_in(host, left)
    if tasks:
        plan.take(host, cursor, tasks)
        plan.assign(run, first, tasks, host.owner.group, tier, opened=host.owner.opened)
    return tasks


def _on_new(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    order, left = cursor.buy_order, count
    while left and cursor.new_cursor < len(order):
        g = order[cursor.new_cursor]
        headroom = plan.headroom.of(g)
        if not headroom:
            cursor.new_cursor += 1
            continue
        left -= _open_for(plan, cursor, g, headroom, run, first + count - left, left)
    return count - left


def _open_for(plan: Plan, cursor: ShapeCursor, g: int, headroom: int, run: int, first: int, count: int) -> int:
    """Open as many slices as the entries fill or the headroom allows; the last one may stay partly free."""
    group = plan.fleet.groups[g]
    per_host = cursor.tasks_in_new(group, count)
    per_slice = per_host * group.hosts_per_slice
    slices = min(headroom, -(-count // per_slice))
    placed = min(count, slices * per_slice)
    plan.charge(((g, 1),), slices, Cause.DEMAND)
    bins = [plan.fleet.new_bin(g) for _ in range(slices)]
    left = placed
    for host in (host for slice_bin in bins for host in slice_bin.hosts):
        if not left:
            break
        tasks = min(per_host, left)
        plan.take(host, cursor, tasks)
        left -= tasks
    plan.add_in_flight(bins)
    plan.assign(run, first, placed, g, Tier.NEW, opened=True)
    return placed
