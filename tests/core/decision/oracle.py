"""A naive second implementation of docs/placement.md: one entry at a time, one slice at a time, nothing cached."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from penstock.core.decision.match import exclusion, requirement_exclusion, size_exclusion
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.decision import Code, Tier
from penstock.model.shape import Shape
from penstock.model.slices import Availability, HostState, HostUsage, Slice, SliceState, StandingRequest
from penstock.model.snapshot import Snapshot
from tests.core.decision.oracle_filling import place_by_filling
from tests.core.decision.oracle_placing import Entry, place_by_priority
from tests.core.decision.oracle_world import Host, Lot, World, whole_lot


class Verdict(NamedTuple):
    """The comparable part of a decision: group or code of every entry, and the groups of the opened slices in order."""

    places: dict[tuple[int, int], tuple[str, Tier]]
    unmet: dict[tuple[int, int], Code]
    opened: tuple[str, ...]


class Round(NamedTuple):
    """One pass through the steps of a decision, with the units that earlier passes opened."""

    places: dict[tuple[int, int], tuple[str, Tier]]
    unmet: dict[tuple[int, int], Code]
    refused: int
    units: list[list[str]]


def judge(snapshot: Snapshot) -> Verdict:
    """The decision of docs/placement.md on the snapshot, before launch limits."""
    found = _walk(snapshot, [])
    while found.unmet or found.refused:
        further = _walk(snapshot, found.units)
        if (len(further.unmet), further.refused, further.units) == (len(found.unmet), found.refused, found.units):
            break
        found = further
    return Verdict(found.places, found.unmet, tuple(name for unit in found.units for name in unit))


def _walk(snapshot: Snapshot, ordered: list[list[str]]) -> Round:
    world = World(snapshot, [lot for each in snapshot.slices if (lot := _lot(snapshot, each))], blocked=blocked_groups(snapshot))
    for unit in ordered:
        world.open_unit(unit)
    _open_minimum(world)
    world, refused = _with_standing_requests(world)
    entries, faults = _entries(snapshot)
    by_priority = snapshot.config.placement is Placement.PRIORITY
    world, places = (place_by_priority if by_priority else place_by_filling)(world, entries)
    unmet = {key: _code(world, entry.shape) for entry in entries if (key := (entry.run, entry.position)) not in places}
    _open_spares(world)
    return Round(places, unmet | faults, refused, world.units)


def _entries(snapshot: Snapshot) -> tuple[list[Entry], dict[tuple[int, int], Code]]:
    entries, faults = [], {}
    for number, run in enumerate(snapshot.workload.runs):
        for position in range(run.entries):
            if run.fault is not None:
                faults[number, position] = Code(run.fault.code)
            else:
                shape = snapshot.workload.shapes[run.shape]
                entries.append(Entry(number, position, shape, run.pending, frozenset(run.apart)))
    return entries, faults


# The initial world


def _lot(snapshot: Snapshot, each: Slice) -> Lot | None:
    """The slice as capacity; None if it is leaving or stalled and only counts against maximums."""
    group = snapshot.config.group(each.group)
    if group is None or _is_leaving(each):
        return None
    if each.state is SliceState.READY:
        return _ready_lot(snapshot, each, group)
    return None if _is_stalled(snapshot, each, group) else whole_lot(group, each.id)


def _is_leaving(each: Slice) -> bool:
    return each.drain is not None or not each.state.serves


def _is_stalled(snapshot: Snapshot, each: Slice, group: ScaleGroup) -> bool:
    if each.since is None:
        return each.queued
    return (each.queued or each.state is SliceState.REQUESTING) and _waited(snapshot, each, group)


def _waited(snapshot: Snapshot, each: Slice, group: ScaleGroup) -> bool:
    """Whether the slice has been in its state for its group's patience."""
    patience = timedelta(seconds=snapshot.config.patience_of(group))
    return each.since is not None and snapshot.now - each.since >= patience


def _ready_lot(snapshot: Snapshot, each: Slice, group: ScaleGroup) -> Lot:
    usage = snapshot.usage.get(each.id)
    if usage is None:
        grace = timedelta(seconds=snapshot.config.ready_grace_seconds)
        new = each.since is not None and snapshot.now - each.since < grace
        return Lot(group, each.id, [Host.empty(group) for _ in range(group.hosts_per_slice) if new], ready=True, busy=not new)
    if len(usage) == 1 and usage[0].reserved is None:
        usage = usage * group.hosts_per_slice
    if len(usage) != group.hosts_per_slice:
        return Lot(group, each.id, [], ready=True, busy=True)
    return Lot(group, each.id, [_host(u, group) for u in usage], ready=True, busy=not all(u.idle for u in usage))


def _host(usage: HostUsage, group: ScaleGroup) -> Host:
    if usage.state is HostState.DEGRADED:
        return Host.full(group)
    if usage.reserved is None:
        return Host.empty(group) if usage.idle else Host.full(group)
    offer = group.host.vector
    free = [max(0, have - taken) for have, taken in zip(offer, usage.reserved.vector, strict=True)]
    return Host(free, whole=usage.idle and free == list(offer))


def blocked_groups(snapshot: Snapshot) -> dict[str, str]:
    """Groups that may not add slices: by their own health, by the cloud's queue, or by the tier of a quota pool."""
    blocked: dict[str, str] = {}
    for group in snapshot.config.groups:
        if _unwell(snapshot, group):
            blocked[group.name] = "health"
        elif any(_is_stuck(snapshot, each, group) for each in snapshot.slices):
            blocked[group.name] = "queue"
    for group in snapshot.config.groups:
        if not _unwell(snapshot, group) or snapshot.health[group.name].availability is not Availability.QUOTA_EXCEEDED:
            continue
        for other in snapshot.config.groups:
            same_pool = group.quota_pool is not None and other.quota_pool == group.quota_pool
            if other.name != group.name and same_pool and other.quota_tier >= group.quota_tier:
                blocked.setdefault(other.name, "tier")
    return blocked


def _unwell(snapshot: Snapshot, group: ScaleGroup) -> bool:
    health = snapshot.health.get(group.name)
    if health is None or health.availability is Availability.AVAILABLE:
        return False
    return health.until is None or health.until > snapshot.now


def _is_stuck(snapshot: Snapshot, each: Slice, group: ScaleGroup) -> bool:
    """Whether the slice has waited in the cloud's queue beyond patience."""
    return each.group == group.name and each.queued and each.state.in_flight and _waited(snapshot, each, group)


# Minimum, standing requests and spares


def _existing(world: World, group: ScaleGroup) -> int:
    """READY, in flight, queued and opened slices of a group."""
    listed = sum(each.group == group.name and not _is_leaving(each) for each in world.snapshot.slices)
    return listed + world.opened(group)


def _open_up_to(world: World, group: ScaleGroup, target: int) -> None:
    while _existing(world, group) < target and world.headroom(group):
        world.open(group)
        world.units.append([group.name])


def _open_minimum(world: World) -> None:
    for group in world.groups:
        _open_up_to(world, group, group.min_slices)


def _with_standing_requests(world: World) -> tuple[World, int]:
    """The world with the slices that granted requests open, and the number of refused requests.

    Each request is tried together with those granted before it, on whole slices.
    """
    lots = [whole_lot(lot.group, lot.id, ready=lot.ready) for lot in world.lots]
    floor = World(world.snapshot, lots, world.blocked, [list(unit) for unit in world.units], list(world.fresh))
    granted: list[Entry] = []
    opened, refused = floor.units, 0
    for request in sorted(world.snapshot.standing, key=lambda request: request.owner):
        if request.expires is None or request.expires > world.snapshot.now:
            entries = granted + _standing_entries(request, len(granted))
            after, places = place_by_priority(floor.copy(), entries)
            if len(places) == len(entries):
                granted, opened = entries, after.units
            else:
                refused += 1
    for unit in opened[len(floor.units) :]:
        world.open_unit(unit)
    return world, refused


def _standing_entries(request: StandingRequest, first: int) -> list[Entry]:
    entries: list[Entry] = []
    for item in request.wants:
        shape = Shape.model_construct(**{name: getattr(item, name) for name in Shape.model_fields})
        pending = item.gang.size if item.gang else 1
        entries += [Entry(first + len(entries), position, shape, pending, frozenset()) for position in range(item.count)]
    return entries


def _open_spares(world: World) -> None:
    for group in world.groups:
        need = sum(lot.group is group and (lot.busy or lot.used) for lot in world.lots)
        if group.watermark is not None:
            _open_up_to(world, group, -(-100 * need // group.watermark))
        _open_up_to(world, group, need + group.warm_slices)


# Codes of unmet entries


def _code(world: World, shape: Shape) -> Code:
    groups: Sequence[ScaleGroup] = [g for g in world.groups if requirement_exclusion(shape, g) is None]
    if not groups:
        return Code.NO_MATCHING_GROUP
    if all(size_exclusion(shape, g) is Code.INSUFFICIENT_RESOURCES for g in groups):
        return Code.INSUFFICIENT_RESOURCES
    candidates = [g for g in groups if exclusion(shape, g) is None]
    if not candidates:
        return Code.GANG_SIZE_MISMATCH
    tiers = all(world.blocked.get(g.name) == "tier" for g in candidates)
    return Code.TIER_BLOCKED if tiers else Code.NO_CAPACITY
