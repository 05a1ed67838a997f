"""Build the demand messages of one source: snapshots, deltas, and parts that fit Temporal's size limit."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, repeat
from operator import ne
from typing import Any

from pydantic_core import to_jsonable_python

from penstock.client.errors import Refused
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import LARGEST_MESSAGE, DemandMessage, UsageMessage, size_of
from penstock.contract.problems import BadMessage
from penstock.contract.tasks import DemandItem, demand_of, invalid_tasks
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder, inserted, joined, only, without
from penstock.model.gc_pause import gc_paused

Tasks = Demand | Sequence[DemandItem | Mapping[str, Any]]
"""Pending tasks, most urgent first: as in a demand file, or as a `Demand`."""


def as_demand(tasks: Tasks) -> Demand:
    """The tasks as demand; raises `Refused` with the field and the fix if one is invalid, so that nothing is sent."""
    try:
        demand = tasks if isinstance(tasks, Demand) else demand_of(tasks)
    except BadMessage as bad:
        raise Refused(str(bad), ErrorCode.BAD_INPUT) from None
    problem = invalid_tasks(demand)
    if problem is not None:
        raise Refused(problem, ErrorCode.BAD_INPUT)
    return demand


class DemandMessages:
    """The demand that one source has sent so far, and its revision.

    An epoch begins with a snapshot, so a source that restarts takes a newer epoch and needs to remember nothing.
    """

    def __init__(self, source: str, epoch: int, lease_seconds: float | None = None) -> None:
        self.source = source
        self._lease_seconds = lease_seconds
        self.epoch = epoch
        self.revision = 0
        self._sent: Demand | None = None

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the last message."""
        return (self.epoch, self.revision)

    @property
    def is_delivered(self) -> bool:
        """Whether the last revision was sent completely, so that the next may be a delta."""
        return self._sent is not None

    @property
    def has_demand(self) -> bool:
        """Whether any demand was sent last."""
        return self._sent is not None and bool(self._sent.task_ids)

    def holds(self, demand: Demand) -> bool:
        """Whether exactly this demand was sent last."""
        return self._sent is not None and self._sent == demand

    @gc_paused
    def messages(self, demand: Demand) -> tuple[DemandMessage, ...]:
        """The messages of the next revision. Call `delivered` once all of them are sent."""
        base, before = self.revision, self._sent
        self.revision += 1
        self._sent = None
        if before is not None:
            delta = self._delta(base, before, demand)
            if delta is not None:
                return (delta,)
        parts = in_parts(demand)
        return tuple(self._message(part=i, parts=len(parts), demand=piece) for i, piece in enumerate(parts, start=1))

    def delivered(self, demand: Demand) -> None:
        """Note that this revision was sent; the next may be a delta to it."""
        self._sent = demand

    def start_new_epoch(self, after: int = -1) -> None:
        """Make the next message a snapshot, in an epoch newer than `after`."""
        self._sent = None
        if after >= self.epoch:
            self.epoch, self.revision = after + 1, 0

    def _delta(self, base: int, before: Demand, demand: Demand) -> DemandMessage | None:
        """The difference, if it is small and reproduces exactly this demand, order included."""
        gone, come = before.members - demand.members, demand.members - before.members
        if _is_large(gone, come, demand):
            return None
        added, positions, wanted = only(demand, come), list[int](), _rebuilt([demand])
        if _rebuilt([without(before, gone), added]) != wanted:
            changed = _changed(before, demand)
            gone, come = gone | changed, come | changed
            if _is_large(gone, come, demand):
                return None
            added, positions = only(demand, come), _positions(demand, come)
            left = without(before, gone)
            if len(positions) != added.entry_starts[-1] or _rebuilt([inserted(left, added, positions)]) != wanted:
                return None
        removed = tuple(task for task in before.task_ids if task in gone) if gone else ()
        message = self._message(base=base, removed=removed, demand=added, positions=tuple(positions))
        return message if size_of(message) <= LARGEST_MESSAGE else None

    def _message(self, **content: Any) -> DemandMessage:
        stamp = {"epoch": self.epoch, "revision": self.revision}
        return DemandMessage(source=self.source, lease=self._lease_seconds, **stamp, **content)


def _is_large(gone: AbstractSet[str], come: AbstractSet[str], demand: Demand) -> bool:
    """Whether a change is so large that a snapshot is hardly larger."""
    return 2 * (len(gone) + len(come)) > len(demand.task_ids)


def _changed(before: Demand, demand: Demand) -> frozenset[str]:
    """Tasks in both demands that want something else now."""
    numbers: dict[object, int] = {}
    shapes_before, shapes = _shapes(before, numbers), _shapes(demand, numbers)
    if before.task_ids == demand.task_ids:
        return frozenset(compress(demand.task_ids, map(ne, shapes_before, shapes)))
    known = dict(zip(before.task_ids, shapes_before, strict=True))
    return frozenset(task for task, shape in zip(demand.task_ids, shapes, strict=True) if known.get(task, shape) != shape)


def _shapes(demand: Demand, numbers: dict[object, int]) -> list[int]:
    """The number of each task's shape, in order; equal shapes have equal numbers in all demands."""
    of_shape = [numbers.setdefault(shape.key, len(numbers)) for shape in demand.workload.shapes]
    found: list[int] = []
    for run in demand.workload.runs:
        tasks = run.entries * run.pending
        if tasks == 1:
            found.append(of_shape[run.shape])
        else:
            found.extend(repeat(of_shape[run.shape], tasks))
    return found


def _positions(demand: Demand, task_ids: AbstractSet[str]) -> list[int]:
    """The positions of the entries that the tasks belong to, among all entries."""
    return [
        demand.entry_starts[number] + i
        for number in demand.runs_of(task_ids)
        for i in range(demand.workload.runs[number].entries)
        if not task_ids.isdisjoint(demand.span_task_ids(number, i, 1))
    ]


def _rebuilt(demands: Sequence[Demand]) -> Demand:
    """Demands joined, with shapes in order of appearance, so that equal demands compare equal."""
    return joined([*demands, Demand()])


def in_parts(demand: Demand, largest: int = LARGEST_MESSAGE) -> list[Demand]:
    """The demand in parts that fit in one message each; an entry is never divided."""
    entries = demand.workload.entries
    if entries <= 1 or size_of(DemandMessage(demand=demand)) <= largest:
        return [demand]
    half = entries // 2
    pieces = (_entries(demand, 0, half), _entries(demand, half, entries))
    return [part for piece in pieces for part in in_parts(piece, largest)]


@gc_paused
def _entries(demand: Demand, first: int, end: int) -> Demand:
    """Entries `first` to `end` of the demand."""
    builder = DemandBuilder()
    builder.extend_entries(demand, first, end)
    return builder.build()


def usage_parts(usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Usage as plain JSON, in parts that fit in one message each; none for no usage."""
    plain: dict[str, Any] = to_jsonable_python(dict(usage))
    if not plain:
        return []
    if len(plain) == 1 or size_of(UsageMessage(usage=plain)) <= LARGEST_MESSAGE // 2:
        return [plain]
    slice_ids = list(plain)
    halves = (slice_ids[: len(slice_ids) // 2], slice_ids[len(slice_ids) // 2 :])
    return [part for half in halves for part in usage_parts({slice_id: plain[slice_id] for slice_id in half})]
