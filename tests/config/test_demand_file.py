"""Demand files: single tasks, counts, gangs, and errors with their lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.config.demand import load_demand
from penstock.config.problems import BadInput


def write(folder: Path, data: Any) -> Path:
    path = folder / "demand.json"
    path.write_text(json.dumps(data))
    return path


def test_count_means_that_many_independent_tasks(tmp_path: Path) -> None:
    demand = load_demand(write(tmp_path, {"tasks": [{"id": "t", "count": 1000, "resources": {"cpu": 1}}]}))
    assert [(run.entries, run.pending) for run in demand.workload.runs] == [(1000, 1)]
    assert (demand.task_ids[0], demand.task_ids[-1]) == ("t/0", "t/999")


def test_a_gang_can_be_written_as_one_item_or_task_by_task(tmp_path: Path) -> None:
    at_once = {"id": "j", "gang": {"size": 3}}
    one_by_one = [{"id": f"k{i}", "gang": {"id": "k", "size": 3}} for i in range(3)]
    demand = load_demand(write(tmp_path, [at_once, *one_by_one]))
    assert [entry.task_ids for entry in demand.entries()] == [("j/0", "j/1", "j/2"), ("k0", "k1", "k2")]
    assert demand.gang_ids == ("j", "k")
    assert len(demand.workload.runs) == 1


def test_a_gang_that_lost_members_keeps_its_size(tmp_path: Path) -> None:
    demand = load_demand(write(tmp_path, [{"id": "j", "count": 2, "gang": {"size": 4, "pending": 3}}]))
    run = demand.workload.runs[0]
    gang = demand.workload.shapes[run.shape].gang
    assert gang is not None
    assert (run.entries, run.pending, gang.size) == (2, 3, 4)


def test_the_device_follows_from_the_resources(tmp_path: Path) -> None:
    items = [{"id": "a", "resources": {"tpu": 4}}, {"id": "b", "resources": {"gpu": 0.5}}, {"id": "c"}]
    demand = load_demand(write(tmp_path, items))
    assert [str(shape.device.type) for shape in demand.workload.shapes] == ["tpu", "gpu", "cpu"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"resources": {}}, "tasks[0].id: is missing; add it"),
        ({"id": "t", "resource": {}}, "tasks[0].resource: unknown key; did you mean resources?"),
        ({"id": "t", "resources": {"tpu": 4}, "device": "gpu"}, "resources include tpu, but device.type is gpu"),
        ({"id": "t", "constraints": [{"attribute": "zone", "op": "like", "value": "x"}]}, "tasks[0].constraints[0].op"),
        (
            {"id": "t", "constraints": [{"attribute": "zone", "op": "gt", "value": "x"}]},
            "gt compares numbers; 'x' is not a number",
        ),
        ({"id": "t", "constraints": [{"attribute": "zone", "op": "exists", "value": "x"}]}, "exists takes no value"),
        ({"id": "t", "constraints": [{"attribute": "zone", "op": "in"}]}, "in needs at least one of values"),
        ({"id": "t", "gang": {"size": 2, "pending": 3}}, "pending 3 is more than the gang's size 2"),
        ({"id": "t", "gang": {"size": 0}}, "tasks[0].gang.size"),
        ({"id": 5}, 'tasks[0].id: 5 is not a text; put it in quotes: "5"'),
        ({"id": True}, 'tasks[0].id: True is not a text; put it in quotes: "true"'),
        ({"id": ["t"]}, "tasks[0].id: should be a text, not ['t']"),
        ({"id": ""}, "tasks[0].id: is empty; write a text"),
        ({"id": "a\tb"}, "tasks[0].id: 'a\\tb' contains control characters, such as tabs or newlines; remove them"),
        ({"id": "t" * 600}, "tasks[0].id: should be at most 512 characters long, not 'ttt"),
        ({"id": "t", "preemptible": "perhaps"}, "tasks[0].preemptible: should be true or false, not 'perhaps'"),
        ({"id": "t", "constraints": "zone"}, "tasks[0].constraints: should be a list, not 'zone'"),
        ({"id": "t", "count": 0}, "tasks[0].count: should be 1 or more, not 0"),
        ({"id": "t", "gang": {"size": 4, "placement": "spread", "tasks_per_host": 2}}, "tasks_per_host is 1 for a spread gang"),
    ],
)
def test_a_problem_names_its_path_and_its_fix(tmp_path: Path, item: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as bad:
        load_demand(write(tmp_path, {"tasks": [item]}))
    assert message in str(bad.value)


@pytest.mark.parametrize("again", [{"id": "t/1"}, {"id": "t", "count": 2}, {"id": "t", "gang": {"size": 2}}])
def test_a_task_id_belongs_to_one_task(tmp_path: Path, again: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"demand\.json:\d+: tasks\[2\]: task id 't/\d' appears twice"):
        load_demand(write(tmp_path, [{"id": "t", "count": 2}, {"id": "u"}, again]))


def test_invalid_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "demand.json"
    path.write_text('{"tasks": [\n{]}')
    with pytest.raises(BadInput, match=r"demand\.json:2: is not JSON"):
        load_demand(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tasks": [], "tasks": []}', "tasks: appears twice; remove one"),
        ("[" * 100_000, "is nested too deeply"),
        ('[{"id": "t", "count": ' + "9" * 5000 + "}]", "is not JSON"),
        ('[{"id": "a\\u001bb"}]', "tasks[0].id"),
    ],
)
def test_odd_files_are_refused_with_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "demand.json"
    path.write_text(text)
    with pytest.raises(BadInput) as bad:
        load_demand(path)
    assert message in str(bad.value)


def test_a_problem_in_a_yaml_list_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "demand.yaml"
    path.write_text("- id: a\n- id: b\n  colour: red\n")
    with pytest.raises(BadInput, match=r"demand\.yaml:3: tasks\[1\]\.colour: unknown key"):
        load_demand(path)


def test_a_problem_in_a_json_file_has_its_line_and_a_key_its_own(tmp_path: Path) -> None:
    path = tmp_path / "demand.json"
    path.write_text(
        """\
{"tasks": [
  {"id": "a, [{\\"", "resources": {
    "cpu":
      "x"}},
  {"id": "b", "constraints": [], "device": {}, "colour": "red"},
\t{"resources":\r
  {"memory": "lots"}}
]}
"""
    )
    with pytest.raises(BadInput) as bad:
        load_demand(path)
    assert {(problem.line, problem.path) for problem in bad.value.problems} >= {
        (3, "tasks[0].resources.cpu"),
        (5, "tasks[1].colour"),
        (6, "tasks[2].id"),
        (7, "tasks[2].resources.memory"),
    }


def test_a_problem_in_a_json_list_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "demand.json"
    path.write_text('[{"id": "a"},\n{"id": "b",\n"colour": "red"}]')
    with pytest.raises(BadInput, match=r"demand\.json:3: tasks\[1\]\.colour: unknown key"):
        load_demand(path)


def test_a_key_that_appears_twice_in_a_json_file_has_its_path_and_the_line_of_the_second(tmp_path: Path) -> None:
    path = tmp_path / "demand.json"
    path.write_text('[{"id": "a"},\n{"id": "b",\n"count": 1,\n"count": 2}]')
    with pytest.raises(BadInput, match=r"demand\.json:4: \[1\]\.count: appears twice; remove one"):
        load_demand(path)
