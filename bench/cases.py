"""The recorded packing cases: demand, lower bounds, and the answer of Ray."""

import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CASES = Path(__file__).resolve().parent / "data" / "ray-cases"
LARGE = 5_000
"""Least number of tasks of a case that counts for the speed target; `LARGE_GANGS` counts too."""
LARGE_GANGS = 250

Amounts = dict[str, float]
"""Ray's resources by Ray's names: CPU, memory (bytes), GPU, TPU."""


class _Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NodeType(_Recorded):
    """A kind of node and its price."""

    price_per_hour: float
    most: int = Field(alias="max")
    resources: Amounts


class Node(_Recorded):
    """An existing node, and its free resources."""

    id: str
    node_type: str
    total: Amounts
    available: Amounts


class Wanted(_Recorded):
    """A number of tasks of one shape."""

    count: int
    resources: Amounts


class Spread(_Recorded):
    """A gang with every task on a different node."""

    id: str
    strategy: str
    bundles: tuple[Wanted, ...]


class Bounds(_Recorded):
    """Lower bounds by linear programming, in which a task may be divided between nodes."""

    cost: float
    nodes_ceil: int


class Case(_Recorded):
    """One packing problem."""

    name: str
    n: int
    node_types: dict[str, NodeType]
    existing: tuple[Node, ...]
    demands: tuple[Wanted, ...]
    gangs: tuple[Spread, ...]
    bounds: Bounds
    results: dict[str, dict[str, Any]]

    @property
    def tasks(self) -> int:
        """Number of tasks, including those of gangs."""
        gangs = sum(bundle.count for gang in self.gangs for bundle in gang.bundles)
        return gangs + sum(demand.count for demand in self.demands)

    @property
    def large(self) -> bool:
        """Whether the case counts for the speed target."""
        return self.n >= LARGE or len(self.gangs) >= LARGE_GANGS


def case_path(name: str) -> Path:
    """The file of a case."""
    return CASES / f"{name}.json"


def load_case(name: str) -> Case:
    """The case of that name."""
    return Case.model_validate_json(case_path(name).read_text())


def load_cases(*, quick: bool) -> list[Case]:
    """All cases by kind and size, or only the large ones."""
    cases = [load_case(path.stem) for path in CASES.glob("*.json")]
    cases.sort(key=lambda case: (case.name.split("-")[0], case.n, len(case.existing), len(case.node_types)))
    return [case for case in cases if case.large or not quick]


def whole_task_cost_bound(case: Case) -> float | None:
    """A lower bound with undivided tasks, for cases of one shape without gangs.

    Tasks that fit on existing nodes cost nothing. Each other task costs at least its share of a node filled with tasks like it.
    """
    if len(case.demands) != 1 or case.gangs:
        return None
    wanted = case.demands[0]
    free = sum(_how_many_fit(node.available, wanted.resources) for node in case.existing)
    shares = [
        kind.price_per_hour / fit for kind in case.node_types.values() if (fit := _how_many_fit(kind.resources, wanted.resources))
    ]
    return round(max(0, wanted.count - free) * min(shares), 6)


def _how_many_fit(free: Amounts, need: Amounts) -> int:
    return min(math.floor(free.get(name, 0) / amount) for name, amount in need.items() if amount)
