"""The rules of `packing` and `cost`, as docs/placement.md states them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from penstock.core.decision.match import soft_satisfied
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.decision import Tier
from penstock.model.resources import GPU, TPU
from penstock.model.shape import GangPlacement, Shape
from tests.core.decision.oracle_placing import Choice, Entry, Placing, place_one, plain_first
from tests.core.decision.oracle_world import Host, Lot, World, takes_alone, whole_lot

Score: TypeAlias = tuple[float, ...]
DECIMALS = 9


class Strategy(NamedTuple):
    """A strategy: its name, the key of a group for a gang (least wins), and the score of a filled slice (greatest wins)."""

    name: str
    gang_prefers: Callable[[World, Shape, ScaleGroup], Score]
    score: Callable[[World, Lot, Sequence[Shape]], Score]


def place_by_filling(world: World, entries: Sequence[Entry]) -> Placing:
    """The plan that leaves the fewest entries unplaced and, among those, opens the least."""
    cost = world.snapshot.config.placement is Placement.COST
    prices = {group.name: group.price for group in world.groups}

    def badness(plan: Placing) -> tuple[int, float, int]:
        opened = plan[0].fresh
        price = round(sum(prices[name] for name in opened), DECIMALS) if cost else 0.0
        return len(entries) - len(plan[1]), price, len(opened)

    return min((_place_with(strategy, world.copy(), entries) for strategy in (COST if cost else PACKING)), key=badness)


def _place_with(strategy: Strategy, world: World, entries: Sequence[Entry]) -> Placing:
    places = {}
    arrival = [entry.shape for entry in entries]
    largest_first = sorted(entries, key=lambda entry: (_order(world, entry.shape), arrival.index(entry.shape)))
    gangs = [entry for entry in largest_first if entry.shape.gang is not None]
    for entry in gangs:
        world, place = place_one(world, entry, _choice(strategy, world, entry.shape, spared=True))
        if place is not None:
            places[entry.run, entry.position] = place
    left = [entry for entry in largest_first if entry.shape.gang is None]
    ready = sorted(world.ready_of(plain_first(world.groups)), key=lambda lot: lot.group.accelerated)
    existing = [(lot, Tier.READY) for lot in ready]
    existing += [(lot, Tier.IN_FLIGHT) for lot in world.in_flight()]
    for lot, tier in existing:
        for entry in _fill(world, lot, left):
            places[entry.run, entry.position] = lot.group.name, tier
            left.remove(entry)
    while (group := _best_buy(strategy, world, left)) is not None:
        lot = world.open(group)
        world.units.append([group.name])
        for entry in _fill(world, lot, left):
            places[entry.run, entry.position] = group.name, Tier.NEW
            left.remove(entry)
    spared = [entry for entry in gangs if not entry.shape.accelerated and world.snapshot.config.conserve_accelerators]
    for entry in (entry for entry in spared if (entry.run, entry.position) not in places):
        world, place = place_one(world, entry, _choice(strategy, world, entry.shape, spared=False))
        if place is not None:
            places[entry.run, entry.position] = place
    return world, places


def _choice(strategy: Strategy, world: World, shape: Shape, *, spared: bool) -> Choice:
    """The groups of a gang. If accelerators are conserved, work that needs none sees only groups without any."""
    groups = world.candidates(shape)
    buying = sorted(groups, key=lambda group: strategy.gang_prefers(world, shape, group))
    if shape.accelerated or not world.snapshot.config.conserve_accelerators:
        return Choice(groups, buying)
    if spared:
        return Choice([g for g in groups if not g.accelerated], [g for g in buying if not g.accelerated])
    return Choice(plain_first(groups), plain_first(buying))


def _fill(world: World, lot: Lot, left: Sequence[Entry]) -> list[Entry]:
    """Fill a slice host by host, in the given order of entries; returns the entries that it takes."""
    taken: list[Entry] = []
    for host in lot.hosts:
        for entry in left:
            if entry not in taken and lot.group in world.candidates(entry.shape) and host.room(entry.shape, lot.group):
                host.take(entry.shape, lot.group)
                taken.append(entry)
    lot.used = lot.used or bool(taken)
    return taken


def _best_buy(strategy: Strategy, world: World, left: Sequence[Entry]) -> ScaleGroup | None:
    best: tuple[Score, ScaleGroup] | None = None
    for group in world.groups:
        lot = whole_lot(group, "trial")
        shapes = [entry.shape for entry in _fill(world, lot, left)] if world.headroom(group) else []
        if not shapes:
            continue
        wasted = world.snapshot.config.conserve_accelerators and group.accelerated and not any(s.accelerated for s in shapes)
        soft = sum(soft_satisfied(shape, group) for shape in shapes)
        score = (float(not wasted), *strategy.score(world, lot, shapes), float(soft))
        if best is None or score > best[0]:
            best = score, group
    return best[1] if best else None


# Sizes, values and shares


def _fractions(shape: Shape, offer: Sequence[int]) -> list[float]:
    return [need / have if have else 0.0 for need, have in zip(shape.need, offer, strict=True)]


def _size(world: World, shape: Shape) -> float:
    largest = [max(amounts) for amounts in zip(*(group.host.vector for group in world.groups), strict=True)]
    return sum(_fractions(shape, largest))


def _order(world: World, shape: Shape) -> tuple[bool, float, float, float]:
    largest = [max(amounts) for amounts in zip(*(group.host.vector for group in world.groups), strict=True)]
    fractions = _fractions(shape, largest)
    size, accelerators = _size(world, shape), max(fractions[GPU], fractions[TPU])
    whole = size * (shape.gang.size if shape.gang else 0)
    return not shape.accelerated, -round(whole, DECIMALS), -round(accelerators, DECIMALS), -round(size, DECIMALS)


def _value(world: World, shape: Shape) -> float:
    """The cost of one task on its cheapest candidate."""
    return min(
        group.price * (1.0 if takes_alone(shape, group) else max(_fractions(shape, group.host.vector))) / group.hosts_per_slice
        for group in world.candidates(shape)
    )


def _tasks_on_a_slice(shape: Shape, group: ScaleGroup) -> int:
    """Tasks of the shape that an empty slice of the group holds; one per host if they need no resources."""
    fit = min((have // need for need, have in zip(shape.need, group.host.vector, strict=True) if need), default=1)
    return group.hosts_per_slice * (1 if takes_alone(shape, group) else fit)


def _slices_of_a_gang(shape: Shape, group: ScaleGroup) -> int:
    """Slices that one gang needs if it shares them with nothing."""
    gang = shape.gang
    assert gang is not None
    if gang.placement is GangPlacement.WHOLE_SLICES:
        return gang.hosts // group.hosts_per_slice
    per_host = 1 if gang.placement is GangPlacement.SPREAD else Host.empty(group).room(shape, group)
    return -(-gang.size // (per_host * group.hosts_per_slice))


def _rounded(*numbers: float) -> Score:
    return tuple(round(number, DECIMALS) for number in numbers)


def _per_price(value: float, group: ScaleGroup) -> float:
    return value / group.price if group.price else float("inf")


# The table of strategies


def _utilisation(world: World, shape: Shape, group: ScaleGroup) -> Score:
    shares = [need / have for need, have in zip(shape.need, group.host.vector, strict=True) if have]
    least, mean = (min(shares), sum(shares) / len(shares)) if shares else (0.0, 0.0)
    return (*_rounded(-least, -mean), float(_slices_of_a_gang(shape, group)))


def _fewest_slices(world: World, shape: Shape, group: ScaleGroup) -> Score:
    return float(_slices_of_a_gang(shape, group)), float(-_tasks_on_a_slice(shape, group))


def _price_alone(world: World, shape: Shape, group: ScaleGroup) -> Score:
    slices = _slices_of_a_gang(shape, group)
    return (*_rounded(slices * group.price), float(slices))


def _price_per_task(world: World, shape: Shape, group: ScaleGroup) -> Score:
    if shape.gang is not None and shape.gang.placement is GangPlacement.WHOLE_SLICES:
        return _price_alone(world, shape, group)
    tasks = _tasks_on_a_slice(shape, group)
    return (*_rounded(group.price / tasks), float(-tasks))


def _best_utilised(world: World, lot: Lot, shapes: Sequence[Shape]) -> Score:
    offer = [have * lot.group.hosts_per_slice for have in lot.group.host.vector]
    used = [sum(needs) for needs in zip(*(shape.need for shape in shapes), strict=True)]
    shares = [taken / have for taken, have in zip(used, offer, strict=True) if have]
    least, mean = (min(shares), sum(shares) / len(shares)) if shares else (0.0, 0.0)
    return (float(sum(taken > 0 for taken in used)), *_rounded(least, mean))


def _most_work(world: World, lot: Lot, shapes: Sequence[Shape]) -> Score:
    accelerated = sum(_size(world, shape) for shape in shapes if shape.accelerated)
    return _rounded(accelerated, sum(_size(world, shape) for shape in shapes))


def _accelerators_first(world: World, lot: Lot, shapes: Sequence[Shape]) -> Score:
    accelerated = [shape for shape in shapes if shape.accelerated]
    value = sum(_value(world, shape) for shape in accelerated or shapes)
    everything = sum(_value(world, shape) for shape in shapes)
    return (float(bool(accelerated)), *_rounded(_per_price(value, lot.group), everything))


def _value_for_money(world: World, lot: Lot, shapes: Sequence[Shape]) -> Score:
    value = sum(_value(world, shape) for shape in shapes)
    return _rounded(_per_price(value, lot.group), value)


PACKING = (
    Strategy("best utilised", _utilisation, _best_utilised),
    Strategy("most work a slice", _fewest_slices, _most_work),
)
COST = (
    Strategy("accelerators first", _price_per_task, _accelerators_first),
    Strategy("gangs on small hosts", _price_alone, _accelerators_first),
    Strategy("value for money", _price_alone, _value_for_money),
    Strategy("best utilised", _price_alone, _best_utilised),
)
