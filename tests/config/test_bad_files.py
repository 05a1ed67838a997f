"""Files that are too large once unfolded, too deep, or not quite text are refused soon, in a line that names the fix."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.config.cluster import load_cluster
from penstock.config.demand import load_demand
from penstock.config.problems import BadInput
from penstock.config.slices import load_slices
from penstock.model.cluster import repeated_names

SOON = 5.0
"""Seconds on a busy machine; each file below takes a tenth of that on an idle one."""


def problems(load: Any, path: Path, text: str) -> list[str]:
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(BadInput) as bad:
        load(path)
    assert time.process_time() - began < SOON
    return [str(problem).removeprefix(f"{path}:") for problem in bad.value.problems]


@pytest.mark.parametrize("large", [{"count": 100_000_000}, {"count": 1000, "gang": {"size": 100_000, "pending": 99_999}}])
def test_a_mistyped_count_or_gang_size_is_refused_before_it_is_unfolded(tmp_path: Path, large: dict[str, Any]) -> None:
    tasks = [{"id": "small"}, {"id": "large"} | large]
    (problem,) = problems(load_demand, tmp_path / "demand.json", json.dumps(tasks, indent=1))
    assert problem.startswith("5: tasks[1]: ")
    assert "are more than the 200000 that one file or message may hold; check count and gang.size" in problem


@pytest.mark.parametrize("gang", [{"size": 100_000_000}, {"id": "g", "size": 100_000_000}])
def test_a_mistyped_gang_size_is_refused_also_where_one_task_of_the_gang_is_listed(tmp_path: Path, gang: dict[str, Any]) -> None:
    (problem,) = problems(load_demand, tmp_path / "demand.json", json.dumps([{"id": "t", "gang": gang}]))
    assert problem == "1: tasks[0].gang.size: should be 200000 or less, not 100000000"


@pytest.mark.parametrize("wanted", ["count: 100000000", "count: 2, gang: {size: 200000}"])
def test_a_mistyped_count_of_a_standing_request_is_refused(tmp_path: Path, wanted: str) -> None:
    (problem,) = problems(load_slices, tmp_path / "slices.yaml", f"standing:\n- {{owner: a, wants: [{{{wanted}}}]}}\n")
    assert problem.startswith("2: standing[0].wants: ")
    assert problem.endswith("tasks are more than the 200000 of one request; check count and gang.size")


@pytest.mark.parametrize(("field", "most"), [("min_slices", "50000"), ("warm_slices", "50000"), ("hosts_per_slice", "10000")])
def test_a_mistyped_floor_or_size_of_a_slice_is_refused(tmp_path: Path, field: str, most: str) -> None:
    text = f"cluster: demo\ngroups:\n- {{name: a, host: {{cpu: 4}}, max_slices: 1000000000, {field}: 100000000}}\n"
    (problem,) = problems(load_cluster, tmp_path / "cluster.yaml", text)
    assert problem == f"3: groups[0].{field}: should be {most} or less, not 100000000"


def test_a_floor_of_too_many_hosts_is_refused(tmp_path: Path) -> None:
    sizes = "max_slices: 50000, min_slices: 50000, hosts_per_slice: 10000"
    (problem,) = problems(
        load_cluster, tmp_path / "cluster.yaml", f"cluster: c\ngroups:\n- {{name: a, host: {{cpu: 4}}, {sizes}}}\n"
    )
    assert problem == "3: groups[0]: min_slices and warm_slices are 500000000 hosts, the limit is 500000; lower them"


def test_a_mistyped_count_of_slices_is_refused_before_it_is_unfolded(tmp_path: Path) -> None:
    text = "slices:\n- {id: a, group: g, state: ready}\n- {id: b, group: g, state: ready, count: 100000000}\n"
    (problem,) = problems(load_slices, tmp_path / "slices.yaml", text)
    assert problem == "3: slices[1].count: 100000001 slices are more than the 50000 that one file may hold; check count"


@pytest.mark.parametrize("joined", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_of_aliases_are_refused_before_they_are_unfolded(tmp_path: Path, joined: str) -> None:
    first = "a0: &a0 {x: 1}\n"
    text = first + "".join(f"a{i}: &a{i} {joined.format(', '.join([f'*a{i - 1}'] * 9))}\n" for i in range(1, 12))
    (problem,) = problems(load_cluster, tmp_path / "cluster.yaml", text)
    assert "its aliases repeat more than 100,000 parts; write the parts out, or use fewer aliases" in problem


def test_a_few_aliases_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("cluster: demo\ngroups:\n- &a {name: a, host: {cpu: 4}, max_slices: 2}\n- {<<: *a, name: b}\n")
    assert [group.max_slices for group in load_cluster(path).config.groups] == [2, 2]


def test_fifty_thousand_unknown_keys_are_reported_within_a_second(tmp_path: Path) -> None:
    text = "cluster: demo\ngroups: []\n" + "".join(f"key{i}: 1\n" for i in range(50_000))
    found = problems(load_cluster, tmp_path / "cluster.yaml", text)
    assert len(found) == 50_000
    assert "known keys: backoff, cluster" in found[0]
    assert found[-1] == "50002: key49999: unknown key"


def test_fifty_thousand_names_are_compared_within_a_second() -> None:
    began = time.process_time()
    assert repeated_names("groups", [*(f"g{i}" for i in range(50_000)), "g0", None, None]) == [
        (("groups", 50_000, "name"), "'g0' is already in use; choose another name")
    ]
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!timestamp banana", "1: is not YAML: 'banana' is not a value of type timestamp"),
        ("!!int x", "1: is not YAML: 'x' is not a value of type int"),
        ("!!bool maybe", "1: is not YAML: 'maybe' is not a value of type bool"),
    ],
)
def test_a_value_that_its_tag_contradicts_is_one_line(tmp_path: Path, value: str, message: str) -> None:
    assert problems(load_cluster, tmp_path / "cluster.yaml", f"cluster: {value}\ngroups: []\n") == [message]


def test_a_lone_surrogate_is_one_line(tmp_path: Path) -> None:
    found = problems(load_cluster, tmp_path / "cluster.json", r'{"cluster": "\ud800", "groups": []}')
    half = "contains half of a character (a lone surrogate, or bytes that are not UTF-8); remove it"
    assert found == [rf"1: cluster: '\ud800' {half}"]
    (in_yaml,) = problems(load_cluster, tmp_path / "cluster.yaml", 'groups: []\ncluster: "\\ud800"\n')
    assert in_yaml.startswith("2: ")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000, "[" * 500 + "]" * 500])
def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path, text: str) -> None:
    assert problems(load_cluster, tmp_path / "cluster.yaml", text) == ["1: is nested too deeply, or refers to itself"]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a\n  <<: *a\n"])
def test_a_file_that_refers_to_itself_is_refused(tmp_path: Path, text: str) -> None:
    (problem,) = problems(load_cluster, tmp_path / "cluster.yaml", text)
    assert "refers to itself" in problem or "is not YAML" in problem


@pytest.mark.parametrize(
    "field",
    [
        "name: {}",
        "host: {{cpu: {}}}",
        "host: {{memory: {}}}",
        "patience: {}",
        "provider: {{kind: {}}}",
        "pool: {}",
        "device: {{type: {}}}",
    ],
)
@pytest.mark.parametrize("character", ["a", "9"])
def test_a_value_of_100_000_characters_is_one_short_line_that_ends_with_the_fix(
    tmp_path: Path, field: str, character: str
) -> None:
    given = {"name": "a", "max_slices": 1, "host": {"cpu": 1}}
    key = field.partition(":")[0]
    rest = ", ".join(f"{name}: {json.dumps(value)}" for name, value in given.items() if name != key)
    long = json.dumps(character * 100_000)
    found = problems(load_cluster, tmp_path / "cluster.yaml", f"cluster: demo\ngroups:\n- {{{field.format(long)}, {rest}}}\n")
    assert max(map(len, found)) < 600
    assert all("\n" not in problem for problem in found)


def test_a_key_of_100_000_characters_is_one_short_line(tmp_path: Path) -> None:
    found = problems(load_cluster, tmp_path / "cluster.json", json.dumps({"cluster": "demo", "groups": [], "k" * 100_000: 1}))
    assert len(found) == 1
    assert len(found[0]) < 600
    assert "unknown key; known keys: backoff, cluster" in found[0]


def test_a_moment_that_is_in_another_year_in_utc_is_refused_like_any_other_wrong_year(tmp_path: Path) -> None:
    found = problems(load_slices, tmp_path / "slices.yaml", 'now: "2499-12-31T23:59:59-10:00"\n')
    assert found == ["1: now: 2499-12-31 23:59:59-10:00 is not between the years 1970 and 2500"]
