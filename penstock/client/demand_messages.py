"""Build the demand messages of one source: snapshots, deltas, and parts that fit Temporal's size limit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from penstock.contract.messages import LARGEST_MESSAGE, DemandMessage, UsageMessage, size_of
from penstock.contract.tasks import DemandItem, demand_of
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder, joined, without
from penstock.model.gc_pause import gc_paused
from penstock.model.runs import Run

Tasks = Demand | Sequence[DemandItem | Mapping[str, Any]]
"""Pending tasks, most urgent first: as in a demand file, or as a `Demand`."""


def as_demand(tasks: Tasks) -> Demand:
    """The tasks as demand. A task that cannot be parsed becomes an entry that says why."""
    return tasks if isinstance(tasks, Demand) else demand_of(tasks)


class DemandMessages:
    """The demand that one source has sent so far, and its revision.

    An epoch begins with a snapshot, so a source that restarts takes a newer epoch and needs to remember nothing.
    """

    def __init__(self, source: str, epoch: int) -> None:
        self.source = source
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

    def holds(self, demand: Demand) -> bool:
        """Whether exactly this demand was sent last."""
        return self._sent is not None and self._sent == demand

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
        old, new = set(before.task_ids), set(demand.task_ids)
        removed = tuple(task for task in before.task_ids if task not in new)
        if 2 * (len(removed) + len(new - old)) > len(new):
            return None
        added = without(demand, old)
        if _rebuilt([without(before, set(removed)), added]) != _rebuilt([demand]):
            return None
        message = self._message(base=base, removed=removed, demand=added)
        return message if size_of(message) <= LARGEST_MESSAGE else None

    def _message(self, **content: Any) -> DemandMessage:
        return DemandMessage(source=self.source, epoch=self.epoch, revision=self.revision, **content)


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
    for start, run, ids, gangs in _pieces_with_starts(demand):
        low, high = max(first - start, 0), min(end - start, run.entries)
        if low < high:
            builder.add(
                demand.workload.shapes[run.shape],
                ids[low * run.pending : high * run.pending],
                entries=high - low,
                gang_ids=gangs[low:high],
                apart=run.apart,
                fault=run.fault,
            )
    return builder.build()


def _pieces_with_starts(demand: Demand) -> Iterator[tuple[int, Run, tuple[str, ...], tuple[str, ...]]]:
    """Every run with the position of its first entry and its ids."""
    start = 0
    for run, ids, gangs in demand.pieces():
        yield start, run, ids, gangs
        start += run.entries


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
