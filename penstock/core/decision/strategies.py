"""What `packing` and `cost` each call the best buy, and how a finished plan is judged against another."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.match import soft_satisfied
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.resources import DIMENSIONS, GPU, TPU
from penstock.model.shape import GangPlacement

ROUNDED = 9
"""Decimals of a ratio that count: what differs beyond is the arithmetic, not the plan."""

Key = tuple[float, ...]


class Trial(NamedTuple):
    """One slice of a group filled on trial: tasks by want, wants it used up, and its score."""

    group: int
    tasks: dict[int, int]
    limited: dict[int, int]
    score: Key


class Strategy(NamedTuple):
    """One way to buy: which entries come first, which groups gangs buy from, and how good a filled slice is."""

    wants: Sequence[ShapeCursor]
    largest_first: Callable[[int], Key]
    gang_passes: Callable[[int], tuple[ShapeCursor, ShapeCursor | None]]
    score: Callable[[int, dict[int, int]], Key]


def strategies(
    placement: Placement, wants: Sequence[ShapeCursor], groups: Sequence[ScaleGroup], *, conserve: bool
) -> list[Strategy]:
    """The ways to buy that a placement tries; the best finished plan wins, the first among equals."""
    view = _View(wants, groups, conserve=conserve)
    if placement is Placement.PACKING:
        return [
            view.strategy(view.gang_by_use, view.utilisation),  # best utilised
            view.strategy(view.gang_by_capacity, view.work),  # most work a slice
        ]
    return [
        view.strategy(view.gang_by_price_per_task, view.accelerators_for_money),  # accelerators first
        view.strategy(view.gang_by_price, view.accelerators_for_money),  # gangs on small hosts
        view.strategy(view.gang_by_price, view.value_for_money),  # value for money
        view.strategy(view.gang_by_price, view.utilisation),  # best utilised
    ]


class _View:
    """Sizes of shapes as fractions of hosts, so that units cannot change a plan."""

    def __init__(self, wants: Sequence[ShapeCursor], groups: Sequence[ScaleGroup], *, conserve: bool) -> None:
        self.wants = wants
        self.groups = groups
        self.conserve = conserve
        largest = [max((group.host.vector[d] for group in groups), default=0) for d in range(len(DIMENSIONS))]
        self.fractions = [[need / most if most else 0.0 for need, most in zip(w.need, largest, strict=True)] for w in wants]
        self.sizes = [sum(fractions) for fractions in self.fractions]
        self.values = [self._cheapest_share(want) for want in wants]

    def strategy(self, gang_key: Callable[[int, int], Key], score: Callable[[int, dict[int, int]], Key]) -> Strategy:
        """A strategy; groups that tie are taken in the shape's own order of preference."""

        def gang_passes(w: int) -> tuple[ShapeCursor, ShapeCursor | None]:
            """All candidates; or those without accelerators, and all of them once everything else is placed."""
            want = self.wants[w]
            allowed = [self._conserves(g, {w: 1}) for g in range(len(self.groups))]
            buying = sorted(want.candidates.order, key=lambda g: (not allowed[g], gang_key(w, g)))
            first, last = want.candidates.in_two_passes(allowed)
            spared = ShapeCursor(want.shape, first, [g for g in buying if first.mask[g]])
            return spared, None if last is first else ShapeCursor(want.shape, last, buying)

        return Strategy(self.wants, self.largest_first, gang_passes, score)

    def largest_first(self, w: int) -> Key:
        """Accelerated work first, gangs before single tasks, then by size; equal sizes in order of arrival."""
        want, fractions = self.wants[w], self.fractions[w]
        tasks = want.gang.size if want.gang else 0
        sizes = _rounded(-tasks * self.sizes[w], -max(fractions[GPU], fractions[TPU]), -self.sizes[w])
        return (not want.shape.accelerated, *sizes, w)

    # --- scores of a filled slice, greatest first ---

    def utilisation(self, g: int, tasks: dict[int, int]) -> Key:
        """As Ray scores: conserved accelerators, kinds of resource used, least and mean utilisation."""
        host, hosts = self.groups[g].host.vector, self.groups[g].hosts_per_slice
        used = [sum(self.wants[w].need[d] * k for w, k in tasks.items()) for d in range(len(DIMENSIONS))]
        shares = [used[d] / (host[d] * hosts) for d in range(len(DIMENSIONS)) if host[d]]
        kinds = sum(share > 0 for share in shares)
        least, mean = (min(shares), sum(shares) / len(shares)) if shares else (0.0, 0.0)
        return (self._conserves(g, tasks), kinds, round(least, ROUNDED), round(mean, ROUNDED), self._soft(g, tasks))

    def work(self, g: int, tasks: dict[int, int]) -> Key:
        """The most work on one slice, accelerated work before any other."""
        accelerated = sum(self.sizes[w] * k for w, k in tasks.items() if self.wants[w].shape.accelerated)
        work = sum(self.sizes[w] * k for w, k in tasks.items())
        return (self._conserves(g, tasks), round(accelerated, ROUNDED), round(work, ROUNDED), self._soft(g, tasks))

    def accelerators_for_money(self, g: int, tasks: dict[int, int]) -> Key:
        """The most accelerated work for the money, and other work for free beside it; the rest by value for money."""
        accelerated = {w: k for w, k in tasks.items() if self.wants[w].shape.accelerated}
        ratio = self._per_price(g, accelerated or tasks)
        return (self._conserves(g, tasks), bool(accelerated), ratio, round(self._value(tasks), ROUNDED), self._soft(g, tasks))

    def value_for_money(self, g: int, tasks: dict[int, int]) -> Key:
        """The most value for the money, whatever the work."""
        return (self._conserves(g, tasks), self._per_price(g, tasks), round(self._value(tasks), ROUNDED), self._soft(g, tasks))

    # --- how good a group is for a gang, least first ---

    def gang_by_use(self, w: int, g: int) -> Key:
        """The group whose hosts the gang uses best."""
        shares = [need / have for need, have in zip(self.wants[w].need, self.groups[g].host.vector, strict=True) if have]
        least, mean = _rounded(-min(shares, default=0.0), -sum(shares) / max(1, len(shares)))
        return (least, mean, self._slices(w, g))

    def gang_by_capacity(self, w: int, g: int) -> Key:
        """The group whose slices hold the most of such work."""
        return (self._slices(w, g), -self._capacity(w, g))

    def gang_by_price(self, w: int, g: int) -> Key:
        """The group on which the gang costs least if nothing else shares its slices."""
        slices = self._slices(w, g)
        return (round(self.groups[g].price * slices, ROUNDED), slices)

    def gang_by_price_per_task(self, w: int, g: int) -> Key:
        """The group on which the gang costs least if other gangs share its slices."""
        if self._is_whole(w):
            return self.gang_by_price(w, g)
        capacity = self._capacity(w, g)
        return (round(self.groups[g].price / capacity, ROUNDED), -capacity)

    # --- what these are made of ---

    def _is_whole(self, w: int) -> bool:
        gang = self.wants[w].gang
        return gang is not None and gang.placement is GangPlacement.WHOLE_SLICES

    def _slices(self, w: int, g: int) -> int:
        """Slices of the group that one gang takes when it has them to itself."""
        want, group = self.wants[w], self.groups[g]
        assert want.gang is not None
        if self._is_whole(w):
            return want.gang.hosts // group.hosts_per_slice
        per_host = max(1, want.tasks_in_new(group, want.gang.size))
        return -(-want.gang.size // (per_host * group.hosts_per_slice))

    def _capacity(self, w: int, g: int) -> int:
        """Tasks of such a gang, and of others like it, that one slice can hold."""
        want, group = self.wants[w], self.groups[g]
        alone = want.exclusive and group.hosts_alone
        held = [have // need for have, need in zip(group.host.vector, want.need, strict=True) if need]
        return max(1, (1 if alone else min(held, default=1)) * group.hosts_per_slice)

    def _conserves(self, g: int, tasks: dict[int, int]) -> bool:
        """Whether no accelerator is spent on work that needs none."""
        if not self.conserve or not self.groups[g].accelerated:
            return True
        return any(self.wants[w].shape.accelerated for w in tasks)

    def _soft(self, g: int, tasks: dict[int, int]) -> int:
        return sum(k * soft_satisfied(self.wants[w].shape, self.groups[g]) for w, k in tasks.items())

    def _value(self, tasks: dict[int, int]) -> float:
        return sum(self.values[w] * k for w, k in tasks.items())

    def _per_price(self, g: int, tasks: dict[int, int]) -> float:
        price = self.groups[g].price
        return round(self._value(tasks) / price, ROUNDED) if price else float("inf")

    def _cheapest_share(self, want: ShapeCursor) -> float:
        """What one task costs on the group where its share of a slice is cheapest."""
        shares = []
        for g in want.candidates.order:
            group = self.groups[g]
            alone = want.exclusive and group.hosts_alone
            used = [need / have for need, have in zip(want.need, group.host.vector, strict=True) if need and have]
            shares.append(group.price * (1.0 if alone else max(used, default=0.0)) / group.hosts_per_slice)
        return min(shares, default=0.0)


def _rounded(*numbers: float) -> Key:
    return tuple(round(number, ROUNDED) for number in numbers)
