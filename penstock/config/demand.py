"""Parse demand files: pending tasks, one by one or many at once with `count`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from penstock.config.documents import read_document
from penstock.config.problems import BadInput, problems_of
from penstock.contract.tasks import DemandItem, too_many
from penstock.model.demand import Demand
from penstock.model.demand_builder import build_demand
from penstock.model.shape import MOST_TASKS
from penstock.model.value import JsonSchema, Value


class DemandFile(Value):
    """Pending tasks, most urgent first."""

    tasks: tuple[DemandItem, ...]

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"type": "array", "items": described["properties"]["tasks"]["items"]}

    @model_validator(mode="before")
    @classmethod
    def _a_list_alone_will_do(cls, data: Any) -> Any:
        return {"tasks": data} if isinstance(data, list) else data


def load_demand(path: Path) -> Demand:
    """Parse a demand file, or standard input for `-`; raises `BadInput` with every problem."""
    document = read_document(path)
    if isinstance(document.data, list):
        document = document.under("tasks")
    try:
        items = DemandFile.model_validate(document.data).tasks
    except ValidationError as error:
        raise BadInput(problems_of(error, DemandFile, document.file, document.lines)) from None
    wanted = sum(item.tasks for item in items)
    if wanted > MOST_TASKS:
        largest = max(range(len(items)), key=lambda i: items[i].tasks)
        raise BadInput([document.problem(("tasks", largest), f"{too_many(wanted)}; check count and gang.size")])
    demand = build_demand(part for item in items for part in item.parts())
    if demand.duplicate is not None:
        message = f"task id {demand.duplicate!r} appears twice; give every task its own id"
        raise BadInput([document.problem(("tasks", _second(items, demand.duplicate)), message)])
    return demand


def _second(items: Sequence[DemandItem], task_id: str) -> int:
    """The position of the item in which a task id appears for the second time."""
    times = 0
    for i, item in enumerate(items):
        if task_id.startswith(item.id):
            times += build_demand(item.parts()).task_ids.count(task_id)
        if times > 1:
            return i
    raise AssertionError("the id appears twice")
