"""`penstock plan` as a person runs it: real processes, real files."""

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.running import Commands

EXAMPLES = ("examples/cluster.yaml", "examples/demand.json", "--slices", "examples/slices.yaml")


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "penstock"
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def plan_json(*arguments: str) -> Any:
    return json.loads(penstock("plan", *arguments, "--json").stdout)


def test_unmet_demand_is_status_3_and_everything_placed_is_status_0(tmp_path: Path) -> None:
    assert penstock("plan", *EXAMPLES).returncode == 3
    demand = tmp_path / "demand.json"
    demand.write_text('[{"id": "t", "resources": {"cpu": 1}}]')
    assert penstock("plan", EXAMPLES[0], str(demand)).returncode == 0


def test_the_table_shows_groups_unmet_demand_and_remedies() -> None:
    shown = penstock("plan", *EXAMPLES).stdout
    for words in (
        "v5e-16-west",
        "in flight",
        "deferred",
        "backoff until",
        "no_capacity",
        "no_matching_group",
        "raise chips of pool",
    ):
        assert words in shown


def test_the_decision_as_json_has_everything_a_program_needs() -> None:
    decision = plan_json(*EXAMPLES)
    assert decision["launches"] == {"cpu-16": 12, "l4-west": 3, "v5e-16-west": 4}
    assert {name: held["limits"] for name, held in decision["deferred"].items()} == {
        "cpu-16": {"in_flight": 1},
        "l4-west": {"in_flight": 1},
    }
    assert decision["placed"]["v5e-16-west"] == {"ready": 1, "in_flight": 1, "new": 4}
    codes = {tuple(item["task_ids"][:1]): item["code"] for item in decision["unmet"]}
    assert codes == {("pretrain/6/0",): "no_capacity", ("finetune/0",): "gang_size_mismatch", ("index",): "no_matching_group"}
    west = decision["groups"]["v5e-16-west"]
    assert {"have", "in_flight", "required", "availability", "outcome", "why", "pressure"} <= west.keys()
    assert decision["unmet"][0]["groups"] == {"v5e-16-west": "pool_exhausted", "v5e-16-east-spot": "backoff"}
    assert decision["unmet"][0]["remedy_text"] == "raise chips of pool v5e-reservation from 128 to 192"
    assert decision["cost_per_hour"]["before"] < decision["cost_per_hour"]["after"]


def test_a_placement_can_be_tried_without_changing_the_file() -> None:
    assert plan_json(*EXAMPLES)["placement"] == "priority"
    assert plan_json(*EXAMPLES, "--placement", "cost")["placement"] == "cost"


@pytest.mark.parametrize(
    ("task", "status", "words"),
    [
        ("pretrain/0/0", 0, "fits on READY slices of v5e-16-west"),
        ("pretrain/9/3", 3, "Remedy: raise chips of pool v5e-reservation from 128 to 192."),
        ("nobody", 2, "No task nobody is waiting or running."),
    ],
)
def test_one_task_is_explained_in_the_same_words_as_text_and_as_json(task: str, status: int, words: str) -> None:
    told = penstock("plan", *EXAMPLES, "--explain", task)
    assert (told.returncode, words in told.stdout) == (status, True)
    assert plan_json(*EXAMPLES, "--explain", task)["text"] == told.stdout.strip()


@pytest.mark.parametrize("arguments", [(), ("--explain", "pretrain/9/3")])
def test_a_narrow_terminal_breaks_no_word(arguments: tuple[str, ...]) -> None:
    wide = Commands({"COLUMNS": "400"})("plan", *EXAMPLES, *arguments).stdout
    coloured = Commands({"COLUMNS": "60", "FORCE_COLOR": "1"})("plan", *EXAMPLES, *arguments).stdout
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert max(map(len, narrow.splitlines())) <= 60
    assert set(re.findall(r"[\w./=-]+", wide)) <= set(re.findall(r"[\w./=-]+", narrow))


def test_bad_input_is_status_2_and_names_every_mistake_in_every_file(tmp_path: Path) -> None:
    cluster, demand = tmp_path / "cluster.yaml", tmp_path / "demand.json"
    cluster.write_text("cluster: c\ngroups:\n  - {name: a, max_slices: x}\n")
    demand.write_text('[{"id": "t", "cpus": 4}]')
    told = penstock("plan", str(cluster), str(demand))
    assert (told.returncode, told.stdout) == (2, "")
    known = "constraints, count, device, gang, id, preemptible, resources"
    assert told.stderr.splitlines() == [
        f"error: {cluster}:3: groups[0].max_slices: 'x' is not a number; write it like 4",
        f"error: {demand}:1: tasks[0].cpus: unknown key; known keys: {known}",
    ]


def test_a_warning_does_not_stop_the_plan(tmp_path: Path) -> None:
    cluster, demand = tmp_path / "cluster.yaml", tmp_path / "demand.json"
    cluster.write_text("cluster: c\ngroups:\n  - {name: a, device: {type: tpu, variant: v5p-8}, host: {tpu: 8}, max_slices: 1}\n")
    demand.write_text('[{"id": "t", "resources": {"tpu": 8}}]')
    told = penstock("plan", str(cluster), str(demand))
    assert told.returncode == 0
    assert "warning:" in told.stderr
    assert "8 contradicts v5p-8" in told.stderr


def test_mistakes_in_the_slices_are_told_with_those_in_the_other_files(tmp_path: Path) -> None:
    cluster, slices = tmp_path / "cluster.yaml", tmp_path / "slices.yaml"
    cluster.write_text("cluster: c\n")
    slices.write_text("slices: [{id: a}]\n")
    told = penstock("plan", str(cluster), EXAMPLES[1], "--slices", str(slices)).stderr
    assert "groups: is missing; add it" in told
    assert "slices[0].group: is missing; add it" in told


def test_ids_are_shown_as_they_are(tmp_path: Path) -> None:
    demand = tmp_path / "demand.json"
    demand.write_text('[{"id": "a:rocket:[bold]b", "resources": {"cpu": 999}}]')
    assert "a:rocket:[bold]b" in penstock("plan", EXAMPLES[0], str(demand)).stdout


@pytest.mark.parametrize(("name", "path"), [("cluster", EXAMPLES[0]), ("demand-file", EXAMPLES[1]), ("slices-file", EXAMPLES[3])])
def test_the_examples_satisfy_their_schemas(name: str, path: str) -> None:
    schema = json.loads(penstock("schema", name).stdout)
    data = json.loads(json.dumps(yaml.safe_load(Path(path).read_text()), default=datetime.isoformat))
    jsonschema.Draft202012Validator(schema).validate(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("task", {"id": "t", "device": "tpu"}),
        ("demand-file", [{"id": "t", "constraints": [{"attribute": "zone", "op": "eq", "value": "a"}]}]),
        ("slices-file", {"slices": [{"id": "a", "group": "g", "state": "ready", "usage": "busy"}], "health": {"g": "backoff"}}),
        ("event", {"kind": "usage_reported", "at": "2026-11-16T12:00:00Z", "usage": {"a": ["busy", {"state": "idle"}]}}),
    ],
)
def test_short_ways_to_write_are_in_the_schemas(name: str, data: Any) -> None:
    jsonschema.Draft202012Validator(json.loads(penstock("schema", name).stdout)).validate(data)


def test_every_file_and_message_has_a_schema() -> None:
    schemas = json.loads(penstock("schema").stdout)
    assert {"cluster", "demand-file", "slices-file", "event", "state", "decision", "decision-summary"} <= schemas.keys()
    assert json.loads(penstock("schema", "cluster").stdout) == schemas["cluster"]
    assert "max_slices" in schemas["cluster"]["$defs"]["ScaleGroup"]["properties"]
    assert penstock("schema", "clusters").returncode == 2
