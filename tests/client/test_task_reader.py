"""Lists of tasks, read again and again: the demand is always that of the whole list, and what repeats is not read again."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.demand_messages import as_demand
from penstock.client.errors import Refused
from penstock.client.task_reader import TaskReader
from penstock.model.demand import Demand
from penstock.model.demand_builder import joined

Item = dict[str, Any]


def item(number: int, cpu: int = 1, gang: str | None = None) -> Item:
    written: Item = {"id": f"t{number}", "resources": {"cpu": cpu}}
    return written | ({"gang": {"id": gang, "size": 8}} if gang else {})


items = st.builds(item, st.integers(0, 12), st.integers(1, 2), st.sampled_from([None, None, "g", "h"]))
lists = st.lists(items, max_size=10, unique_by=lambda each: each["id"])


def normal(demand: Demand) -> Demand:
    return joined([demand, Demand()])


@given(st.lists(lists, min_size=1, max_size=5))
def test_each_list_gives_the_demand_that_it_gives_alone(written: list[list[Item]]) -> None:
    reader = TaskReader()
    for tasks in written:
        assert normal(reader.read(tasks)) == normal(as_demand(tasks))


@given(lists, st.data())
def test_a_list_that_the_controller_changes_in_place_is_read_as_it_is_now(tasks: list[Item], data: st.DataObject) -> None:
    reader = TaskReader()
    reader.read(tasks)
    for each in tasks:
        each["resources"]["cpu"] = data.draw(st.integers(1, 3))
    assert normal(reader.read(tasks)) == normal(as_demand(copy.deepcopy(tasks)))


def test_unchanged_tasks_keep_their_shapes_and_ids_as_they_are() -> None:
    reader = TaskReader()
    first = reader.read([item(number, cpu=1 + number % 2) for number in range(100)])
    second = reader.read([item(number, cpu=1 + number % 2) for number in range(100) if number != 50])
    assert all(new is old for new, old in zip(second.workload.shapes, first.workload.shapes, strict=True))
    assert all(new is old for new, old in zip(second.task_ids[:50], first.task_ids[:50], strict=True))
    assert all(new is old for new, old in zip(second.workload.runs[51:], first.workload.runs[53:], strict=False))


def test_a_bad_task_is_refused_wherever_it_comes_and_leaves_what_was_read() -> None:
    reader = TaskReader()
    reader.read([item(1), item(2)])
    with pytest.raises(Refused, match="t3"):
        reader.read([item(1), {"id": "t3", "resources": {"cpu": "much"}}, item(2)])
    assert reader.read([item(1), item(2), item(1)]).duplicate == "t1"
    assert reader.read([item(2)]) == as_demand([item(2)])
