"""Bins: the free resources of hosts, and of the slices that they belong to."""

from penstock.model.resources import GPU, Vector
from penstock.model.shape import gpu_taken
from penstock.model.slices import HostUsage, SliceUsage
from penstock.model.units import MILLI

BIN_STEPS = 5
"""Steps of making the bin of one host."""
NOTHING: Vector = (-1, -1, -1, -1, -1)
"""Free resources of a closed host: below zero, so that even a task that needs nothing does not fit."""


class HostBin:
    """Free resources of one host. A `whole` host is unused; on an `alone` host, TPU work shares with nothing."""

    __slots__ = ("alone", "closed", "cpu", "disk", "gpu", "memory", "owner", "tpu", "whole")

    def __init__(self, owner: "SliceBin", free: Vector, *, whole: bool, alone: bool) -> None:
        self.owner = owner
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = free
        self.whole = whole
        self.alone = alone
        self.closed = free is NOTHING

    @property
    def usable_alone(self) -> bool:
        """Whether work that does not share a host can take this one."""
        return self.whole or not self.alone

    def put(self, need: Vector, tasks: int, *, exclusive: bool) -> None:
        """Place tasks; exclusive work closes a host that is not shared."""
        if exclusive and self.alone:
            self.shut()
            return
        self.whole = False
        self.cpu -= need[0] * tasks
        self.memory -= need[1] * tasks
        self.disk -= need[2] * tasks
        self.gpu -= need[3] * tasks
        self.tpu -= need[4] * tasks

    def close_below(self, floor: Vector) -> None:
        """Close the host if less than the floor is left in any dimension."""
        if self.cpu < floor[0] or self.memory < floor[1] or self.disk < floor[2] or self.gpu < floor[3] or self.tpu < floor[4]:
            self.closed = True

    def shut(self) -> None:
        """Close the host for good."""
        self.cpu, self.memory, self.disk, self.gpu, self.tpu = NOTHING
        self.whole, self.closed = False, True


class SliceBin:
    """The hosts of one slice.

    `empty` until an entry is placed on it, `busy` if work already runs on it, `opened` if this decision orders it. `order` is
    its position among the slices in flight. `reported` unless it is READY and no usage report has named it. `bit` is the kind
    of slice that a search for a host looks for: the group, counted on for those that are not reported. `tasks` are placed on it.
    """

    __slots__ = ("bit", "busy", "empty", "group", "hosts", "opened", "order", "reported", "tasks", "used")

    def __init__(self, group: int, *, busy: bool = False, reported: bool = True) -> None:
        self.group = self.bit = group
        self.reported = reported
        self.order = -1
        self.opened = False
        self.hosts: list[HostBin] = []
        self.busy = busy
        self.empty = not busy
        self.used = False
        self.tasks = 0


def is_unreported(slice_bin: SliceBin) -> bool:
    """Sort key of READY slices: room that usage reports have shown is filled first."""
    return not slice_bin.reported


def free_of(offer: Vector, usage: HostUsage) -> Vector:
    """Free resources of a host. A busy one with no reserved amounts has none."""
    if usage.reserved is None:
        return offer if usage.idle else NOTHING
    cpu, memory, disk, gpu, tpu = (max(0, have - taken) for have, taken in zip(offer, usage.reserved.vector, strict=True))
    return (cpu, memory, disk, min(gpu, max(0, offer[GPU] - _gpu_shares(usage.reserved.gpu_milli, len(usage.tasks)))), tpu)


def load_of(usage: HostUsage) -> Vector:
    """What the tasks of a busy host take of it, and would take of another. Their reserved amounts must be known."""
    assert usage.reserved is not None
    cpu, memory, disk, gpu, tpu = usage.reserved.vector
    return (cpu, memory, disk, max(gpu, _gpu_shares(gpu, len(usage.tasks))), tpu)


def _gpu_shares(reserved: int, tasks: int) -> int:
    """Milli-GPUs that running tasks take: one GPU each if they reserve, on average, a share above one half."""
    share = reserved % MILLI and tasks and reserved // tasks
    return tasks * gpu_taken(share) if share else reserved


def is_idle(usage: SliceUsage, hosts: int) -> bool:
    """Whether usage fits a slice of so many hosts and says that nothing runs there."""
    fits = len(usage) == hosts or (len(usage) == 1 and usage[0].reserved is None)
    return fits and all(host.idle for host in usage)
