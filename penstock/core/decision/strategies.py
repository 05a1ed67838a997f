"""Scoring for `packing` and `cost`: order of entries, preferred groups for gangs, score of a filled slice."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.effort import Effort
from penstock.core.decision.match import Matcher
from penstock.core.decision.plan import ROUNDED
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.resources import DIMENSIONS, GPU, TPU
from penstock.model.shape import GangPlacement

Key = tuple[float, ...]
KEY_STEPS = 20
"""Steps of comparing one group with others for a gang."""
SHARE_STEPS, FEW = 2, 10
"""Steps of comparing the price of one task's share of a slice, and how many are compared once effort is short."""
_HostPrice = tuple[bool, float, tuple[float, ...]]
"""Whether hosts are not shared, the price of a whole host, and of one unit of each resource if a task takes all of that."""


class Trial(NamedTuple):
    """One slice of a group filled on trial: tasks per shape, the shapes it uses up, and its score."""

    group: int
    tasks: dict[int, int]
    limited: dict[int, int]
    score: Key


class Strategy(NamedTuple):
    """One way to buy: the order of entries, the groups that gangs buy from, and the score of a filled slice."""

    cursors: Sequence[ShapeCursor]
    largest_first: Callable[[int], Key]
    gang_passes: Callable[[int], list[ShapeCursor]]
    score: Callable[[int, dict[int, int]], Key]
    priced: bool
    """Whether the score depends on the price of a slice: of two slices with the same tasks, the dearer never scores more."""
    conserve: bool
    """Whether accelerators are left to work that needs them, as far as possible."""


def strategies(
    placement: Placement, cursors: Sequence[ShapeCursor], matcher: Matcher, effort: Effort, *, conserve: bool
) -> list[Strategy]:
    """The strategies that a placement tries: the best plan wins; among equal plans, the first.

    Without gangs, a strategy that differs only in where gangs buy is left out.
    """
    gangs = any(cursor.gang for cursor in cursors)
    scoring = _Scoring(cursors, matcher, effort, conserve=conserve)
    if placement is Placement.PACKING:
        return [
            scoring.strategy(scoring.gang_by_use, scoring.utilisation),  # best utilised
            scoring.strategy(scoring.gang_by_capacity, scoring.work),  # most work a slice
        ]
    first = scoring.strategy(scoring.gang_by_price_per_task, scoring.accelerators_for_money)
    return [
        first,  # accelerators first
        *([scoring.strategy(scoring.gang_by_price, scoring.accelerators_for_money)] if gangs else []),  # gangs on small hosts
        scoring.strategy(scoring.gang_by_price, scoring.value_for_money),  # value for money
        scoring.strategy(scoring.gang_by_price, scoring.utilisation),  # best utilised
    ]


class _Scoring:
    """Scores on sizes of shapes as fractions of hosts, so that the choice of units cannot change a plan."""

    def __init__(self, cursors: Sequence[ShapeCursor], matcher: Matcher, effort: Effort, *, conserve: bool) -> None:
        self.cursors = cursors
        self.groups = groups = matcher.groups
        self.matcher = matcher
        self.effort = effort
        self.conserve = conserve
        largest = [max((group.host.vector[d] for group in groups), default=0) for d in range(len(DIMENSIONS))]
        self.fractions = [[need / most if most else 0.0 for need, most in zip(c.need, largest, strict=True)] for c in cursors]
        self.sizes = [sum(fractions) for fractions in self.fractions]
        self._cheapest: dict[int, list[_HostPrice]] = {}

    @cached_property
    def values(self) -> list[float]:
        """The value of one task of each shape."""
        return [self._cheapest_share(cursor) for cursor in self.cursors]

    def strategy(self, gang_key: Callable[[int, int], Key], score: Callable[[int, dict[int, int]], Key]) -> Strategy:
        """A strategy. Groups with equal keys stay in the shape's own order of preference."""

        def gang_passes(s: int) -> list[ShapeCursor]:
            """One pass over all candidates; or one over those without accelerators, then a late one over all.

            Once effort is short, gangs buy in order of preference.
            """
            cursor, matcher = self.cursors[s], self.matcher
            allowed = matcher.bits.every if cursor.shape.accelerated or not self.conserve else matcher.plain
            first, last = matcher.in_two_passes(cursor.candidates, allowed)
            if self.effort.is_short():
                buy_order = last.order
            else:
                self.effort.spend(KEY_STEPS * len(last.order))
                buy_order = tuple(sorted(cursor.candidates.order, key=lambda g: (not allowed >> g & 1, gang_key(s, g))))
            passes = [ShapeCursor(cursor.shape, first, tuple(g for g in buy_order if first.bits >> g & 1))]
            return passes if last is first else [*passes, ShapeCursor(cursor.shape, last, buy_order)]

        priced = score in (self.accelerators_for_money, self.value_for_money)
        return Strategy(self.cursors, self.largest_first, gang_passes, score, priced, self.conserve)

    def largest_first(self, s: int) -> Key:
        """Sort key of shapes: accelerated work first, gangs before single tasks, then by size, then by arrival."""
        cursor, fractions = self.cursors[s], self.fractions[s]
        tasks = cursor.gang.size if cursor.gang else 0
        sizes = _rounded(-tasks * self.sizes[s], -max(fractions[GPU], fractions[TPU]), -self.sizes[s])
        return (not cursor.shape.accelerated, *sizes, s)

    # --- scores of a filled slice: the greatest wins ---

    def utilisation(self, g: int, tasks: dict[int, int]) -> Key:
        """Best utilised, as Ray scores it: accelerators conserved, kinds of resource used, least and mean utilisation."""
        host, hosts = self.groups[g].host.vector, self.groups[g].hosts_per_slice
        used = [sum(self.cursors[s].need[d] * k for s, k in tasks.items()) for d in range(len(DIMENSIONS))]
        shares = [used[d] / (host[d] * hosts) for d in range(len(DIMENSIONS)) if host[d]]
        kinds = sum(share > 0 for share in shares)
        least, mean = (min(shares), sum(shares) / len(shares)) if shares else (0.0, 0.0)
        return (self._conserves(g, tasks), kinds, round(least, ROUNDED), round(mean, ROUNDED), self._soft(g, tasks))

    def work(self, g: int, tasks: dict[int, int]) -> Key:
        """Most work on one slice; accelerated work counts first."""
        accelerated = sum(self.sizes[s] * k for s, k in tasks.items() if self.cursors[s].shape.accelerated)
        work = sum(self.sizes[s] * k for s, k in tasks.items())
        return (self._conserves(g, tasks), round(accelerated, ROUNDED), round(work, ROUNDED), self._soft(g, tasks))

    def accelerators_for_money(self, g: int, tasks: dict[int, int]) -> Key:
        """Most accelerated work for the money; other work only breaks ties. Slices without accelerated work come last."""
        accelerated = {s: k for s, k in tasks.items() if self.cursors[s].shape.accelerated}
        ratio = self._per_price(g, accelerated or tasks)
        return (self._conserves(g, tasks), bool(accelerated), ratio, round(self._value(tasks), ROUNDED), self._soft(g, tasks))

    def value_for_money(self, g: int, tasks: dict[int, int]) -> Key:
        """Most value for the money, for any kind of work."""
        return (self._conserves(g, tasks), self._per_price(g, tasks), round(self._value(tasks), ROUNDED), self._soft(g, tasks))

    # --- keys of a group for a gang: the least wins ---

    def gang_by_use(self, s: int, g: int) -> Key:
        """Prefer the group whose hosts the gang utilises best."""
        shares = [need / have for need, have in zip(self.cursors[s].need, self.groups[g].host.vector, strict=True) if have]
        least, mean = _rounded(-min(shares, default=0.0), -sum(shares) / max(1, len(shares)))
        return (least, mean, self._slices(s, g))

    def gang_by_capacity(self, s: int, g: int) -> Key:
        """Prefer the group whose slices hold the most tasks of this shape."""
        return (self._slices(s, g), -self._capacity(s, g))

    def gang_by_price(self, s: int, g: int) -> Key:
        """Prefer the group on which the gang costs least if it shares its slices with nothing."""
        slices = self._slices(s, g)
        return (round(self.groups[g].price * slices, ROUNDED), slices)

    def gang_by_price_per_task(self, s: int, g: int) -> Key:
        """Prefer the group on which the gang costs least if other gangs share its slices."""
        if self._is_whole(s):
            return self.gang_by_price(s, g)
        capacity = self._capacity(s, g)
        return (round(self.groups[g].price / capacity, ROUNDED), -capacity)

    # --- parts of scores and keys ---

    def _is_whole(self, s: int) -> bool:
        gang = self.cursors[s].gang
        return gang is not None and gang.placement is GangPlacement.WHOLE_SLICES

    def _slices(self, s: int, g: int) -> int:
        """Slices of the group that one gang needs if it shares them with nothing."""
        cursor, group = self.cursors[s], self.groups[g]
        assert cursor.gang is not None
        if self._is_whole(s):
            return cursor.gang.hosts // group.hosts_per_slice
        per_host = max(1, cursor.tasks_in_new(group, cursor.gang.size))
        return -(-cursor.gang.size // (per_host * group.hosts_per_slice))

    def _capacity(self, s: int, g: int) -> int:
        """Tasks of this shape, of any gang, that one slice can hold."""
        cursor, group = self.cursors[s], self.groups[g]
        alone = cursor.exclusive and group.hosts_alone
        fitting = [have // need for have, need in zip(group.host.vector, cursor.need, strict=True) if need]
        return max(1, (1 if alone else min(fitting, default=1)) * group.hosts_per_slice)

    def _conserves(self, g: int, tasks: dict[int, int]) -> bool:
        """Whether the slice spends no accelerators on work that needs none."""
        if not self.conserve or not self.groups[g].accelerated:
            return True
        return any(self.cursors[s].shape.accelerated for s in tasks)

    def _soft(self, g: int, tasks: dict[int, int]) -> int:
        """How many soft constraints of the tasks the group satisfies."""
        return sum(k * sum(bits >> g & 1 for bits in self.matcher.soft(self.cursors[s].shape)) for s, k in tasks.items())

    def _value(self, tasks: dict[int, int]) -> float:
        return sum(self.values[s] * k for s, k in tasks.items())

    def _per_price(self, g: int, tasks: dict[int, int]) -> float:
        price = self.groups[g].price
        return round(self._value(tasks) / price, ROUNDED) if price else float("inf")

    def _cheapest_share(self, cursor: ShapeCursor) -> float:
        """The cost of one task on the group where its share of a slice is cheapest; once effort is short, of the first few."""
        prices = self._prices(cursor)
        compared = prices[:FEW] if self.effort.is_short() else prices
        self.effort.spend(SHARE_STEPS * len(compared))
        cpu, memory, disk, gpu, tpu = cursor.need
        if not cursor.exclusive:
            shares = [max(cpu * a, memory * b, disk * c, gpu * d, tpu * e) for _, _, (a, b, c, d, e) in compared]
        else:
            shares = [
                host if alone else max(cpu * a, memory * b, disk * c, gpu * d, tpu * e)
                for alone, host, (a, b, c, d, e) in compared
            ]
        return min(shares, default=0.0)

    def _prices(self, cursor: ShapeCursor) -> list[_HostPrice]:
        """The prices of the candidates, without those that are dearer than an equal slice: once for all shapes with them."""
        candidates = cursor.candidates
        if candidates.bits not in self._cheapest:
            order = candidates.order[:FEW] if self.effort.is_short() else candidates.order
            self.effort.spend(KEY_STEPS * len(order))
            equal: dict[object, ScaleGroup] = {}
            for group in (self.groups[g] for g in order):
                key = (group.host.vector, group.hosts_per_slice, group.hosts_alone)
                if key not in equal or group.price < equal[key].price:
                    equal[key] = group
            self._cheapest[candidates.bits] = [_host_price(group) for group in equal.values()]
        return self._cheapest[candidates.bits]


def _host_price(group: ScaleGroup) -> _HostPrice:
    host = group.price / group.hosts_per_slice
    return group.hosts_alone, host, tuple(host / have if have else 0.0 for have in group.host.vector)


def _rounded(*numbers: float) -> Key:
    return tuple(round(number, ROUNDED) for number in numbers)
