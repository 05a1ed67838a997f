"""The rules of `priority`, and of gangs under any placement, as docs/placement.md states them."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Tier
from penstock.model.runs import HostRef
from penstock.model.shape import GangPlacement, Shape
from tests.core.decision.oracle_world import Host, Lot, World

Place: TypeAlias = tuple[str, Tier]
Placing: TypeAlias = tuple[World, dict[tuple[int, int], Place]]


class Entry(NamedTuple):
    """One entry: its shape, and its position in the demand."""

    run: int
    position: int
    shape: Shape
    pending: int
    apart: frozenset[HostRef]


def place_by_priority(world: World, entries: Sequence[Entry], *, buys: bool = True) -> Placing:
    """Place entries in the given order. If accelerators are conserved, CPU work gets a second pass over all groups."""
    if not world.snapshot.config.conserve_accelerators:
        return _one_pass(world, entries, lambda shape: world.candidates(shape), buys=buys)
    world, first = _one_pass(world, entries, lambda shape: _spared(world.candidates(shape), shape), buys=buys)
    rest = [entry for entry in entries if (entry.run, entry.position) not in first and not entry.shape.accelerated]
    world, second = _one_pass(world, rest, lambda shape: plain_first(world.candidates(shape)), buys=buys)
    return world, first | second


def _one_pass(
    world: World, entries: Sequence[Entry], candidates: Callable[[Shape], Sequence[ScaleGroup]], *, buys: bool
) -> Placing:
    places = {}
    for entry in entries:
        groups = candidates(entry.shape)
        world, place = place_one(world, entry, Choice(groups, groups if buys else ()))
        if place is not None:
            places[entry.run, entry.position] = place
    return world, places


def _spared(groups: Sequence[ScaleGroup], shape: Shape) -> list[ScaleGroup]:
    return [group for group in groups if shape.accelerated or not group.accelerated]


def plain_first(groups: Sequence[ScaleGroup]) -> list[ScaleGroup]:
    return sorted(groups, key=lambda group: group.accelerated)


class Choice(NamedTuple):
    """The groups that an entry may use: in the order of trying existing slices, and of opening new ones."""

    existing: Sequence[ScaleGroup]
    buying: Sequence[ScaleGroup]


def place_one(world: World, entry: Entry, choice: Choice) -> tuple[World, Place | None]:
    """The world after placing the entry, whole or not at all."""
    gang = entry.shape.gang
    trial = world.copy()
    opened = len(trial.fresh)
    if gang is None:
        place = _place_single(trial, entry, choice)
    else:
        rules = {GangPlacement.WHOLE_SLICES: _place_whole, GangPlacement.SPREAD: _place_spread, GangPlacement.PACK: _place_pack}
        place = rules[gang.placement](trial, entry, choice)
    if place is None:
        return world, None
    if trial.fresh[opened:]:
        trial.units.append(trial.fresh[opened:])
    return trial, place


def _lots(world: World, choice: Choice) -> Iterator[tuple[Lot, Tier]]:
    """Slices in the order in which they are tried. New slices are opened lazily."""
    for lot in world.ready_of(choice.existing):
        yield lot, Tier.READY
    yield from _further_lots(world, choice)


def _further_lots(world: World, choice: Choice) -> Iterator[tuple[Lot, Tier]]:
    for lot in world.in_flight():
        if lot.group in choice.existing:
            yield lot, Tier.IN_FLIGHT
    for group in choice.buying:
        while world.headroom(group):
            yield world.open(group), Tier.NEW


def _place_single(world: World, entry: Entry, choice: Choice) -> Place | None:
    for lot, tier in _lots(world, choice):
        for host in lot.hosts:
            if host.room(entry.shape, lot.group):
                host.take(entry.shape, lot.group)
                lot.used = True
                lot.opener = entry.run if tier is Tier.NEW else lot.opener  # the whole run counts as on a new slice
                return lot.group.name, Tier.NEW if lot.opener == entry.run else tier
    return None


def _place_whole(world: World, entry: Entry, choice: Choice) -> Place | None:
    gang = entry.shape.gang
    assert gang is not None
    slices = {group.name: gang.hosts // group.hosts_per_slice for group in choice.existing}
    ready = {group.name: [lot for lot in world.ready(group) if lot.empty] for group in choice.existing}
    reported = {name: [lot for lot in lots if lot.reported] for name, lots in ready.items()}
    for known in (reported, ready):
        for group in choice.existing:
            if len(known[group.name]) >= slices[group.name]:
                return _fill(known[group.name][: slices[group.name]], Tier.READY)
    empty = {name: list(lots) for name, lots in ready.items()}
    for lot in world.in_flight():
        name = lot.group.name
        if lot.group in choice.existing and lot.empty:
            empty[name].append(lot)
            if len(empty[name]) == slices[name]:
                return _fill(empty[name], Tier.IN_FLIGHT)
    for group in choice.buying:
        missing = slices[group.name] - len(empty[group.name])
        if world.headroom(group) >= missing:
            return _fill(empty[group.name] + [world.open(group) for _ in range(missing)], Tier.NEW)
    return None


def _fill(lots: Sequence[Lot], tier: Tier) -> Place:
    for lot in lots:
        lot.fill()
    return lots[-1].group.name, tier


def _place_spread(world: World, entry: Entry, choice: Choice) -> Place | None:
    left = entry.pending
    for lot, tier in _lots(world, choice):
        for number, host in enumerate(lot.hosts):
            if HostRef(lot.id, number) in entry.apart or not host.room(entry.shape, lot.group):
                continue
            host.take(entry.shape, lot.group)
            lot.used = True
            left -= 1
            if left == 0:
                return lot.group.name, tier
    return None


def _place_pack(world: World, entry: Entry, choice: Choice) -> Place | None:
    considered = [(lot, host) for lot in world.ready_of(choice.existing) for host in lot.hosts]
    tier, before = Tier.READY, len(world.lots)
    further = _further_lots(world, choice)
    while _room(considered, entry) < entry.pending:
        found = next(further, None)
        if found is None:
            return None
        lot, tier = found
        considered += [(lot, host) for host in lot.hosts]
    left, last = entry.pending, ""
    for lot, host in sorted(considered, key=lambda pair: -_packed(pair[0], pair[1], entry)):
        tasks = min(left, _packed(lot, host, entry))
        if tasks:
            host.take(entry.shape, lot.group, tasks)
            lot.used = True
            left, last = left - tasks, lot.group.name
    world.give_back([lot for lot in world.lots[before:] if not lot.used])
    return last, tier


def _room(hosts: Sequence[tuple[Lot, Host]], entry: Entry) -> int:
    return sum(_packed(lot, host, entry) for lot, host in hosts)


def _packed(lot: Lot, host: Host, entry: Entry) -> int:
    """Tasks of a pack gang that one host can hold."""
    return min(entry.pending, host.room(entry.shape, lot.group))
