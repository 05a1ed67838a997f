"""Build demand from tasks: group tasks into entries, join demands, remove tasks, detect inconsistent gangs."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.model.demand import GANG_SIZE, Demand, Entry, Task, Workload
from penstock.model.gc_pause import gc_paused
from penstock.model.resources import DIMENSIONS, Resources, format_amount
from penstock.model.runs import Fault, FaultCode, HostRef, Run
from penstock.model.shape import Shape
from penstock.model.value import Value


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
        """Append equal entries. `task_ids` are divided evenly among them; without task ids nothing is added."""
        if not task_ids:
            return
        known = self._shapes.get(shape.key)
        if known is None:
            known = self._shapes[shape.key] = (len(self._shapes), shape.alone())
        run = Run(
            known[0], entries, len(task_ids) // entries, apart, _current_fault(shape, len(task_ids) // entries, gang_ids, fault)
        )
        self._task_ids += task_ids
        self._gang_ids += gang_ids
        last = self._runs[-1] if self._runs else None
        if last is not None and not apart and last[0] == run[0] and last[2:] == run[2:]:
            self._runs[-1] = last._replace(entries=last.entries + entries)
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
            builder.add(shape, entry.task_ids, fault=run.fault)
            continue
        pieces = gangs[entry.gang_id]
        ids = [task_id for piece in pieces for task_id in piece.task_ids]
        fault = _first_fault(demand, pieces)
        builder.add(shape, ids, gang_ids=(entry.gang_id,), apart=run.apart, fault=fault)
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
    builder = DemandBuilder()
    for run, ids, gangs in demand.pieces():
        shape = demand.workload.shapes[run.shape]
        if gone.isdisjoint(ids):
            builder.add(shape, ids, entries=run.entries, gang_ids=gangs, apart=run.apart, fault=run.fault)
        elif not gangs:
            kept = [task_id for task_id in ids if task_id not in gone]
            builder.add(shape, kept, entries=len(kept), fault=run.fault)
        else:
            for i, gang_id in enumerate(gangs):
                members = [task_id for task_id in ids[i * run.pending : (i + 1) * run.pending] if task_id not in gone]
                builder.add(shape, members, gang_ids=(gang_id,), apart=run.apart, fault=run.fault)
    return builder.build()


def joined(demands: Iterable[Demand]) -> Demand:
    """Concatenate demands. A gang with tasks in several of them becomes one entry, at the position of its first tasks."""
    parts = list(demands)
    if len(parts) == 1:
        return parts[0]
    builder = DemandBuilder()
    for demand in parts:
        for run, ids, gangs in demand.pieces():
            shape = demand.workload.shapes[run.shape]
            builder.add(shape, ids, entries=run.entries, gang_ids=gangs, apart=run.apart, fault=run.fault)
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
