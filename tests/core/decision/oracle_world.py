"""Slices and hosts of the oracle, as plain lists that are copied freely, with headroom counted on every call."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.core.decision.match import exclusion, in_rank_order, soft_satisfied
from penstock.model.cluster import ScaleGroup
from penstock.model.left_behind import LeftBehind
from penstock.model.shape import Shape
from penstock.model.snapshot import Snapshot


@dataclass
class Host:
    """Free resources of one host; closed once a task or gang uses it exclusively."""

    free: list[int]
    whole: bool
    closed: bool = False

    @classmethod
    def empty(cls, group: ScaleGroup) -> "Host":
        return cls(list(group.host.vector), whole=True)

    @classmethod
    def full(cls, group: ScaleGroup) -> "Host":
        """A busy or degraded host: no space, not even for a task that needs no resources."""
        return cls(list(group.host.vector), whole=False, closed=True)

    def room(self, shape: Shape, group: ScaleGroup) -> int:
        """How many tasks of one entry the host takes now."""
        alone = takes_alone(shape, group)
        if self.closed or (alone and not self.whole):
            return 0
        size, per_host = (shape.gang.size, shape.gang.tasks_per_host) if shape.gang else (1, None)
        most = min(size, per_host or (1 if alone else size))
        return next(tasks for tasks in range(most, -1, -1) if self._fits(shape, tasks))

    def _fits(self, shape: Shape, tasks: int) -> bool:
        return all(need * tasks <= have for need, have in zip(shape.need, self.free, strict=True))

    def take(self, shape: Shape, group: ScaleGroup, tasks: int = 1) -> None:
        self.free = [have - need * tasks for have, need in zip(self.free, shape.need, strict=True)]
        self.whole = False
        self.closed = self.closed or takes_alone(shape, group)


def takes_alone(shape: Shape, group: ScaleGroup) -> bool:
    return shape.exclusive and not group.shared_tpu


@dataclass
class Lot:
    """One slice that is READY or in flight."""

    group: ScaleGroup
    id: str
    hosts: list[Host]
    ready: bool
    busy: bool = False
    reported: bool = True
    used: bool = False
    opener: int | None = None

    @property
    def empty(self) -> bool:
        return not self.used and bool(self.hosts) and all(host.whole for host in self.hosts)

    def fill(self) -> None:
        """Give the whole slice to a gang."""
        self.used = True
        for host in self.hosts:
            host.whole, host.closed = False, True


def whole_lot(group: ScaleGroup, slice_id: str, *, ready: bool = False) -> Lot:
    return Lot(group, slice_id, [Host.empty(group) for _ in range(group.hosts_per_slice)], ready=ready)


@dataclass
class World:
    """Everything that placing changes: slices in launch order, and opened units."""

    snapshot: Snapshot
    lots: list[Lot]
    blocked: dict[str, str]
    units: list[list[str]] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)

    @property
    def groups(self) -> list[ScaleGroup]:
        return in_rank_order(self.snapshot.config.groups)

    def copy(self) -> "World":
        lots = [replace(lot, hosts=[replace(host, free=list(host.free)) for host in lot.hosts]) for lot in self.lots]
        return World(self.snapshot, lots, self.blocked, [list(unit) for unit in self.units], list(self.fresh))

    def ready(self, group: ScaleGroup) -> list[Lot]:
        return [lot for lot in self.lots if lot.ready and lot.group.name == group.name]

    def ready_of(self, groups: Sequence[ScaleGroup]) -> list[Lot]:
        """READY slices of the groups in order: first those that a usage report has named."""
        lots = [lot for group in groups for lot in self.ready(group)]
        return sorted(lots, key=lambda lot: not lot.reported)

    def in_flight(self) -> list[Lot]:
        return [lot for lot in self.lots if not lot.ready]

    def opened(self, group: ScaleGroup) -> int:
        return self.fresh.count(group.name)

    def open(self, group: ScaleGroup) -> Lot:
        """Open one slice; the caller adds it to a unit."""
        self.fresh.append(group.name)
        self.lots.append(whole_lot(group, f"new-{len(self.fresh)}"))
        return self.lots[-1]

    def open_unit(self, names: list[str]) -> None:
        """Open slices of these groups as one unit."""
        for name in names:
            self.open(next(group for group in self.groups if group.name == name))
        self.units.append(list(names))

    def give_back(self, unused: list[Lot]) -> None:
        """Undo the opening of slices."""
        for lot in unused:
            self.lots.remove(lot)
            del self.fresh[-1 - self.fresh[::-1].index(lot.group.name)]

    def total(self, group: ScaleGroup) -> int:
        return sum(each.group == group.name for each in self.snapshot.slices) + self.opened(group)

    def headroom(self, group: ScaleGroup) -> int:
        """Slices the group may still add."""
        config = self.snapshot.config
        if group.name in self.blocked:
            return 0
        bounds = [group.max_slices - self.total(group)]
        if config.max_slices is not None:
            bounds.append(config.max_slices - len(self.snapshot.slices) - len(self.fresh))
        for pool in config.pools:
            if pool.name == group.pool:
                charged = sum(self.total(other) * other.chips_per_slice for other in self.groups if other.pool == pool.name)
                charged += sum(left.chips for left in self._of_removed_groups() if left.pool == pool.name)
                bounds.append(max(0, pool.chips - pool.system - charged) // group.chips_per_slice)
        return max(0, min(bounds))

    def _of_removed_groups(self) -> list[LeftBehind]:
        """What slices of removed groups keep of them."""
        gone = [each.left for each in self.snapshot.slices if self.snapshot.config.group(each.group) is None]
        return [left for left in gone if left is not None]

    def candidates(self, shape: Shape) -> list[ScaleGroup]:
        groups = [group for group in self.groups if exclusion(shape, group) is None]
        return sorted(groups, key=lambda group: -soft_satisfied(shape, group))
