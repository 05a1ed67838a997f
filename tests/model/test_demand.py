"""Building demand: tasks become entries, entries become runs, gangs are checked."""

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.model.demand import Demand, Task
from penstock.model.demand_builder import build_demand, joined, without
from penstock.model.packed import pack_ints
from penstock.model.runs import FaultCode


def task(name: str, **fields: object) -> Task:
    return Task.model_validate({"id": name, "resources": {"cpu": 1}} | fields)


def member(name: str, gang: str, size: int = 2, **fields: object) -> Task:
    return task(name, gang={"id": gang, "size": size}, **fields)


def test_equal_neighbours_are_one_run() -> None:
    demand = build_demand([task("a"), task("b"), task("c", resources={"cpu": 2}), task("d")])
    assert [(run.shape, run.entries) for run in demand.workload.runs] == [(0, 2), (1, 1), (0, 1)]
    assert demand.task_ids == ("a", "b", "c", "d")


def test_a_gang_is_one_entry_at_the_position_of_its_first_task() -> None:
    demand = build_demand([member("a", "g"), task("b"), member("c", "g")])
    assert [entry.task_ids for entry in demand.entries()] == [("a", "c"), ("b",)]
    assert demand.gang_ids == ("g",)


def test_the_fault_of_an_inconsistent_gang_names_the_field_and_two_tasks() -> None:
    demand = build_demand([member("a", "g"), member("b", "g", resources={"cpu": 2})])
    fault = demand.workload.runs[0].fault
    assert fault is not None
    assert fault.code is FaultCode.INCONSISTENT_GANG
    assert fault.message == "tasks a and b of gang g differ in resources.cpu (1 and 2); make them equal"


def test_a_gang_with_more_tasks_than_its_size_is_inconsistent() -> None:
    demand = build_demand([member(name, "g", size=2) for name in "abc"])
    fault = demand.workload.runs[0].fault
    assert fault is not None
    assert "3 tasks but gang.size is 2" in fault.message


def test_removing_tasks_keeps_the_order_and_shrinks_gangs() -> None:
    demand = build_demand([task("a"), task("b"), member("c", "g"), member("d", "g"), task("e")])
    left = without(demand, {"a", "c"})
    assert [entry.task_ids for entry in left.entries()] == [("b",), ("d",), ("e",)]
    assert [run.pending for run in left.workload.runs] == [1, 1, 1]
    assert left.gang_ids == ("g",)


def test_removing_a_whole_gang_removes_its_entry() -> None:
    demand = build_demand([member("a", "g"), member("b", "g"), task("c")])
    assert [entry.task_ids for entry in without(demand, {"a", "b"}).entries()] == [("c",)]


def test_joined_demands_keep_their_order() -> None:
    first, second = build_demand([task("a"), member("b", "g")]), build_demand([member("c", "h"), task("d")])
    both = joined([first, second])
    assert [(entry.task_ids, entry.gang_id) for entry in both.entries()] == [
        (("a",), None),
        (("b",), "g"),
        (("c",), "h"),
        (("d",), None),
    ]


def test_demand_survives_json() -> None:
    demand = build_demand([task("a"), member("b", "g", constraints=[{"attribute": "zone", "op": "in", "values": ["x", "y"]}])])
    assert Demand.model_validate_json(demand.model_dump_json()) == demand


def test_the_task_ids_of_a_span_are_found() -> None:
    demand = build_demand([task("a"), *(member(f"{g}{i}", g) for g in "xy" for i in range(2))])
    assert demand.span_task_ids(1, 1, 1) == ("y0", "y1")
    entry = demand.find("y1")
    assert entry is not None
    assert (entry.run, entry.position, entry.gang_id) == (1, 1, "y")
    assert demand.find("nobody") is None


@pytest.mark.parametrize(
    "runs",
    [[[5, 1]], [[0, -1]], [[0, 0]], [[0, 3]], [[0, 1, 0]], [[0, 2, 1]]],
    ids=["no such shape", "fewer than no entries", "no entries", "more entries than ids", "no tasks", "two for one id"],
)
def test_runs_that_do_not_match_the_ids_are_rejected(runs: list[list[int]]) -> None:
    given = {"workload": {"shapes": [{"resources": {"cpu": 1}}], "runs": runs}, "task_ids": ["a"]}
    with pytest.raises(ValidationError, match="run"):
        Demand.model_validate(given)


ONE, TWO = pack_ints([0]), pack_ints([1])


@pytest.mark.parametrize(
    "runs",
    [
        [ONE],
        [ONE, TWO, TWO],
        [ONE, TWO, 5, {}],
        [ONE, TWO, TWO, 5],
        [ONE, TWO, TWO, {"0": 5}],
        [ONE, TWO, TWO, {"1": [[], None]}],
        [ONE, TWO, TWO, {"-1": [[], None]}],
        [ONE, TWO, TWO, {"0": [[["a"]], None]}],
        [ONE, TWO, TWO, {}, [5]],
        [ONE, TWO, TWO, {}, [["x", 1 << 64]]],
        [ONE, TWO, TWO, {}, [], []],
    ],
)
def test_malformed_packed_runs_are_rejected(runs: list[Any]) -> None:
    given = {"workload": {"shapes": [{}], "runs": runs}, "task_ids": ["a"]}
    with pytest.raises(ValidationError, match="not packed runs"):
        Demand.model_validate(given)


def test_sources_that_count_more_runs_than_there_are_cost_nothing() -> None:
    given = {"workload": {"shapes": [{}], "runs": [ONE, TWO, TWO, {}, [["x", 10**9]]]}, "task_ids": ["a"]}
    (run,) = Demand.model_validate(given).workload.runs
    assert run.source == "x"


def test_true_and_one_are_different_values() -> None:
    tasks = [task(name, constraints=[{"attribute": "x", "op": "eq", "value": value}]) for name, value in (("a", True), ("b", 1))]
    assert len(build_demand(tasks).workload.shapes) == 2
