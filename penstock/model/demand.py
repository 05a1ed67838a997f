"""Demand: shapes, runs of entries of one shape, and the task and gang ids of the entries."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import accumulate
from operator import attrgetter, itemgetter, mul
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from penstock.model.packed import Ids, PackedSchema, longest, pack, unpack
from penstock.model.runs import Run, Runs
from penstock.model.shape import Gang, Shape
from penstock.model.value import Value

TaskId = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Any text without control characters: ids are printed on terminals."""
_PACKED = "packed"
"""Where a demand keeps its packed columns, beside its cached properties: they are no part of its value."""
GANG_SIZE = "gang.size"
"""Field of the fault "more tasks than the gang's size", the only fault that ends when tasks are removed."""


class TaskGang(Gang):
    """A task's membership in a gang."""

    id: TaskId


class Task(Shape):
    """A task as its controller describes it: a shape, an id, and the gang it belongs to."""

    id: TaskId
    gang: TaskGang | None = None


def _pack_shapes(shapes: tuple[Shape, ...]) -> str:
    return pack([shape.model_dump(mode="json", exclude_defaults=True) for shape in shapes])


def _unpack_shapes(value: Any, info: ValidationInfo) -> Any:
    return unpack(value, longest(info)) if isinstance(value, str) else value


Shapes = Annotated[
    tuple[Shape, ...],
    BeforeValidator(_unpack_shapes),
    PlainSerializer(_pack_shapes, return_type=str, when_used="json"),
    PackedSchema,
]
"""Distinct shapes. In JSON: one packed string, or a plain list in hand-written input."""


class Workload(Value):
    """Demand as a decision sees it: shapes and counts, no ids."""

    shapes: Shapes = ()
    runs: Runs = ()

    @property
    def entries(self) -> int:
        """Number of entries. Each is placed whole or not at all."""
        return sum(run.entries for run in self.runs)


class Entry(NamedTuple):
    """One task or one gang: its run, its position in the run, and its ids."""

    run: int
    position: int
    task_ids: tuple[str, ...]
    gang_id: str | None


class Demand(Value):
    """A workload with its ids, in order: `pending` task ids per entry, and one gang id per gang entry."""

    workload: Workload = Workload()
    task_ids: Ids = ()
    gang_ids: Ids = ()

    def entries(self) -> Iterator[Entry]:
        """Every entry with its ids, in order."""
        task, gang = 0, 0
        for number, run in enumerate(self.workload.runs):
            ganged = self.workload.shapes[run.shape].gang is not None
            for index in range(run.entries):
                gang_id = self.gang_ids[gang] if ganged else None
                yield Entry(number, index, self.task_ids[task : task + run.pending], gang_id)
                task, gang = task + run.pending, gang + ganged

    def span_task_ids(self, run: int, first: int, count: int) -> tuple[str, ...]:
        """The ids of `count` entries of a run, from `first` on."""
        start, pending = self.task_starts[run], self.workload.runs[run].pending
        return self.task_ids[start + first * pending : start + (first + count) * pending]

    def find(self, task_id: str) -> Entry | None:
        """The entry that a task belongs to; None if the task is not demand."""
        if task_id not in self.task_ids:
            return None
        position = self.task_ids.index(task_id)
        number = bisect_right(self.task_starts, position) - 1
        return self._entry(number, (position - self.task_starts[number]) // self.workload.runs[number].pending)

    def find_gang(self, gang_id: str) -> Entry | None:
        """The entry of a gang; None if it is not demand."""
        if gang_id not in self.gang_ids:
            return None
        position = self.gang_ids.index(gang_id)
        number = bisect_right(self.gang_starts, position) - 1
        return self._entry(number, position - self.gang_starts[number])

    def _entry(self, number: int, position: int) -> Entry:
        run, ids, gangs = self.piece(number)
        members = ids[position * run.pending : (position + 1) * run.pending]
        return Entry(number, position, members, gangs[position] if gangs else None)

    @property
    def duplicate(self) -> str | None:
        """The first task id that occurs more than once; None if all are distinct."""
        if len(set(self.task_ids)) == len(self.task_ids):
            return None
        return next(task_id for task_id, times in Counter(self.task_ids).items() if times > 1)

    @cached_property
    def members(self) -> frozenset[str]:
        """All task ids."""
        return frozenset(self.task_ids)

    @cached_property
    def gangs(self) -> frozenset[str]:
        """All gang ids."""
        return frozenset(self.gang_ids)

    def faulty(self, task_ids: AbstractSet[str]) -> str | None:
        """The first inconsistent gang that contains one of the tasks; None if there is none."""
        return next((gang for ids, gang in self._inconsistent if not ids.isdisjoint(task_ids)), None)

    @cached_property
    def _inconsistent(self) -> list[tuple[frozenset[str], str]]:
        """The tasks of each inconsistent gang, and its id."""
        if not any(run.fault for run in self.workload.runs):
            return []
        faults = ((run.fault, ids, gangs) for run, ids, gangs in self.pieces() if gangs)
        return [(frozenset(ids), gangs[0]) for fault, ids, gangs in faults if fault is not None and fault.field != GANG_SIZE]

    def runs_of(self, task_ids: AbstractSet[str]) -> list[int]:
        """The runs that have any of the tasks, in order."""
        positions = [position for position, task_id in enumerate(self.task_ids) if task_id in task_ids]
        return list(dict.fromkeys(bisect_right(self.task_starts, position) - 1 for position in positions))

    def piece(self, number: int) -> tuple[Run, tuple[str, ...], tuple[str, ...]]:
        """One run with the ids of its tasks and of its gangs."""
        ids = self.task_ids[self.task_starts[number] : self.task_starts[number + 1]]
        gangs = self.gang_ids[self.gang_starts[number] : self.gang_starts[number + 1]] if self.gang_ids else ()
        return self.workload.runs[number], ids, gangs

    def pieces(self) -> Iterator[tuple[Run, tuple[str, ...], tuple[str, ...]]]:
        """Every run with the ids of its tasks and of its gangs."""
        task = gang = 0
        for run in self.workload.runs:
            ids = self.task_ids[task : task + run.entries * run.pending]
            gangs = self.gang_ids[gang : gang + run.entries] if self.workload.shapes[run.shape].gang else ()
            task, gang = task + len(ids), gang + len(gangs)
            yield run, ids, gangs

    @model_validator(mode="after")
    def _ids_and_runs_agree(self) -> Self:
        shapes, runs = self.workload.shapes, self.workload.runs
        numbers, entries, pending = (list(map(attrgetter(field), runs)) for field in ("shape", "entries", "pending"))
        if runs and (min(numbers) < 0 or max(numbers) >= len(shapes) or min(entries) < 1 or min(pending) < 1):
            raise ValueError("a run names a shape that is not listed, or has no entries, or entries without tasks")
        tasks = sum(map(mul, entries, pending))
        if tasks != len(self.task_ids):
            raise ValueError(f"runs count {tasks} tasks, but {len(self.task_ids)} task_ids are given")
        ganged = [shape.gang is not None for shape in shapes]
        gangs = sum(count for number, count in zip(numbers, entries, strict=True) if ganged[number]) if any(ganged) else 0
        if gangs != len(self.gang_ids):
            raise ValueError(f"runs count {gangs} gangs, but {len(self.gang_ids)} gang_ids are given")
        return self

    @model_serializer(mode="wrap")
    def _packed_once(self, pack_fields: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        """In JSON: packed columns, which are kept, because the same demand is written at every evaluation."""
        if info.mode != "json" or info.include or info.exclude or info.exclude_defaults:
            return pack_fields(self)
        kept = vars(self)
        if _PACKED not in kept:
            kept[_PACKED] = pack_fields(self)
        return kept[_PACKED]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, without what was derived from the fields before."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in vars(copied).keys() - type(self).model_fields.keys():
            del vars(copied)[derived]
        return copied

    @cached_property
    def packed_size(self) -> int:
        """Size as JSON, in bytes."""
        return len(self.model_dump_json().encode())

    @cached_property
    def task_starts(self) -> list[int]:
        """The position of the first task of each run, and the number of tasks."""
        runs = self.workload.runs
        return [0, *accumulate(map(mul, map(itemgetter(1), runs), map(itemgetter(2), runs)))]

    @cached_property
    def entry_starts(self) -> list[int]:
        """The position of the first entry of each run, and the number of entries."""
        return [0, *accumulate(map(itemgetter(1), self.workload.runs))]

    @cached_property
    def gang_starts(self) -> list[int]:
        """The position of the first gang of each run, and the number of gangs."""
        ganged = [shape.gang is not None for shape in self.workload.shapes]
        return [0, *accumulate(run.entries if ganged[run.shape] else 0 for run in self.workload.runs)]
