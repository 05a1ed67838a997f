"""Demand: tasks grouped into entries, and entries of one shape into runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer

from penstock.model.bulk import in_bulk
from penstock.model.packed import Ids, PackedSchema, pack, unpack
from penstock.model.resources import DIMENSIONS, Resources, format_amount
from penstock.model.runs import Fault, FaultCode, HostRef, Run, Runs
from penstock.model.shape import Gang, Shape
from penstock.model.value import Value

TaskId = Annotated[str, Field(min_length=1, max_length=512)]


class TaskGang(Gang):
    """A task's membership in a gang."""

    id: Annotated[str, Field(min_length=1)]


class Task(Shape):
    """A task as its controller describes it: a shape, an id, and the gang it belongs to."""

    id: TaskId
    gang: TaskGang | None = None


def _pack_shapes(shapes: tuple[Shape, ...]) -> str:
    return pack([shape.model_dump(mode="json", exclude_defaults=True) for shape in shapes])


def _unpack_shapes(value: Any) -> Any:
    return unpack(value) if isinstance(value, str) else value


Shapes = Annotated[
    tuple[Shape, ...],
    BeforeValidator(_unpack_shapes),
    PlainSerializer(_pack_shapes, return_type=str, when_used="json"),
    PackedSchema,
]
"""Distinct shapes; in JSON one packed string, or a plain list where someone else wrote it."""


class Workload(Value):
    """Demand as a decision sees it: shapes and counts, no ids."""

    shapes: Shapes = ()
    runs: Runs = ()

    @property
    def entries(self) -> int:
        """Wants in all, each met whole or not at all."""
        return sum(run.entries for run in self.runs)


class Entry(NamedTuple):
    """One want: its place in the demand, and the tasks behind it."""

    run: int
    position: int
    task_ids: tuple[str, ...]
    gang_id: str | None


class Demand(Value):
    """A workload with the ids behind it: one gang id per gang entry, `pending` task ids per entry, in order."""

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
        start, pending = self._starts[run], self.workload.runs[run].pending
        return self.task_ids[start + first * pending : start + (first + count) * pending]

    def find(self, task_id: str) -> Entry | None:
        """The entry that a task belongs to."""
        if task_id not in self.task_ids:
            return None
        return next(entry for entry in self.entries() if task_id in entry.task_ids)

    @property
    def duplicate(self) -> str | None:
        """A task id that stands here twice, if one does."""
        if len(set(self.task_ids)) == len(self.task_ids):
            return None
        return next(task_id for task_id, times in Counter(self.task_ids).items() if times > 1)

    def without(self, gone: AbstractSet[str]) -> "Demand":
        """The same demand without some tasks; a gang that keeps a task stays, with fewer pending."""
        if gone.isdisjoint(self.task_ids):
            return self
        builder = DemandBuilder()
        task = gang = 0
        for run in self.workload.runs:
            shape = self.workload.shapes[run.shape]
            ids = self.task_ids[task : task + run.entries * run.pending]
            gangs = self.gang_ids[gang : gang + run.entries] if shape.gang else ()
            task, gang = task + len(ids), gang + len(gangs)
            if gone.isdisjoint(ids):
                builder.add(shape, ids, entries=run.entries, gang_ids=gangs, apart=run.apart, fault=run.fault)
            elif not shape.gang and (kept := [task_id for task_id in ids if task_id not in gone]):
                builder.add(shape, kept, entries=len(kept), fault=run.fault)
            for i, gang_id in enumerate(gangs if not gone.isdisjoint(ids) else ()):
                members = [task_id for task_id in ids[i * run.pending : (i + 1) * run.pending] if task_id not in gone]
                if members:
                    builder.add(shape, members, gang_ids=(gang_id,), apart=run.apart, fault=run.fault)
        return builder.build()

    @staticmethod
    def joined(demands: Iterable["Demand"]) -> "Demand":
        """Several demands as one, in order."""
        parts = list(demands)
        if len(parts) == 1:
            return parts[0]
        builder = DemandBuilder()
        for demand in parts:
            task = gang = 0
            for run in demand.workload.runs:
                shape, tasks = demand.workload.shapes[run.shape], run.entries * run.pending
                gangs = demand.gang_ids[gang : gang + run.entries] if shape.gang else ()
                ids = demand.task_ids[task : task + tasks]
                builder.add(shape, ids, entries=run.entries, gang_ids=gangs, apart=run.apart, fault=run.fault)
                task, gang = task + tasks, gang + len(gangs)
        return builder.build()

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [], 0
        for run in self.workload.runs:
            starts.append(at)
            at += run.entries * run.pending
        return starts


class DemandBuilder:
    """Collects entries in order and merges neighbours of one shape into runs."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[object, ...], tuple[int, Shape]] = {}
        self._runs: list[Run] = []
        self._task_ids: list[str] = []
        self._gang_ids: list[str] = []

    def add(
        self,
        shape: Shape,
        task_ids: Sequence[str],
        *,
        entries: int = 1,
        gang_ids: Sequence[str] = (),
        apart: tuple[HostRef, ...] = (),
        fault: Fault | None = None,
    ) -> None:
        """Append equal entries; `task_ids` are divided among them evenly."""
        known = self._shapes.get(shape.key)
        if known is None:
            known = self._shapes[shape.key] = (len(self._shapes), shape.alone())
        number = known[0]
        run = Run(number, entries, len(task_ids) // entries, apart, fault)
        self._task_ids += task_ids
        self._gang_ids += gang_ids
        last = self._runs[-1] if self._runs else None
        if last is not None and not apart and last[0] == run[0] and last[2:] == run[2:]:
            self._runs[-1] = last._replace(entries=last.entries + entries)
        else:
            self._runs.append(run)

    def build(self) -> Demand:
        """The demand collected so far."""
        return Demand.model_construct(
            workload=Workload.model_construct(shapes=tuple(shape for _, shape in self._shapes.values()), runs=tuple(self._runs)),
            task_ids=tuple(self._task_ids),
            gang_ids=tuple(self._gang_ids),
        )


class Batch(NamedTuple):
    """Equal entries given at once: one shape, and the ids of all their tasks."""

    shape: Shape
    task_ids: Sequence[str]
    entries: int
    gang_ids: Sequence[str] = ()


@in_bulk
def build_demand(tasks: Iterable[Task | Batch]) -> Demand:
    """Tasks as entries: one per task, or one per gang at the place of its first task.

    Tasks of one gang that disagree become one entry with a fault that names the field and two of the tasks.
    """
    gangs: dict[str, list[Task]] = {}
    order: list[Task | Batch | str] = []
    for task in tasks:
        if isinstance(task, Batch) or task.gang is None:
            order.append(task)
            continue
        if task.gang.id not in gangs:
            order.append(task.gang.id)
        gangs.setdefault(task.gang.id, []).append(task)
    builder = DemandBuilder()
    for item in order:
        if isinstance(item, Batch):
            builder.add(item.shape, item.task_ids, entries=item.entries, gang_ids=item.gang_ids)
        elif isinstance(item, Task):
            builder.add(item, (item.id,))
        else:
            members = gangs[item]
            ids = tuple(member.id for member in members)
            builder.add(members[0], ids, gang_ids=(item,), fault=_gang_fault(item, members))
    return builder.build()


def _gang_fault(gang_id: str, members: Sequence[Task]) -> Fault | None:
    first = members[0]
    for other in members[1:]:
        for field in ("device", "resources", "constraints", "preemptible", "gang"):
            if getattr(first, field) != getattr(other, field):
                detail = _difference(getattr(first, field), getattr(other, field))
                message = f"tasks {first.id} and {other.id} of gang {gang_id} differ in {field}{detail}; make them equal"
                return Fault(code=FaultCode.INCONSISTENT_GANG, message=message)
    assert first.gang is not None
    if len(members) > first.gang.size:
        message = f"gang {gang_id} has {len(members)} tasks but gang.size is {first.gang.size}; correct gang.size"
        return Fault(code=FaultCode.INCONSISTENT_GANG, message=message)
    return None


def _difference(left: object, right: object) -> str:
    """Which part of a field differs, where it has parts."""
    if isinstance(left, Resources) and isinstance(right, Resources):
        d = next(d for d in range(len(DIMENSIONS)) if left.vector[d] != right.vector[d])
        return f".{DIMENSIONS[d]} ({format_amount(d, left.vector[d])} and {format_amount(d, right.vector[d])})"
    if isinstance(left, Value) and isinstance(right, Value):
        for name, info in type(left).model_fields.items():
            if getattr(left, name) != getattr(right, name):
                return f".{info.alias or name} ({getattr(left, name)} and {getattr(right, name)})"
    return f" ({left} and {right})" if isinstance(left, bool) or isinstance(right, bool) else ""
