"""Reading demand files: tasks one by one, or many at once with `count`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from penstock.config.documents import read_document
from penstock.config.problems import BadInput, Problem, problems_of
from penstock.model.building import Batch, build_demand
from penstock.model.demand import Demand, Task, TaskGang, TaskId
from penstock.model.shape import Gang, Shape
from penstock.model.units import Positive
from penstock.model.value import JsonSchema, Value


class GangItem(Gang):
    """A gang in a demand file: with `id`, the gang this task is a member of; without, a whole gang at once."""

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


class DemandFile(Value):
    """Tasks that wait, most urgent first."""

    tasks: tuple[DemandItem, ...]

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"type": "array", "items": described["properties"]["tasks"]["items"]}

    @model_validator(mode="before")
    @classmethod
    def _a_list_alone_will_do(cls, data: Any) -> Any:
        return {"tasks": data} if isinstance(data, list) else data


def load_demand(path: Path) -> Demand:
    """Read a demand file; raises `BadInput` with every mistake."""
    document = read_document(path)
    if isinstance(document.data, list):
        document = document.under("tasks")
    try:
        items = DemandFile.model_validate(document.data).tasks
    except ValidationError as error:
        raise BadInput(problems_of(error, DemandFile, document.file, document.lines)) from None
    demand = build_demand(part for item in items for part in item.parts())
    if demand.duplicate is not None:
        message = f"task id {demand.duplicate!r} stands here twice; give every task an id of its own"
        raise BadInput([Problem(document.file, None, "tasks", message)])
    return demand
