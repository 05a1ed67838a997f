"""First fit in logarithmic time: the first shape that a host can take, and the first host that can take a shape.

A segment tree over positions holds in each node the least key below it. Vectors are packed into one integer, a field per
dimension with a guard bit above it, so that one subtraction compares every dimension (SIMD within a register).
"""

from collections.abc import Iterable, Sequence

from penstock.core.decision.effort import Effort
from penstock.model.cluster import ScaleGroup
from penstock.model.resources import DIMENSIONS, Vector

NONE = -1
"""The position that a search returns if nothing fits."""

_WHOLE = len(DIMENSIONS)
"""The field after the resources: 0 on a host that work for its exclusive use can no longer take."""
_SUMS = ((3, 1, 1, 1, 1), (1, 1, 0, 0, 0), (1, 3, 1, 1, 1))
"""Further fields: weighted sums of the resources as fractions of the largest host. What fits in every dimension fits in these
too. A host with a little left in each dimension fails in them at once, where the least of many tasks in each would pass."""
_FIELDS = _WHOLE + 1 + len(_SUMS)
_FRACTION_BITS = 10
"""Bits of a fraction beyond those of the largest amount: coarser ones would only make searches longer."""


class Layout:
    """Packs vectors of one fleet. Amounts beyond its largest host are packed as one more than that: they fit nowhere."""

    __slots__ = ("bits", "guards", "most", "ones", "step", "weights", "whole")

    def __init__(self, groups: Sequence[ScaleGroup]) -> None:
        self.most = [max((group.host.vector[d] for group in groups), default=0) + 1 for d in range(len(DIMENSIONS))]
        self.bits = max(self.most).bit_length() + _FRACTION_BITS
        self.step = self.bits + 1
        self.whole = 1 << (_WHOLE * self.step)
        self.guards = sum(1 << (d * self.step + self.bits) for d in range(_FIELDS))
        self.ones = self.guards - (self.guards >> self.bits)
        one = 1 << (self.bits - 3)  # the greatest sum is below 8
        self.weights = [
            sum((one // most * sums[d] << (_WHOLE + 1 + i) * self.step for i, sums in enumerate(_SUMS)), 1 << d * self.step)
            for d, most in enumerate(self.most)
        ]

    def pack(self, vector: Vector) -> int:
        """The resources in their fields, and their sums. Linear: the sum of two packed vectors is their packed sum."""
        cpu, memory, disk, gpu, tpu = vector
        weights = self.weights
        return cpu * weights[0] + memory * weights[1] + disk * weights[2] + gpu * weights[3] + tpu * weights[4]

    def need(self, vector: Vector, *, exclusive: bool) -> int:
        """The key of a need, compared with `room`."""
        cpu, memory, disk, gpu, tpu = map(min, vector, self.most)
        return self.pack((cpu, memory, disk, gpu, tpu)) + (self.whole if exclusive else 0)

    def room(self, free: Vector, *, usable_alone: bool) -> int:
        """What a host has, as a bound for `need`; `usable_alone` unless exclusive work can no longer take it."""
        return self.pack(free) | self.guards | (self.whole if usable_alone else 0)

    def unpack(self, room: int) -> Vector:
        """The resources of packed room."""
        field, step = (1 << self.bits) - 1, self.step
        cpu, memory, disk, gpu, tpu = ((room >> (d * step)) & field for d in range(_WHOLE))
        return (cpu, memory, disk, gpu, tpu)

    def has(self, free: Vector, *, usable_alone: bool) -> int:
        """The key of a host, compared with `wanted`: less the more it has. The complement turns `at most` into `at least`."""
        return self.ones - self.pack(free) - (self.whole if usable_alone else 0)

    def wanted(self, need: Vector, *, exclusive: bool) -> int:
        """A need, as a bound for the keys of hosts."""
        return (self.ones - self.need(need, exclusive=exclusive)) | self.guards


class FirstFit:
    """Positions, each with a key and the groups that it belongs to; finds the first one whose key is within a bound."""

    __slots__ = ("_effort", "_guards", "_keys", "_layout", "_masks", "_size", "length")

    def __init__(self, layout: Layout, effort: Effort, leaves: Iterable[tuple[int, int]] = ()) -> None:
        """`leaves` are keys and masks of groups."""
        self._layout = layout
        self._effort = effort
        self._guards = layout.guards
        self._build(list(leaves))

    def first(self, i: int, bound: int, groups: int) -> int:
        """The first position from `i` on whose key is at most the bound in every field, of one of the groups; or `NONE`."""
        keys, masks, guards, size = self._keys, self._masks, self._guards, self._size
        if i >= self.length:
            return NONE
        node, steps = i + size, 0
        while True:
            steps += 1
            if (bound - keys[node]) & guards == guards and masks[node] & groups:
                if node >= size:
                    self._effort.spend(steps)
                    return node - size
                node += node
                continue
            while node & 1:
                node >>= 1
            if not node:
                self._effort.spend(steps)
                return NONE
            node += 1

    def replace(self, i: int, key: int, groups: int) -> None:
        """Change the key and the groups of a position."""
        keys, masks = self._keys, self._masks
        node = i + self._size
        keys[node], masks[node] = key, groups
        while node > 1:
            node >>= 1
            key, mask = self._least(keys[2 * node], keys[2 * node + 1]), masks[2 * node] | masks[2 * node + 1]
            if key == keys[node] and mask == masks[node]:
                return
            keys[node], masks[node] = key, mask

    def remove(self, i: int) -> None:
        """No search finds this position any more."""
        self.replace(i, self._layout.ones, 0)

    def extend(self, leaves: Iterable[tuple[int, int]]) -> None:
        """Add positions at the end."""
        added = list(leaves)
        if self.length + len(added) > self._size:
            last = self._size + self.length
            self._build([*zip(self._keys[self._size : last], self._masks[self._size : last], strict=True), *added])
            return
        for key, groups in added:
            self.length += 1
            self.replace(self.length - 1, key, groups)

    def _build(self, leaves: list[tuple[int, int]]) -> None:
        self.length = len(leaves)
        size = self._size = 1 << max(0, (self.length - 1).bit_length())
        padding = size - self.length
        keys = self._keys = [0] * size + [key for key, _ in leaves] + [self._layout.ones] * padding
        masks = self._masks = [0] * size + [groups for _, groups in leaves] + [0] * padding
        for node in range(size - 1, 0, -1):
            keys[node] = self._least(keys[2 * node], keys[2 * node + 1])
            masks[node] = masks[2 * node] | masks[2 * node + 1]

    def _least(self, one: int, other: int) -> int:
        """The lesser of two keys, field by field."""
        guards = self._guards
        above = ((one | guards) - other) & guards
        if not above:
            return one
        if above == guards:
            return other
        fields = above - (above >> self._layout.bits)
        return (other & fields) | (one & ~fields)
