"""A naive second implementation of docs/placement.md: one entry at a time, one slice at a time, nothing cached."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from penstock.core.decision.match import exclusion, requirement_exclusion, size_exclusion
from penstock.core.decision.pressure import judge as judge_pressure
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.decision import Code, Tier
from penstock.model.elasticity import Drive
from penstock.model.shape import GangPlacement, Shape
from penstock.model.slices import Availability, DrainTerms, HostState, HostUsage, Slice, SliceState, StandingRequest
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
    snapshot = _without_excess(snapshot)
    found = _walk(snapshot, [])
    while found.unmet or found.refused:
        further = _walk(snapshot, found.units)
        if (len(further.unmet), further.refused, further.units) == (len(found.unmet), found.refused, found.units):
            break
        found = further
    return Verdict(found.places, found.unmet, tuple(name for unit in found.units for name in unit))


def _without_excess(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the slices draining by which groups, and then the cluster, exceed their maximum."""
    config = snapshot.config
    leaving: set[str] = set()
    given_up = {each.id for each in snapshot.slices if _is_unclaimed(snapshot, each) and _is_given_up(snapshot, each)}
    for group in config.groups:
        mine = [
            each for each in snapshot.slices if each.group == group.name and not _is_leaving(each) and each.id not in given_up
        ]
        leaving |= {each.id for each in _first_to_go(snapshot, mine)[: max(0, len(mine) - group.max_slices)]}
    left = [each for each in snapshot.slices if not _is_leaving(each) and each.id not in leaving | given_up]
    above = 0 if config.max_slices is None else len(left) - config.max_slices
    for each in _first_to_go(snapshot, left):
        owner = config.group(each.group)
        counted = [o for o in left if o.group == each.group and o.id not in leaving and not _is_unclaimed(snapshot, o)]
        if above > 0 and (owner is None or _is_unclaimed(snapshot, each) or len(counted) > owner.min_slices):
            leaving.add(each.id)
            above -= 1
    drain = DrainTerms(cause="above maximum")
    slices = tuple(each.changed(drain=drain) if each.id in leaving else each for each in snapshot.slices)
    return snapshot.model_copy(update={"slices": slices})


def _first_to_go(snapshot: Snapshot, slices: Sequence[Slice]) -> list[Slice]:
    """Slices that may leave at once, of removed groups before others of their kind; none has an idle time here."""
    newest = list(slices)[::-1]
    removed_first = sorted(newest, key=lambda each: snapshot.config.group(each.group) is not None)
    return [
        *(each for each in removed_first if _is_unclaimed(snapshot, each) and snapshot.config.group(each.group)),
        *(each for each in removed_first if each.state.in_flight and not each.started),
        *(each for each in removed_first if each.state.in_flight and each.started),
    ]


def _is_given_up(snapshot: Snapshot, each: Slice) -> bool:
    after = snapshot.config.unclaimed_after_seconds
    if after is None or each.unclaimed is None or snapshot.config.group(each.group) is None:
        return False
    return snapshot.now - each.unclaimed >= timedelta(seconds=after)


def _walk(snapshot: Snapshot, ordered: list[list[str]]) -> Round:
    named_first = sorted(snapshot.slices, key=lambda each: each.state is SliceState.READY and each.id not in snapshot.usage)
    world = World(snapshot, [lot for each in named_first if (lot := _lot(snapshot, each))], blocked=blocked_groups(snapshot))
    for unit in ordered:
        world.open_unit(unit)
    _open_minimum(world)
    _open_desired(world)
    world, refused = _with_standing_requests(world)
    everything, faults = _entries(snapshot)
    lapsed = [entry for entry in everything if _has_lapsed(snapshot, entry)]
    restarted = [entry for entry in everything if entry not in lapsed and _has_restarted(snapshot, entry)]
    entries = [entry for entry in everything if entry not in lapsed and entry not in restarted]
    by_priority = snapshot.config.placement is Placement.PRIORITY
    world, places = (place_by_priority if by_priority else place_by_filling)(world, entries)
    _open_spares(world)
    for held in (restarted, lapsed):
        world, found = place_by_priority(world, held, buys=False)
        places |= found
    left = [entry for entry in everything if (entry.run, entry.position) not in places]
    pending = _smallest(world, left)
    unmet = {
        (each.run, each.position): (_code if each in entries else _code_if_held)(world, each.shape, pending[_kind(world, each)])
        for each in left
    }
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


def _has_lapsed(snapshot: Snapshot, entry: Entry) -> bool:
    terms = snapshot.sources.get(snapshot.workload.runs[entry.run].source)
    return terms is not None and terms.lease_ends is not None and terms.lease_ends <= snapshot.now


def _has_restarted(snapshot: Snapshot, entry: Entry) -> bool:
    terms = snapshot.sources.get(snapshot.workload.runs[entry.run].source)
    return terms is not None and terms.usage_due is not None and snapshot.now < terms.usage_due


# The initial world


def _lot(snapshot: Snapshot, each: Slice) -> Lot | None:
    """The slice as capacity; None if it is leaving or stalled and only counts against maximums."""
    group = snapshot.config.group(each.group)
    if group is None or _is_leaving(each) or _is_unclaimed(snapshot, each):
        return None
    if each.state is SliceState.READY:
        return _ready_lot(snapshot, each, group)
    return None if _is_stalled(snapshot, each, group) else whole_lot(group, each.id)


def _is_leaving(each: Slice) -> bool:
    return each.drain is not None or not each.state.serves


def _is_unclaimed(snapshot: Snapshot, each: Slice) -> bool:
    return each.state is SliceState.READY and each.unclaimed is not None and each.id not in snapshot.usage


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
        return Lot(group, each.id, [Host.empty(group) for _ in range(group.hosts_per_slice)], ready=True, reported=False)
    if len(usage) == 1 and usage[0].reserved is None:
        usage = usage * group.hosts_per_slice
    if len(usage) != group.hosts_per_slice:
        return Lot(group, each.id, [], ready=True, busy=True)
    hosts = [_host(u, group) for u in usage]
    if any(u.state is HostState.DEGRADED for u in usage):
        hosts = [Host.full(group) for _ in usage]
    return Lot(group, each.id, hosts, ready=True, busy=not all(u.idle for u in usage))


def _host(usage: HostUsage, group: ScaleGroup) -> Host:
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
    slices = (each for each in world.snapshot.slices if not _is_unclaimed(world.snapshot, each))
    listed = sum(each.group == group.name and not _is_leaving(each) for each in slices)
    return listed + world.opened(group)


def _open_up_to(world: World, group: ScaleGroup, target: int) -> None:
    while _existing(world, group) < target and world.headroom(group):
        world.open(group)
        world.units.append([group.name])


def _open_minimum(world: World) -> None:
    for group in world.groups:
        _open_up_to(world, group, group.min_slices)


def _open_desired(world: World) -> None:
    """Open the slices that reports of pressure want beyond those that a group has."""
    now = world.snapshot.now
    for group in world.groups:
        if group.drive is Drive.PRESSURE:
            have = _existing(world, group) - world.opened(group)
            _open_up_to(world, group, judge_pressure(group, world.snapshot.pressure.get(group.name), have=have, now=now).slices)


def _with_standing_requests(world: World) -> tuple[World, int]:
    """The world with the slices that granted requests open, and the number of refused requests.

    Each request is tried together with those granted before it, on whole slices, by the cluster's placement; `packing` and
    `cost` first try all requests together.
    """
    lots = [whole_lot(lot.group, lot.id, ready=lot.ready) for lot in world.lots]
    floor = World(world.snapshot, lots, world.blocked, [list(unit) for unit in world.units], list(world.fresh))
    by_priority = world.snapshot.config.placement is Placement.PRIORITY
    place = place_by_priority if by_priority else place_by_filling
    requests = sorted(world.snapshot.standing, key=lambda request: request.owner)
    live = [request for request in requests if request.expires is None or request.expires > world.snapshot.now]
    granted: list[Entry] = []
    opened, refused = floor.units, 0
    together: list[Entry] = []
    for request in live:
        together += _standing_entries(request, len(together))
    after, places = place(floor.copy(), together)
    if not by_priority and len(places) == len(together):
        live, opened = [], after.units
    for request in live:
        entries = granted + _standing_entries(request, len(granted))
        after, places = place(floor.copy(), entries)
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


def _code(world: World, shape: Shape, pending: int) -> Code:
    """The code of an unmet shape; `pending` are the tasks of its smallest unmet gang."""
    groups: Sequence[ScaleGroup] = [g for g in world.groups if requirement_exclusion(shape, g) is None]
    if not groups:
        return Code.NO_MATCHING_GROUP
    if all(size_exclusion(shape, g) is Code.INSUFFICIENT_RESOURCES for g in groups):
        return Code.INSUFFICIENT_RESOURCES
    candidates = [g for g in groups if exclusion(shape, g) is None]
    if not candidates:
        return Code.GANG_SIZE_MISMATCH
    waiting = [g for g in candidates if _most_ever(world, g) >= _needed(shape, g)]
    if shape.gang is not None and shape.gang.placement is not GangPlacement.WHOLE_SLICES:
        held = sum(_most_ever(world, g) * g.hosts_per_slice * min(pending, _on_empty_host(shape, g)) for g in candidates)
        waiting = waiting if held >= pending else []
    tiers = bool(waiting) and all(world.blocked.get(g.name) == "tier" for g in waiting)
    return Code.TIER_BLOCKED if tiers else Code.NO_CAPACITY


def _on_empty_host(shape: Shape, group: ScaleGroup) -> int:
    """Tasks of one gang that an unused host of the group takes."""
    one = shape.gang is not None and shape.gang.placement is GangPlacement.SPREAD
    return min(1, Host.empty(group).room(shape, group)) if one else Host.empty(group).room(shape, group)


def _code_if_held(world: World, shape: Shape, pending: int) -> Code:
    """The code of an entry that may buy nothing new: what excludes it for ever, else that there is no room."""
    code = _code(world, shape, pending)
    return Code.NO_CAPACITY if code is Code.TIER_BLOCKED else code


def _smallest(world: World, left: Sequence[Entry]) -> dict[object, int]:
    """Pending tasks of the smallest unmet gang, by source and shape."""
    found: dict[object, int] = {}
    for entry in left:
        key = _kind(world, entry)
        found[key] = min(entry.pending, found.get(key, entry.pending))
    return found


def _kind(world: World, entry: Entry) -> object:
    """What is explained together: entries of one shape, and if they may buy nothing new, of one source."""
    snapshot = world.snapshot
    held = _has_lapsed(snapshot, entry) or _has_restarted(snapshot, entry)
    return (snapshot.workload.runs[entry.run].source if held else None, entry.shape.key)


def _most_ever(world: World, group: ScaleGroup) -> int:
    """The most slices that the group could have if no other slice existed."""
    config = world.snapshot.config
    bounds = [group.max_slices] + ([] if config.max_slices is None else [config.max_slices])
    bounds += [max(0, pool.chips - pool.system) // group.chips_per_slice for pool in config.pools if pool.name == group.pool]
    return min(bounds)


def _needed(shape: Shape, group: ScaleGroup) -> int:
    whole = shape.gang is not None and shape.gang.placement is GangPlacement.WHOLE_SLICES
    return shape.gang.hosts // group.hosts_per_slice if shape.gang is not None and whole else 1
