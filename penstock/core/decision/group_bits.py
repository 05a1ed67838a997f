"""Sets of groups as integers, bit g for group g: those with an attribute, with a value of it, or with one in a range."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import isnan

from penstock.model.cluster import ScaleGroup
from penstock.model.constraints import Constraint, Operator, as_number, as_text
from penstock.model.elasticity import Drive
from penstock.model.shape import Shape


def positions(bits: int) -> Iterator[int]:
    """The groups of a set, ascending."""
    while bits:
        least = bits & -bits
        yield least.bit_length() - 1
        bits ^= least


class GroupBits:
    """Finds the groups that meet a requirement with a few operations on integers, however many groups there are."""

    def __init__(self, groups: Sequence[ScaleGroup]) -> None:
        self.every = (1 << len(groups)) - 1
        self._by_entries = sum(1 << g for g, group in enumerate(groups) if group.drive is Drive.ENTRIES)
        self._attributes: dict[str, _Values] = {}
        self._device: dict[str, int] = {}
        self._variant: dict[str | None, int] = {}
        self._preemptible = {True: 0, False: 0}
        for g, group in enumerate(groups):
            bit = 1 << g
            for name, value in group.all_attributes.items():
                self._attributes.setdefault(name, _Values()).add(as_text(value), as_number(value), bit)
            self._device[group.device.type] = self._device.get(group.device.type, 0) | bit
            self._variant[group.device.variant] = self._variant.get(group.device.variant, 0) | bit
            self._preemptible[group.preemptible] |= bit
        for values in self._attributes.values():
            values.sort()

    def matching(self, shape: Shape) -> int:
        """The groups of the right kind for the shape: driven by entries, device, variant and every hard constraint."""
        found = self._by_entries
        if shape.accelerated:
            found &= self._device.get(shape.device.type, 0)
        if shape.device.variants:
            offered = 0
            for variant in shape.device.variants:
                offered |= self._variant.get(variant, 0)
            found &= offered
        if shape.preemptible is not None:
            found &= self._preemptible[shape.preemptible]
        for constraint in shape.constraints:
            if not constraint.soft:
                found &= self.holding(constraint)
        return found

    def holding(self, constraint: Constraint) -> int:
        """The groups that satisfy a constraint, as `Constraint.holds` judges each of them."""
        values, op = self._attributes.get(constraint.attribute, _NO_VALUES), constraint.op
        if op is Operator.EXISTS:
            return values.having
        if op is Operator.NOT_EXISTS:
            return self.every & ~values.having
        if op in (Operator.GT, Operator.GE, Operator.LT, Operator.LE):
            return values.in_range(op, as_number(constraint.values[0]))
        equal = 0
        for value in constraint.values:
            equal |= values.by_text.get(as_text(value), 0)
        return equal if op in (Operator.EQ, Operator.IN) else self.every & ~equal


class _Values:
    """The values of one attribute, each with the groups that have it."""

    def __init__(self) -> None:
        self.having = 0
        self.by_text: dict[str, int] = {}
        self._by_number: dict[float, int] = {}
        self._numbers: list[float] = []
        self._up_to = [0]
        """The groups with one of the first k numbers."""

    def add(self, text: str, number: float | None, bit: int) -> None:
        self.having |= bit
        self.by_text[text] = self.by_text.get(text, 0) | bit
        if number is not None and not isnan(number):
            self._by_number[number] = self._by_number.get(number, 0) | bit

    def sort(self) -> None:
        self._numbers = sorted(self._by_number)
        self._up_to = [0]
        for number in self._numbers:
            self._up_to.append(self._up_to[-1] | self._by_number[number])

    def in_range(self, op: Operator, bound: float | None) -> int:
        if bound is None or isnan(bound):
            return 0
        bisect = bisect_right if op in (Operator.GT, Operator.LE) else bisect_left
        below = self._up_to[bisect(self._numbers, bound)]
        return below if op in (Operator.LT, Operator.LE) else self._up_to[-1] & ~below


_NO_VALUES = _Values()
