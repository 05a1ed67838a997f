"""Reading demand files: tasks one by one, or many at once with `count`."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from penstock.config.documents import read_document
from penstock.config.problems import BadInput, Problem, problems_of
from penstock.contract.tasks import DemandItem
from penstock.model.building import build_demand
from penstock.model.demand import Demand
from penstock.model.value import JsonSchema, Value


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
