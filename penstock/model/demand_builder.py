"""Build demand from tasks: group tasks into entries, join demands, remove tasks, detect inconsistent gangs."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from penstock.model.demand import GANG_SIZE, Demand, Entry, Task, Workload
from penstock.model.gc_pause import gc_paused
from penstock.model.resources import DIMENSIONS, Resources, format_amount
from penstock.model.runs import Fault, FaultCode, HostRef, Run
from penstock.model.shape import Shape
from penstock.model.value import Value

_NEW_RUN = partial(tuple.__new__, Run)
"""A run of a tuple of its fields, at a third of the cost of `_replace`."""


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
        source: str = "",
    ) -> None:
        """Append equal entries. `task_ids` are divided evenly among them; without task ids nothing is added."""
        if not task_ids:
            return
        pending = len(task_ids) // entries
        fault = _current_fault(shape, pending, gang_ids, fault)
        self._append(Run(self._number_of(shape), entries, pending, apart, fault, source))
        self._task_ids += task_ids
        self._gang_ids += gang_ids

    def extend(self, demand: Demand, first: int, end: int) -> None:
        """Append the runs `first` to `end` of a demand as they are, without a look at each: most runs of most changes stay."""
        runs = demand.workload.runs[first:end]
        if not runs:
            return
        used = dict.fromkeys(map(itemgetter(0), runs))
        numbers = {number: self._number_of(demand.workload.shapes[number]) for number in used}
        if any(number != known for number, known in numbers.items()):
            runs = tuple(map(_NEW_RUN, [(numbers[shape], *others) for shape, *others in runs]))
        self._append(runs[0])
        self._runs += runs[1:]
        self._task_ids += demand.task_ids[demand.task_starts[first] : demand.task_starts[end]]
        self._gang_ids += demand.gang_ids[demand.gang_starts[first] : demand.gang_starts[end]] if demand.gang_ids else ()

    def extend_entries(self, demand: Demand, first: int, end: int) -> None:
        """Append the entries `first` to `end` of a demand."""
        if first >= end:
            return
        starts = demand.entry_starts
        begins, ends = bisect_right(starts, first) - 1, bisect_right(starts, end) - 1
        if begins == ends:
            self._extend_part(demand, begins, first, end)
            return
        if starts[begins] < first:
            self._extend_part(demand, begins, first, starts[begins + 1])
            begins += 1
        self.extend(demand, begins, ends)
        if starts[ends] < end:
            self._extend_part(demand, ends, starts[ends], end)

    def _extend_part(self, demand: Demand, number: int, first: int, end: int) -> None:
        """Append the entries `first` to `end`, which are in one run."""
        run, ids, gangs = demand.piece(number)
        low, high = (entry - demand.entry_starts[number] for entry in (first, end))
        self.add(
            demand.workload.shapes[run.shape],
            ids[low * run.pending : high * run.pending],
            entries=high - low,
            gang_ids=gangs[low:high],
            apart=run.apart,
            fault=run.fault,
            source=run.source,
        )

    def _number_of(self, shape: Shape) -> int:
        known = self._shapes.get(shape.key)
        if known is None:
            known = self._shapes[shape.key] = (len(self._shapes), shape.alone())
        return known[0]

    def _append(self, run: Run) -> None:
        """Append a run, or make the last one longer if both are alike."""
        last = self._runs[-1] if self._runs else None
        if last is not None and not run.apart and last[0] == run[0] and last[2:] == run[2:]:
            self._runs[-1] = last._replace(entries=last.entries + run.entries)
        else:
            self._runs.append(run)

    def build(self) -> Demand:
        """The demand collected so far. A gang that was added in several parts is one entry, at the position of the first."""
        shapes = tuple(shape for _, shape in self._shapes.values())
        demand = Demand.model_construct(
            workload=Workload.model_construct(shapes=shapes, runs=tuple(self._runs)),
            task_ids=tuple(self._task_ids),
            gang_ids=tuple(self._gang_ids),
        )
        return demand if len(set(self._gang_ids)) == len(self._gang_ids) else _with_gangs_whole(demand)


def _with_gangs_whole(demand: Demand) -> Demand:
    """The demand with one entry per gang."""
    gangs: dict[str, list[Entry]] = {}
    order: list[Entry] = []
    for entry in demand.entries():
        if entry.gang_id is None or entry.gang_id not in gangs:
            order.append(entry)
        if entry.gang_id is not None:
            gangs.setdefault(entry.gang_id, []).append(entry)
    builder = DemandBuilder()
    for entry in order:
        run = demand.workload.runs[entry.run]
        shape = demand.workload.shapes[run.shape]
        if entry.gang_id is None:
            builder.add(shape, entry.task_ids, fault=run.fault, source=run.source)
            continue
        pieces = gangs[entry.gang_id]
        ids = [task_id for piece in pieces for task_id in piece.task_ids]
        fault = _first_fault(demand, pieces)
        builder.add(shape, ids, gang_ids=(entry.gang_id,), apart=run.apart, fault=fault, source=run.source)
    return builder.build()


class Batch(NamedTuple):
    """Several equal entries: one shape, and the ids of all their tasks."""

    shape: Shape
    task_ids: Sequence[str]
    entries: int
    gang_ids: Sequence[str] = ()


@gc_paused
def build_demand(tasks: Iterable[Task | Batch]) -> Demand:
    """Group tasks into entries: one per task, or one per gang at the position of its first task.

    If tasks of one gang differ, their entry has a fault that names the field and two of the tasks.
    """
    builder = DemandBuilder()
    gangs: dict[str, list[Task]] = {}
    in_order: list[Batch | Task | list[Task]] = []
    for task in tasks:
        if isinstance(task, Batch) or task.gang is None:
            in_order.append(task)
        elif task.gang.id in gangs:
            gangs[task.gang.id].append(task)
        else:
            in_order.append(gangs.setdefault(task.gang.id, [task]))
    for item in in_order:
        if isinstance(item, Batch):
            builder.add(item.shape, item.task_ids, entries=item.entries, gang_ids=item.gang_ids)
        elif isinstance(item, Task):
            builder.add(item, (item.id,))
        else:
            _add_gang(builder, item)
    return builder.build()


def _add_gang(builder: DemandBuilder, members: Sequence[Task]) -> None:
    """Add a gang as one batch if its tasks are equal; else task by task, so that the builder reports how they differ."""
    gang = members[0].gang
    assert gang is not None
    if all(member.key == members[0].key for member in members):
        builder.add(members[0], [member.id for member in members], gang_ids=(gang.id,))
        return
    for member in members:
        builder.add(member, (member.id,), gang_ids=(gang.id,))


def without(demand: Demand, gone: AbstractSet[str]) -> Demand:
    """The demand without the given tasks. A gang that keeps at least one task stays, with fewer pending tasks."""
    if gone.isdisjoint(demand.task_ids):
        return demand
    builder, done = DemandBuilder(), 0
    for number in demand.runs_of(gone):
        builder.extend(demand, done, number)
        done = number + 1
        run, ids, gangs = demand.piece(number)
        shape = demand.workload.shapes[run.shape]
        if not gangs:
            kept = [task_id for task_id in ids if task_id not in gone]
            builder.add(shape, kept, entries=len(kept), fault=run.fault, source=run.source)
            continue
        for i, gang_id in enumerate(gangs):
            members = [task_id for task_id in ids[i * run.pending : (i + 1) * run.pending] if task_id not in gone]
            builder.add(shape, members, gang_ids=(gang_id,), apart=run.apart, fault=run.fault, source=run.source)
    builder.extend(demand, done, len(demand.workload.runs))
    return builder.build()


def only(demand: Demand, wanted: AbstractSet[str]) -> Demand:
    """The demand with no other than the given tasks, in its order."""
    builder = DemandBuilder()
    for number in demand.runs_of(wanted):
        run, ids, gangs = demand.piece(number)
        shape = demand.workload.shapes[run.shape]
        for i in range(run.entries):
            members = [task_id for task_id in ids[i * run.pending : (i + 1) * run.pending] if task_id in wanted]
            builder.add(shape, members, gang_ids=gangs[i : i + 1], apart=run.apart, fault=run.fault, source=run.source)
    return builder.build()


def inserted(demand: Demand, added: Demand, positions: Sequence[int]) -> Demand:
    """The demand with other entries in between: each at its position in the result, in ascending order."""
    builder, done = DemandBuilder(), 0
    for number, position in enumerate(positions):
        builder.extend_entries(demand, done, position - number)
        builder.extend_entries(added, number, number + 1)
        done = position - number
    builder.extend_entries(demand, done, demand.entry_starts[-1])
    return builder.build()


def sourced(demand: Demand, source: str) -> Demand:
    """The demand with its source on every run."""
    old = demand.workload.runs
    runs = tuple([Run(shape, entries, pending, apart, fault, source) for shape, entries, pending, apart, fault, _ in old])
    return demand.model_copy(update={"workload": demand.workload.model_copy(update={"runs": runs})})


def joined(demands: Iterable[Demand]) -> Demand:
    """Concatenate demands. A gang with tasks in several of them becomes one entry, at the position of its first tasks."""
    parts = list(demands)
    if len(parts) == 1:
        return parts[0]
    builder = DemandBuilder()
    for demand in parts:
        builder.extend(demand, 0, len(demand.workload.runs))
    return builder.build()


def _current_fault(shape: Shape, pending: int, gang_ids: Sequence[str], fault: Fault | None) -> Fault | None:
    """The fault of an entry with `pending` tasks. The fault `gang.size` ends as soon as few enough tasks are left."""
    if fault is not None and fault.field != GANG_SIZE:
        return fault
    if shape.gang is None or pending <= shape.gang.size:
        return None
    message = f"gang {gang_ids[0]} has {pending} tasks but gang.size is {shape.gang.size}; correct gang.size"
    return Fault(code=FaultCode.INCONSISTENT_GANG, message=message, field=GANG_SIZE)


def _first_fault(demand: Demand, pieces: Sequence[Entry]) -> Fault | None:
    """The fault of a gang that was added in several parts: that of a part, or the first difference between two parts."""
    runs = [demand.workload.runs[piece.run] for piece in pieces]
    for run, piece in zip(runs, pieces, strict=True):
        if run.fault is not None and run.fault.field != GANG_SIZE:
            return run.fault
        if run.shape != runs[0].shape:
            first, other = demand.workload.shapes[runs[0].shape], demand.workload.shapes[run.shape]
            field = next(name for name in Shape.model_fields if getattr(first, name) != getattr(other, name))
            detail = _difference(getattr(first, field), getattr(other, field))
            tasks = f"tasks {pieces[0].task_ids[0]} and {piece.task_ids[0]} of gang {piece.gang_id}"
            message = f"{tasks} differ in {field}{detail}; make them equal"
            return Fault(code=FaultCode.INCONSISTENT_GANG, message=message, field=field)
    return None


def _difference(left: object, right: object) -> str:
    """The nested field in which two values differ, and both values of it."""
    if isinstance(left, Resources) and isinstance(right, Resources):
        d = next(d for d in range(len(DIMENSIONS)) if left.vector[d] != right.vector[d])
        return f".{DIMENSIONS[d]} ({format_amount(d, left.vector[d])} and {format_amount(d, right.vector[d])})"
    if isinstance(left, Value) and isinstance(right, Value):
        name = next(name for name in type(left).model_fields if getattr(left, name) != getattr(right, name))
        return f".{name} ({_words(getattr(left, name))} and {_words(getattr(right, name))})"
    return f" ({_words(left)} and {_words(right)})"


def _words(value: object) -> str:
    """A value as people write it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
