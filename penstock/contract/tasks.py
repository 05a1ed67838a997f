"""Parse the tasks of controllers and demand files, single or many with `count`, into demand."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from penstock.contract.problems import BadMessage, describe_errors
from penstock.model.demand import Demand, Task, TaskGang, TaskId
from penstock.model.demand_builder import Batch, DemandBuilder, build_demand, joined
from penstock.model.gc_pause import gc_paused
from penstock.model.runs import Fault, FaultCode
from penstock.model.shape import MOST_TASKS, Gang, Shape
from penstock.model.units import Positive
from penstock.wording import counted, shortened

DESCRIBED_FAULTS = 30
"""Invalid tasks of one message that get an error message of their own: the messages are stored in the state."""
_LONGEST_ID = 100
"""Characters of a task id in an error message."""
_ALIKE = Fault(code=FaultCode.INVALID, message="it is invalid; the first invalid tasks of its message say why")
"""Fault of the further invalid tasks."""


class GangItem(Gang):
    """The gang of a demand item: with `id`, the gang that this task belongs to; without, the item is a whole gang."""

    id: TaskId | None = None
    pending: Positive | None = None

    @model_validator(mode="after")
    def _pending_is_part_of_size(self) -> Self:
        if self.pending is not None and self.pending > self.size:
            raise ValueError(f"pending {self.pending} is more than the gang's size {self.size}")
        if self.pending is not None and self.id is not None:
            raise ValueError("pending is only for a gang without id; remove id, or list the pending tasks one by one")
        return self


class DemandItem(Shape):
    """One task, `count` independent tasks, or `count` gangs."""

    id: TaskId
    count: Positive = 1
    gang: GangItem | None = None

    def parts(self) -> Iterator[Task | Batch]:
        """The tasks of this item."""
        names = [self.id] if self.count == 1 else [f"{self.id}/{i}" for i in range(self.count)]
        if self.gang is None:
            yield Batch(self, names, self.count)
        elif self.gang.id is None:
            pending = self.gang.pending or self.gang.size
            yield Batch(self, [f"{name}/{i}" for name in names for i in range(pending)], self.count, names)
        else:
            shape = self.alone()
            assert shape.gang is not None
            member = TaskGang(id=self.gang.id, **vars(shape.gang))
            for name in names:
                yield Task.model_construct(**vars(shape) | {"id": name, "gang": member})

    @property
    def tasks(self) -> int:
        """Number of tasks of this item."""
        return self.count * (1 if self.gang is None or self.gang.id is not None else self.gang.pending or self.gang.size)


_ITEMS: TypeAdapter[list[DemandItem]] = TypeAdapter(list[DemandItem])
_TASK_ID: TypeAdapter[str] = TypeAdapter(TaskId)


@gc_paused
def demand_of(written: Sequence[Any]) -> Demand:
    """Read a list of tasks into demand. Each invalid task becomes an entry with a fault, after the valid ones.

    Raises `BadMessage` if there are more tasks than one message may hold.
    """
    if len(written) > MOST_TASKS:
        raise BadMessage(f"tasks: {too_many(len(written))}")
    items, faults = _read(written)
    wanted = sum(item.tasks for item in items)
    if wanted > MOST_TASKS:
        raise BadMessage(f"tasks: {too_many(wanted)}; check count and gang.size")
    demand = build_demand(part for item in items for part in item.parts())
    return joined([demand, _unreadable(written, faults, set(demand.task_ids))]) if faults else demand


def _unreadable(written: Sequence[Any], faults: Mapping[int, Fault], taken: set[str]) -> Demand:
    """An entry for each invalid task, with an id that no other task has."""
    builder = DemandBuilder()
    shape = Shape()
    for fault, positions in groupby(faults, faults.__getitem__):
        ids = []
        for position in positions:
            name = _name_of(written[position], position)
            ids.append(name if name not in taken else f"{name} (task {position} of its message)")
            taken.add(ids[-1])
        builder.add(shape, ids, entries=len(ids), fault=fault)
    return builder.build()


def invalid_in(demand: Demand) -> int:
    """Number of invalid tasks in the demand."""
    runs = demand.workload.runs
    return sum(run.entries for run in runs if run.fault is not None and run.fault.code is FaultCode.INVALID)


def invalid_tasks(demand: Demand) -> str | None:
    """What is wrong with the first invalid task and how many there are; None if all are valid."""
    count = invalid_in(demand)
    if not count:
        return None
    for run, ids, _ in demand.pieces():
        if run.fault is not None and run.fault.code is FaultCode.INVALID:
            more = f"; and {counted(count - 1, 'more invalid task')}" if count > 1 else ""
            return f"tasks: {shortened(ids[0], _LONGEST_ID)}: {run.fault.message}{more}"
    return None


def too_many(tasks: int) -> str:
    """The problem of a file or message with too many tasks."""
    return f"{tasks} tasks are more than the {MOST_TASKS} that one file or message may hold"


def _read(written: Sequence[Any]) -> tuple[list[DemandItem], dict[int, Fault]]:
    """The valid items, and the faults of the others by position.

    Validates the whole list first, which is fast. If that fails, validates again without the invalid items.
    """
    tasks = list(written)
    try:
        return _ITEMS.validate_python(tasks), {}
    except ValidationError as error:
        mistakes = _mistakes_by_position(error)
    items = _ITEMS.validate_python([task for position, task in enumerate(tasks) if position not in mistakes])
    described = {position: describe_errors(mistakes[position], DemandItem) for position in sorted(mistakes)[:DESCRIBED_FAULTS]}
    faults = {position: Fault(code=FaultCode.INVALID, message=message) for position, message in described.items()}
    return items, {position: faults.get(position, _ALIKE) for position in sorted(mistakes)}


def _mistakes_by_position(error: ValidationError) -> dict[int, list[ErrorDetails]]:
    """The errors of each task, with paths that begin at the task."""
    mistakes: dict[int, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        position, *path = detail["loc"]
        assert isinstance(position, int)
        mistakes.setdefault(position, []).append({**detail, "loc": tuple(path)})
    return mistakes


def _name_of(task: Any, position: int) -> str:
    try:
        return _TASK_ID.validate_python(task.get("id") if isinstance(task, dict) else None)
    except ValidationError:
        return f"task {position} of its message"
