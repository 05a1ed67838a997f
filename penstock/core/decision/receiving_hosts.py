"""Receiving hosts: the free room of busy slices, searched for hosts that can take what runs on another slice."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from penstock.core.decision.bins import NOTHING, SliceBin, load_of
from penstock.core.decision.effort import Effort
from penstock.core.decision.first_fit import NONE, FirstFit, Layout
from penstock.model.cluster import ScaleGroup
from penstock.model.resources import TPU, Vector
from penstock.model.runs import HostRef
from penstock.model.slices import SliceUsage

HOST_STEPS = 15
"""Steps of preparing one host, or one load."""
_ONE = 1 << 64
"""The largest host on offer in one dimension, when amounts of several dimensions are added up: more than any host has of any."""


class Load(NamedTuple):
    """Everything that runs on one host. It moves as one block. `alone` if it has TPU chips of hosts that are not shared."""

    host: int
    need: Vector
    alone: bool


def named_loads(usage: SliceUsage, group: ScaleGroup, most: Vector) -> tuple[Load, ...]:
    """The load of each busy host; none unless usage names tasks and reserved resources of all of them, and no gang.

    None either if one needs more than `most` in any dimension.
    """
    found, alone = [], group.hosts_alone
    if len(usage) != group.hosts_per_slice:
        return ()
    for i, host in enumerate(usage):
        if not host.movable:
            return ()
        if not host.idle:
            need = load_of(host)
            if need[0] > most[0] or need[1] > most[1] or need[2] > most[2] or need[3] > most[3] or need[4] > most[4]:
                return ()
            found.append(Load(i, need, alone and need[TPU] > 0))
    return tuple(found)


class Room(NamedTuple):
    """What is left on a host. Loads that are `alone` need a host on which nothing runs, and leave nothing."""

    free: Vector
    unused: bool

    def takes(self, load: Load) -> bool:
        """Whether the load fits."""
        return (self.unused or not load.alone) and all(have >= need for have, need in zip(self.free, load.need, strict=True))

    def less(self, load: Load) -> "Room":
        """What is left once the load is there."""
        if load.alone:
            return Room(NOTHING, unused=False)
        cpu, memory, disk, gpu, tpu = (have - need for have, need in zip(self.free, load.need, strict=True))
        return Room((cpu, memory, disk, gpu, tpu), unused=False)


class ReceivingHost:
    """A host of a slice that may receive loads, and what is left on it."""

    __slots__ = ("kinds", "order", "ref", "room")

    def __init__(self, ref: HostRef, room: Room, kinds: int, order: tuple[bool, float, int, int, int]) -> None:
        """`kinds` are the bits that searches find it by; the host that is least in `order` is found first."""
        self.ref, self.room, self.kinds, self.order = ref, room, kinds, order


def rooms_of(slice_bin: SliceBin, usage: SliceUsage, group: ScaleGroup, least: Vector) -> Iterator[tuple[int, Room]]:
    """The hosts of a READY slice that have so much left, once the plan has placed its entries. TPU work has a host to itself."""
    alone = group.hosts_alone
    cpu, memory, disk, gpu, tpu = least
    for i, host in enumerate(slice_bin.hosts):
        if host.cpu < cpu or host.memory < memory or host.disk < disk or host.gpu < gpu or host.tpu < tpu:
            continue
        if not (alone and len(usage) > i and (reserved := usage[i].reserved) is not None and reserved.tpu_chips):
            yield i, Room((host.cpu, host.memory, host.disk, host.gpu, host.tpu), unused=host.whole)


def most_room(bins: Iterable[SliceBin]) -> Vector:
    """The most that any host has left in each dimension."""
    cpu = memory = disk = gpu = tpu = 0
    for slice_bin in bins:
        for host in slice_bin.hosts:
            cpu = host.cpu if host.cpu > cpu else cpu
            memory = host.memory if host.memory > memory else memory
            disk = host.disk if host.disk > disk else disk
            gpu = host.gpu if host.gpu > gpu else gpu
            tpu = host.tpu if host.tpu > tpu else tpu
    return (cpu, memory, disk, gpu, tpu)


class Sizes:
    """Compares amounts of several dimensions: the sum of their fractions of the largest host on offer."""

    def __init__(self, layout: Layout) -> None:
        self._cpu, self._memory, self._disk, self._gpu, self._tpu = (_ONE // most for most in layout.most)

    def of(self, vector: Vector) -> int:
        """The size of a vector, a whole number."""
        cpu, memory, disk, gpu, tpu = vector
        return cpu * self._cpu + memory * self._memory + disk * self._disk + gpu * self._gpu + tpu * self._tpu


class ReceivingHosts:
    """Hosts that may receive loads, in an order in which the first that can take a load does."""

    def __init__(self, layout: Layout, hosts: Iterable[ReceivingHost], effort: Effort, *, most_steps: int) -> None:
        """At most so many steps are spent on searches; then nothing fits any more."""
        self._layout, self._effort = layout, effort
        self._hosts: list[ReceivingHost] = sorted(hosts, key=attrgetter("order"))
        self._stop_at = effort.spent + most_steps
        self._tree = FirstFit(layout, effort, (self._leaf(host) for host in self._hosts))
        self._of_slice: dict[str, list[int]] = {}
        for i, host in enumerate(self._hosts):
            self._of_slice.setdefault(host.ref.slice_id, []).append(i)

    @property
    def is_spent(self) -> bool:
        """Whether the steps for searches are used up."""
        return self._effort.spent >= self._stop_at

    def receive(self, slice_id: str, loads: Sequence[Load], kinds: int) -> tuple[HostRef, ...] | None:
        """Give each load of a slice to a host of another slice of these kinds, and say to which; None if one does not fit."""
        taken: dict[int, Room] = {}
        found = []
        for load in loads:
            i = self._first(slice_id, load, kinds, taken)
            if i == NONE:
                return None
            taken[i] = taken.get(i, self._hosts[i].room).less(load)
            found.append((load.host, self._hosts[i].ref))
        for i, room in taken.items():
            self._hosts[i].room = room
            self._tree.replace(i, *self._leaf(self._hosts[i]))
        return tuple(ref for _, ref in sorted(found))

    def remove(self, slice_id: str) -> None:
        """The slice receives nothing: it is emptied itself."""
        for i in self._of_slice.get(slice_id, ()):
            self._tree.remove(i)

    def _first(self, slice_id: str, load: Load, kinds: int, taken: dict[int, Room]) -> int:
        bound = self._layout.wanted(load.need, exclusive=load.alone)
        i = 0
        while not self.is_spent and (i := self._tree.first(i, bound, kinds)) != NONE:
            if self._hosts[i].ref.slice_id != slice_id and (i not in taken or taken[i].takes(load)):
                return i
            i += 1
        return NONE

    def _leaf(self, host: ReceivingHost) -> tuple[int, int]:
        if host.room.free is NOTHING:
            return self._layout.ones, 0
        return self._layout.has(host.room.free, usable_alone=host.room.unused), host.kinds
