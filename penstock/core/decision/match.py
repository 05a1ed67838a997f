"""Match a shape against groups: the candidates in order of preference, and what excludes the others."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from penstock.core.decision.effort import Effort
from penstock.core.decision.group_bits import GroupBits, positions
from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Code
from penstock.model.elasticity import Drive
from penstock.model.resources import DIMENSIONS, Vector
from penstock.model.shape import GangPlacement, Shape

UNKNOWN_PRICE = float("inf")
"""Among otherwise equal groups, those with a known price come first."""


def in_rank_order(groups: Sequence[ScaleGroup]) -> list[ScaleGroup]:
    """Groups by priority, price and name. The order in the configuration never matters."""
    return sorted(groups, key=lambda g: (g.priority, UNKNOWN_PRICE if g.price_per_hour is None else g.price_per_hour, g.name))


def exclusion(shape: Shape, group: ScaleGroup) -> Code | None:
    """What excludes the group for this shape, even with all its slices empty."""
    return requirement_exclusion(shape, group) or size_exclusion(shape, group)


def requirement_exclusion(shape: Shape, group: ScaleGroup) -> Code | None:
    """What excludes the group by its kind: device, variant, a hard constraint, or that reports of pressure drive it."""
    if shape.accelerated and group.device.type is not shape.device.type:
        return Code.DEVICE_MISMATCH
    if shape.device.variants and group.device.variant not in shape.device.variants:
        return Code.VARIANT_MISMATCH
    if shape.preemptible is not None and shape.preemptible != group.preemptible:
        return Code.CONSTRAINT_MISMATCH
    if not all(constraint.holds(group.all_attributes) for constraint in shape.constraints if not constraint.soft):
        return Code.CONSTRAINT_MISMATCH
    return Code.DRIVEN_BY_PRESSURE if group.drive is Drive.PRESSURE else None


def only_driven_by_pressure(shape: Shape, groups: Sequence[ScaleGroup]) -> list[ScaleGroup]:
    """The groups that could take the shape if reports of pressure did not drive them; none if another group can."""
    if any(exclusion(shape, group) is None for group in groups):
        return []
    driven = (group for group in groups if requirement_exclusion(shape, group) is Code.DRIVEN_BY_PRESSURE)
    return [group for group in driven if size_exclusion(shape, group) is None]


def size_exclusion(shape: Shape, group: ScaleGroup) -> Code | None:
    """What excludes the group by its size: that of a host, or the number of hosts in a slice."""
    if not fits(per_host_need(shape), group.host.vector):
        return Code.INSUFFICIENT_RESOURCES
    gang = shape.gang
    if gang and gang.placement is GangPlacement.WHOLE_SLICES and gang.hosts % group.hosts_per_slice:
        return Code.GANG_SIZE_MISMATCH
    return None


def per_host_need(shape: Shape) -> Vector:
    """What one host must hold: one task, or the `tasks_per_host` of a whole-slices gang."""
    gang = shape.gang
    tasks = (gang.tasks_per_host or 1) if gang and gang.placement is GangPlacement.WHOLE_SLICES else 1
    cpu, memory, disk, gpu, tpu = shape.need
    return (cpu * tasks, memory * tasks, disk * tasks, gpu * tasks, tpu * tasks)


def fits(need: Vector, offer: Vector) -> bool:
    """Whether the offer covers the need in every dimension."""
    return all(wanted <= offered for wanted, offered in zip(need, offer, strict=True))


def soft_satisfied(shape: Shape, group: ScaleGroup) -> int:
    """How many of the shape's soft constraints the group satisfies."""
    return sum(constraint.holds(group.all_attributes) for constraint in shape.constraints if constraint.soft)


class Candidates:
    """Groups that can take a shape, by number, in tiers of equal preference; within a tier, in rank order.

    `bits` are all of them, bit g for group g. Equal candidates are one object: `Matcher` makes them.
    """

    __slots__ = ("_order", "bits", "tiers")

    def __init__(self, tiers: tuple[int, ...]) -> None:
        self.tiers = tiers
        self.bits = 0
        for tier in tiers:
            self.bits |= tier
        self._order: tuple[int, ...] | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """The groups, preferred first."""
        if self._order is None:
            self._order = tuple(g for tier in self.tiers for g in positions(tier))
        return self._order


class Matcher:
    """Finds the candidates of shapes, and caches them per requirement and size.

    Ten thousand shapes of CPU work share one pass over the groups: requirements are matched once per distinct requirement,
    sizes once per distinct size of host, and equal results are one object.
    """

    def __init__(self, groups: Sequence[ScaleGroup], effort: Effort | None = None) -> None:
        self.groups = groups
        self.bits = GroupBits(groups)
        self.plain = sum(1 << g for g, group in enumerate(groups) if not group.accelerated)
        """Groups without accelerators, as bits."""
        self._effort = effort or Effort()
        hosts: dict[Vector, int] = {}
        size_of = [hosts.setdefault(g.host.vector, len(hosts)) for g in groups]
        self._of_size = [sum(1 << g for g, size in enumerate(size_of) if size == number) for number in range(len(hosts))]
        self._offers = [_Offers([vector[d] for vector in hosts]) for d in range(len(DIMENSIONS))]
        self._hosts_per_slice: dict[int, int] = {}
        for g, group in enumerate(groups):
            self._hosts_per_slice[group.hosts_per_slice] = self._hosts_per_slice.get(group.hosts_per_slice, 0) | 1 << g
        self._matching: dict[object, tuple[int, tuple[int, ...]]] = {}
        self._large_enough: dict[int, int] = {}
        self._divided: dict[int, int] = {}
        self._candidates: dict[object, Candidates] = {}
        self._tiers: dict[tuple[int, ...], Candidates] = {}

    def candidates(self, shape: Shape) -> Candidates:
        """Groups that can take the shape, preferred first."""
        key = (shape.requirement, self.sizes(shape))
        found = self._candidates.get(key)
        if found is None:
            self._effort.spend(20)
            found = self._candidates[key] = self._in_tiers(self._matched(shape)[0] & self._fitting(*key[1]), shape)
        return found

    def matching(self, shape: Shape) -> Candidates:
        """Groups of the right kind, preferred first, whether or not the shape fits their size."""
        return self._in_tiers(self._matched(shape)[0], shape)

    def soft(self, shape: Shape) -> tuple[int, ...]:
        """For each soft constraint of the shape, the groups that satisfy it, as bits."""
        return self._matched(shape)[1]

    def of(self, tiers: Iterable[int]) -> Candidates:
        """The candidates with these tiers, as bits; empty tiers count for nothing."""
        key = tuple(filter(None, tiers))
        found = self._tiers.get(key)
        if found is None:
            found = self._tiers[key] = Candidates(key)
        return found

    def in_two_passes(self, found: Candidates, first: int) -> tuple[Candidates, Candidates]:
        """Two passes: the groups in the set `first`; then all groups, those first. The same object twice if that has all."""
        if not found.bits & ~first:
            return found, found
        ahead = [tier & first for tier in found.tiers]
        return self.of(ahead), self.of([*ahead, *(tier & ~first for tier in found.tiers)])

    def sizes(self, shape: Shape) -> tuple[int, int | None]:
        """Hashable key, equal only for shapes for which every group has the same size exclusion.

        The sizes of hosts that are large enough, as bits, and the number of hosts that a `whole_slices` gang needs.
        """
        enough = -1
        for amount, offers in zip(per_host_need(shape), self._offers, strict=True):
            enough &= offers.at_least(amount)
        gang = shape.gang
        return enough, gang.hosts if gang and gang.placement is GangPlacement.WHOLE_SLICES else None

    def _fitting(self, enough: int, hosts: int | None) -> int:
        """The groups with one of these sizes of hosts, whose slices divide the hosts of a gang."""
        if enough not in self._large_enough:
            self._effort.spend(len(self._of_size))
            self._large_enough[enough] = sum(self._of_size[size] for size in positions(enough))
        found = self._large_enough[enough]
        if hosts is None:
            return found
        if hosts not in self._divided:
            self._effort.spend(len(self._hosts_per_slice))
            self._divided[hosts] = sum(bits for each, bits in self._hosts_per_slice.items() if hosts % each == 0)
        return found & self._divided[hosts]

    def _matched(self, shape: Shape) -> tuple[int, tuple[int, ...]]:
        """The groups that meet every requirement, and for each soft constraint those that satisfy it."""
        found = self._matching.get(shape.requirement)
        if found is None:
            self._effort.spend(20 + sum(10 + 4 * len(constraint.values) for constraint in shape.constraints))
            soft = tuple(self.bits.holding(constraint) for constraint in shape.constraints if constraint.soft)
            found = self._matching[shape.requirement] = self.bits.matching(shape), soft
        return found

    def _in_tiers(self, bits: int, shape: Shape) -> Candidates:
        """The groups by the number of soft constraints that each satisfies, most first; in one tier once effort is short."""
        soft = self._matched(shape)[1]
        if not soft or self._effort.is_short():
            return self.of((bits,))
        exactly = [bits]
        for satisfied in soft:
            self._effort.spend(len(exactly))
            more = [0, *(tier & satisfied for tier in exactly)]
            exactly = [stays & ~satisfied | gains for stays, gains in zip([*exactly, 0], more, strict=True)]
            while not exactly[-1] and len(exactly) > 1:
                exactly.pop()
        return self.of(reversed(exactly))


class _Offers:
    """The amounts of one resource on the distinct sizes of hosts, sorted, to find those that offer enough by bisection."""

    def __init__(self, amounts: Sequence[int]) -> None:
        order = sorted(range(len(amounts)), key=amounts.__getitem__)
        self._amounts = [amounts[size] for size in order]
        self._from = [0] * (len(order) + 1)
        for i in range(len(order) - 1, -1, -1):
            self._from[i] = self._from[i + 1] | 1 << order[i]

    def at_least(self, amount: int) -> int:
        """The sizes that offer the amount, as bits."""
        return self._from[bisect_left(self._amounts, amount)]
