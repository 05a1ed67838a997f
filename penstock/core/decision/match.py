"""Match a shape against groups: the candidates in order of preference, and what excludes the others."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Code
from penstock.model.resources import Vector
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
    """What excludes the group by its kind: device, variant, or a hard constraint."""
    if shape.accelerated and group.device.type is not shape.device.type:
        return Code.DEVICE_MISMATCH
    if shape.device.variants and group.device.variant not in shape.device.variants:
        return Code.VARIANT_MISMATCH
    if shape.preemptible is not None and shape.preemptible != group.preemptible:
        return Code.CONSTRAINT_MISMATCH
    if not all(constraint.holds(group.all_attributes) for constraint in shape.constraints if not constraint.soft):
        return Code.CONSTRAINT_MISMATCH
    return None


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


class Candidates(NamedTuple):
    """Groups that can take a shape, by number: in order of preference, and as a mask."""

    order: tuple[int, ...]
    mask: tuple[bool, ...]

    def in_two_passes(self, first: Sequence[bool]) -> "tuple[Candidates, Candidates]":
        """Two passes: the groups in the mask `first`; then all groups, those first. The same object twice if the mask has all."""
        ahead = tuple(g for g in self.order if first[g])
        if len(ahead) == len(self.order):
            return self, self
        others = tuple(g for g in self.order if not first[g])
        return candidates_of(ahead, len(self.mask)), Candidates(ahead + others, self.mask)


def candidates_of(order: tuple[int, ...], groups: int) -> Candidates:
    """Candidates in the given order, with their mask over all groups."""
    members = frozenset(order)
    return Candidates(order, tuple(g in members for g in range(groups)))


class Matcher:
    """Finds the candidates of shapes, and caches them per requirement and size.

    Ten thousand shapes of CPU work share one pass over the groups: requirements are matched once per distinct requirement,
    sizes once per distinct size of host, and equal results are one object.
    """

    def __init__(self, groups: Sequence[ScaleGroup]) -> None:
        self.groups = groups
        hosts: dict[tuple[Vector, int], int] = {}
        self._size_of = [hosts.setdefault((g.host.vector, g.hosts_per_slice), len(hosts)) for g in groups]
        self._sizes = [next(g for g, size in enumerate(self._size_of) if size == number) for number in range(len(hosts))]
        self._matching: dict[object, tuple[int, ...]] = {}
        self._candidates: dict[object, Candidates] = {}

    def candidates(self, shape: Shape) -> Candidates:
        """Groups that can take the shape, preferred first."""
        sizes = self.size_exclusions(shape)
        key = (shape.requirement, sizes)
        if key not in self._candidates:
            order = tuple(g for g in self.matching(shape) if sizes[self._size_of[g]] is None)
            self._candidates[key] = candidates_of(order, len(self.groups))
        return self._candidates[key]

    def matching(self, shape: Shape) -> tuple[int, ...]:
        """Groups of the right kind, preferred first, whether or not the shape fits their size."""
        if shape.requirement not in self._matching:
            self._matching[shape.requirement] = self._match(shape)
        return self._matching[shape.requirement]

    def size_exclusions(self, shape: Shape) -> tuple[Code | None, ...]:
        """What excludes each distinct size of hosts and slices for this shape."""
        return tuple(size_exclusion(shape, self.groups[g]) for g in self._sizes)

    def _match(self, shape: Shape) -> tuple[int, ...]:
        matching = [g for g, group in enumerate(self.groups) if requirement_exclusion(shape, group) is None]
        return tuple(sorted(matching, key=lambda g: (-soft_satisfied(shape, self.groups[g]), g)))
