"""Families: groups whose slices, filled with the same entries, hold the same tasks. One trial serves the whole family."""

from collections.abc import Callable, Iterator, Sequence

from penstock.core.decision.fleet import Fleet
from penstock.core.decision.strategies import Strategy, Trial
from penstock.model.cluster import ScaleGroup

MOST_COMPARED = 3000
"""Sets of candidates, and soft constraints, by which groups are compared. With more of them, every group is a family."""


class Family:
    """Groups in classes of equal score, cheapest class first, and the last trial on a slice of theirs."""

    __slots__ = ("_classes", "trial")

    def __init__(self, classes: list[list[int]]) -> None:
        """Each class lists its groups, best rank last."""
        self._classes = classes
        self.trial: Trial | None = None

    def contenders(self, headroom: Callable[[int], int]) -> Iterator[int]:
        """Of each class the first group with headroom. Headroom only shrinks, so groups without any are dropped."""
        for groups in self._classes:
            while groups and not headroom(groups[-1]):
                groups.pop()
            if groups:
                yield groups[-1]

    def first_with_headroom(self, headroom: Callable[[int], int]) -> int | None:
        """Any group of the family that may add a slice."""
        return next(self.contenders(headroom), None)


def families_of(fleet: Fleet, strategy: Strategy, singles: Sequence[int]) -> list[Family]:
    """The families of all groups, for the shapes of single tasks. Too many sets of candidates are not compared."""
    distinct = list(dict.fromkeys(strategy.cursors[s].candidates.bits for s in singles))
    requirements = {strategy.cursors[s].shape.requirement: strategy.cursors[s].shape for s in singles}
    soft = [satisfied for shape in requirements.values() for satisfied in fleet.matcher.soft(shape)]
    if len(distinct) + len(soft) > MOST_COMPARED:
        return [Family([[g]]) for g in range(len(fleet.groups)) if any(bits >> g & 1 for bits in distinct)]
    fleet.effort.spend(len(fleet.groups) * (len(distinct) + len(soft)))
    found: dict[object, dict[tuple[float, tuple[int, ...]], list[int]]] = {}
    for g, group in reversed(list(enumerate(fleet.groups))):
        taken = tuple(bits >> g & 1 for bits in distinct)
        if any(taken):
            preferred = tuple(satisfied >> g & 1 for satisfied in soft)
            classes = found.setdefault((_slice_of(group), taken), {})
            classes.setdefault((group.price if strategy.priced else 0.0, preferred), []).append(g)
    return [Family([classes[key] for key in sorted(classes)]) for classes in found.values()]


def _slice_of(group: ScaleGroup) -> tuple[object, ...]:
    return (group.host.vector, group.hosts_per_slice, group.hosts_alone, group.accelerated)
