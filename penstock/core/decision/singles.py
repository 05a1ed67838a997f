"""Place single tasks: on READY hosts, then on hosts in flight, then on new slices."""

from penstock.core.decision.bins import HostBin
from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.first_fit import NONE
from penstock.core.decision.host_index import HostIndex
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


def place_on_slices_to_come(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    """Place entries on slices in flight and on new ones; returns how many stay unplaced."""
    left = count - _in_flight(plan, cursor, run, first, count)
    return left - _on_new(plan, cursor, run, first + count - left, left)


def _on_ready(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    index, tiers, placed = plan.ready_index, plan.ready_tiers(cursor.candidates), 0
    while placed < count and cursor.ready_tier < len(tiers):
        groups = tiers[cursor.ready_tier]
        i, more = _first_fit(plan, cursor, index, cursor.ready_cursor, groups, run, first + placed, count - placed, Tier.READY)
        placed += more
        cursor.ready_cursor = max(0, i)
        cursor.ready_tier += i == NONE
    return placed


def _in_flight(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    index = plan.in_flight
    i, placed = _first_fit(
        plan, cursor, index, cursor.in_flight_cursor, cursor.candidates.bits, run, first, count, Tier.IN_FLIGHT
    )
    cursor.in_flight_cursor = len(index.hosts) if i == NONE else i  # hosts are still added at the end
    return placed


def _first_fit(
    plan: Plan, cursor: ShapeCursor, index: HostIndex, i: int, groups: int, run: int, first: int, count: int, tier: Tier
) -> tuple[int, int]:
    """Place entries on hosts of the groups from `i` on; returns the first position that may take the shape, and how many."""
    bound, hosts, left = cursor.bound(plan.fleet.layout), index.hosts, count
    while left and (i := index.first(i, bound, groups)) != NONE:
        left -= _put(plan, cursor, hosts[i], run, first + count - left, left, tier)
    return i, count - left


def _put(plan: Plan, cursor: ShapeCursor, host: HostBin, run: int, first: int, left: int, tier: Tier) -> int:
    tasks = cursor.tasks_in(host, left)
    if tasks:
        plan.take(host, cursor, tasks)
        plan.assign(run, first, tasks, host.owner.group, tier, opened=host.owner.opened)
    return tasks


def _on_new(plan: Plan, cursor: ShapeCursor, run: int, first: int, count: int) -> int:
    left = count
    while left and cursor.buy_order and (found := plan.first_with_headroom(cursor.candidates)) is not None:
        g, headroom = found
        left -= _open_for(plan, cursor, g, headroom, run, first + count - left, left)
    return count - left


def _open_for(plan: Plan, cursor: ShapeCursor, g: int, headroom: int, run: int, first: int, count: int) -> int:
    """Open as many slices as the entries fill or the headroom allows; the last one may stay partly free."""
    group = plan.fleet.groups[g]
    per_host = cursor.tasks_in_new(group, count)
    per_slice = per_host * group.hosts_per_slice
    slices = min(headroom, -(-count // per_slice))
    placed = min(count, slices * per_slice)
    plan.charge(((g, 1),), slices, Cause.DEMAND, plan.source_of(run), home=plan.home_of(cursor, g))
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
