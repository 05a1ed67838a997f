"""The recorded packing cases: what each asks for, what bounds any answer, and what Ray answered."""

import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CASES = Path(__file__).resolve().parent / "data" / "ray-cases"
LARGE = 5_000
"""Tasks of a case by which speed is judged; the gangs of `LARGE_GANGS` are judged too."""
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
    """A node that exists, and what it has left."""

    id: str
    node_type: str
    total: Amounts
    available: Amounts


class Wanted(_Recorded):
    """So many tasks of one shape."""

    count: int
    resources: Amounts


class Spread(_Recorded):
    """A gang whose tasks all go to different nodes."""

    id: str
    strategy: str
    bundles: tuple[Wanted, ...]


class Bounds(_Recorded):
    """Lower bounds by linear programming, in which a task may lie partly on one node and partly on another."""

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
        """Tasks in all, those of gangs too."""
        gangs = sum(bundle.count for gang in self.gangs for bundle in gang.bundles)
        return gangs + sum(demand.count for demand in self.demands)

    @property
    def large(self) -> bool:
        """Whether speed is judged by it."""
        return self.n >= LARGE or len(self.gangs) >= LARGE_GANGS


def case_path(name: str) -> Path:
    """Where a case is stored."""
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
    """A lower bound that keeps tasks whole, for cases of one shape and no gangs.

    Tasks that fit existing nodes cost nothing; no other costs less than its share of a node filled with its like.
    """
    if len(case.demands) != 1 or case.gangs:
        return None
    wanted = case.demands[0]
    free = sum(_how_many_fit(node.available, wanted.resources) for node in case.existing)
    shares = [
        kind.price_per_hour / fit for kind in case.node_types.values() if (fit := _how_many_fit(kind.resources, wanted.resources))
    ]
    return round(max(0, wanted.count - free) * min(shares), 6)


def _how_many_fit(room: Amounts, need: Amounts) -> int:
    return min(math.floor(room.get(name, 0) / amount) for name, amount in need.items() if amount)
