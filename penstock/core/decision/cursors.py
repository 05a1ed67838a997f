"""First-fit cursors of a shape: its candidate groups, and the first bin that may still have space for it."""

from collections.abc import Sequence

from penstock.core.decision.bins import HostBin
from penstock.core.decision.first_fit import Layout
from penstock.core.decision.match import Candidates, Matcher
from penstock.core.decision.resources import holds_up_to
from penstock.model.cluster import ScaleGroup
from penstock.model.resources import Vector
from penstock.model.shape import GangPlacement, Shape


class ShapeCursor:
    """One shape in one pass over the groups.

    Bins only shrink, and lists of bins only grow at their end. A bin that once had no space for a shape never has any again,
    so each cursor only moves forward.
    """

    __slots__ = (
        "_bound",
        "buy_order",
        "candidates",
        "exclusive",
        "gang",
        "in_flight_cursor",
        "in_flight_exhausted",
        "need",
        "new_cursor",
        "per_host",
        "ready_cursor",
        "ready_tier",
        "shape",
    )

    def __init__(self, shape: Shape, candidates: Candidates, buy_order: tuple[int, ...] | None = None) -> None:
        """New slices come from the first group of `buy_order` with headroom; by default, in order of preference."""
        self.shape = shape
        self.buy_order = candidates.order if buy_order is None else buy_order
        self.need: Vector = shape.need
        self.exclusive = shape.exclusive
        self.gang = shape.gang
        self.candidates = candidates
        self.per_host = self._per_host()
        self.ready_tier = self.ready_cursor = self.in_flight_cursor = self.new_cursor = 0
        self.in_flight_exhausted = False
        self._bound: tuple[Layout, int] | None = None

    def _per_host(self) -> int | None:
        """The most tasks of one gang on one host; None if only free resources limit it."""
        if self.gang is None or self.gang.placement is GangPlacement.SPREAD:
            return None if self.gang is None else 1
        return self.gang.tasks_per_host

    def bound(self, layout: Layout, tasks: int = 1) -> int:
        """What a host must have for a number of tasks, as a search among hosts takes it. That for one task is kept."""
        if tasks != 1:
            cpu, memory, disk, gpu, tpu = self.need
            return layout.wanted((cpu * tasks, memory * tasks, disk * tasks, gpu * tasks, tpu * tasks), exclusive=self.exclusive)
        if self._bound is None or self._bound[0] is not layout:
            self._bound = (layout, layout.wanted(self.need, exclusive=self.exclusive))
        return self._bound[1]

    def tasks_in(self, host: HostBin, limit: int) -> int:
        """How many tasks the host can take, up to a limit."""
        if self.exclusive and host.alone:
            if not host.whole:
                return 0
            limit = min(limit, self.per_host or 1)
        elif self.per_host is not None:
            limit = min(limit, self.per_host)
        return holds_up_to((host.cpu, host.memory, host.disk, host.gpu, host.tpu), self.need, limit)

    def tasks_in_new(self, group: ScaleGroup, limit: int) -> int:
        """How many tasks an unused host of the group can take, up to a limit."""
        if self.exclusive and group.hosts_alone:
            limit = min(limit, self.per_host or 1)
        elif self.per_host is not None:
            limit = min(limit, self.per_host)
        return holds_up_to(group.host.vector, self.need, limit)


class ShapeCursors:
    """Cursors for every shape of a workload, in up to two passes so that accelerators are conserved.

    In the first pass, work that needs no accelerator sees only groups without any. In the second it sees all its groups,
    those without accelerators first.
    """

    def __init__(self, shapes: Sequence[Shape], matcher: Matcher, *, conserve: bool, buys: bool = True) -> None:
        """Without `buys`, the cursors see existing slices only."""
        self.all = [matcher.candidates(shape) for shape in shapes]
        self._shapes = shapes
        self._matcher = matcher
        self._conserve = conserve
        self._buy_order = None if buys else ()
        self._split: dict[Candidates, tuple[Candidates, Candidates]] = {}

    def everywhere(self) -> list[ShapeCursor]:
        """One cursor per shape, over every group that can take it."""
        return [ShapeCursor(shape, self.all[s]) for s, shape in enumerate(self._shapes)]

    def first_pass(self) -> list[ShapeCursor]:
        """One cursor per shape, for the first pass."""
        return [ShapeCursor(shape, self._passes(s)[0], self._buy_order) for s, shape in enumerate(self._shapes)]

    def second_pass(self) -> list[ShapeCursor | None]:
        """One cursor per shape that has further groups in the second pass."""
        passes = [self._passes(s) for s in range(len(self._shapes))]
        return [
            ShapeCursor(self._shapes[s], last, self._buy_order) if last is not first else None
            for s, (first, last) in enumerate(passes)
        ]

    def _passes(self, s: int) -> tuple[Candidates, Candidates]:
        found = self.all[s]
        if not self._conserve or self._shapes[s].accelerated:
            return found, found
        if found not in self._split:
            self._split[found] = self._matcher.in_two_passes(found, self._matcher.plain)
        return self._split[found]
