"""Tasks as controllers and people write them, one by one or many at once with `count`, and the demand they make."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from penstock.contract.problems import BadMessage, told
from penstock.model.building import Batch, DemandBuilder, build_demand, joined
from penstock.model.bulk import in_bulk
from penstock.model.demand import Demand, Task, TaskGang, TaskId
from penstock.model.runs import Fault, FaultCode
from penstock.model.shape import Gang, Shape
from penstock.model.units import Positive

MOST_TASKS = 200_000
"""Tasks of one message, all counts added up: twice what a cluster is made for. Slips of the finger are not unfolded."""


class GangItem(Gang):
    """A gang as people write it: with `id`, the gang this task is a member of; without, a whole gang at once."""

    id: Annotated[str, Field(min_length=1)] | None = None
    pending: Positive | None = None

    @model_validator(mode="after")
    def _pending_is_part_of_size(self) -> Self:
        if self.pending is not None and self.pending > self.size:
            raise ValueError(f"pending {self.pending} is more than the gang's size {self.size}")
        if self.pending is not None and self.id is not None:
            raise ValueError("pending goes with a gang given at once; leave out its id, or list its pending tasks")
        return self


class DemandItem(Shape):
    """One task, `count` independent tasks, or `count` gangs."""

    id: TaskId
    count: Positive = 1
    gang: GangItem | None = None

    def parts(self) -> Iterator[Task | Batch]:
        """The tasks this item stands for."""
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
        """How many tasks it stands for."""
        return self.count * (1 if self.gang is None or self.gang.id is not None else self.gang.pending or self.gang.size)


_ITEMS: TypeAdapter[list[DemandItem]] = TypeAdapter(list[DemandItem])
_TASK_ID: TypeAdapter[str] = TypeAdapter(TaskId)


@in_bulk
def demand_of(written: Sequence[Any]) -> Demand:
    """The demand that a list of tasks makes; one that cannot be read becomes an entry that says why, after the others.

    Raises `BadMessage` when there are more tasks than anyone has.
    """
    items, faults = _read(written)
    wanted = sum(item.tasks for item in items)
    if wanted > MOST_TASKS:
        raise BadMessage(f"tasks: {wanted} tasks are more than the {MOST_TASKS} that one message may hold; look at count")
    demand = build_demand(part for item in items for part in item.parts())
    if not faults:
        return demand
    taken = set(demand.task_ids)
    builder = DemandBuilder()
    for position, fault in faults.items():
        name = _name_of(written[position], position)
        name = name if name not in taken else f"{name} (task {position} of its message)"
        taken.add(name)
        builder.add(Shape(), (name,), fault=fault)
    return joined([demand, builder.build()])


def invalid_in(demand: Demand) -> int:
    """How many of its entries could not be read."""
    runs = demand.workload.runs
    return sum(run.entries for run in runs if run.fault is not None and run.fault.code is FaultCode.INVALID)


def _read(written: Sequence[Any]) -> tuple[list[DemandItem], dict[int, Fault]]:
    """All at once, which is quick; if anything is wrong one by one, to tell the good from the bad."""
    try:
        return _ITEMS.validate_python(list(written)), {}
    except ValidationError:
        pass
    items, faults = [], {}
    for position, task in enumerate(written):
        try:
            items.append(DemandItem.model_validate(task))
        except ValidationError as error:
            faults[position] = Fault(code=FaultCode.INVALID, message=told(error, DemandItem))
    return items, faults


def _name_of(task: Any, position: int) -> str:
    try:
        return _TASK_ID.validate_python(task.get("id") if isinstance(task, dict) else None)
    except ValidationError:
        return f"task {position} of its message"
