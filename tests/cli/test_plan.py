"""`penstock plan` and `penstock schema` on real files."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.running import Commands, in_process

EXAMPLES = ("examples/cluster.yaml", "examples/demand.json", "--slices", "examples/slices.yaml")
MANUAL = Path(__file__).parents[2] / "docs" / "plan.md"
FILES = MANUAL.with_name("files.md")


def plan_json(*arguments: str) -> Any:
    return json.loads(in_process("plan", *arguments, "--json").stdout)


def test_unmet_demand_is_status_3_and_everything_placed_is_status_0(tmp_path: Path) -> None:
    assert in_process("plan", *EXAMPLES).returncode == 3
    demand = tmp_path / "demand.json"
    demand.write_text('[{"id": "t", "resources": {"cpu": 1}}]')
    assert in_process("plan", EXAMPLES[0], str(demand)).returncode == 0


def test_the_installed_program_plans_and_ends_with_the_same_status() -> None:
    done = Commands(installed=True)("plan", *EXAMPLES)
    assert (done.returncode, done.stdout) == (3, in_process("plan", *EXAMPLES).stdout)


def test_a_dash_reads_one_file_from_standard_input() -> None:
    tasks = '[{"id": "t", "resources": {"cpu": 1}}]'
    assert in_process("plan", EXAMPLES[0], "-", given=tasks).returncode == 0
    problem = in_process("plan", EXAMPLES[0], "-", given='[{"id": "t", "cpus": 1}]')
    assert "only one of the files" in in_process("plan", "-", "-").stderr
    assert (problem.returncode, problem.stderr.startswith("error: standard input:1: tasks[0].cpus: unknown key")) == (2, True)


@pytest.mark.parametrize("width", [60, 80, 133])
def test_the_output_is_as_wide_as_columns_says(width: int) -> None:
    shown = in_process("plan", *EXAMPLES, COLUMNS=str(width)).stdout
    assert max(map(len, shown.splitlines())) <= width
    explained = in_process("plan", *EXAMPLES, "--explain", "pretrain/9/3", COLUMNS=str(width)).stdout
    assert width - 20 < max(map(len, explained.splitlines())) <= width


def test_without_columns_a_pipe_gets_100_columns_and_an_explanation_in_one_line() -> None:
    shown = in_process("plan", *EXAMPLES, COLUMNS="").stdout
    assert max(map(len, shown.splitlines())) == 100
    assert len(in_process("plan", *EXAMPLES, "--explain", "pretrain/9/3", COLUMNS="").stdout.splitlines()) == 1


def test_bad_input_under_json_is_json(tmp_path: Path) -> None:
    demand = tmp_path / "demand.json"
    demand.write_text('[{"id": "t", "cpus": 4}]')
    done = in_process("plan", EXAMPLES[0], str(demand), "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, done.stderr, error["code"]) == (2, "", "bad_input")
    assert error["message"].startswith(f"{demand}:1: tasks[0].cpus: unknown key")


def test_the_table_shows_groups_unmet_demand_and_remedies() -> None:
    shown = in_process("plan", *EXAMPLES).stdout
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
    assert decision["placed"]["v5e-16-west"] == {"ready": 4, "in_flight": 4, "new": 16}
    codes = {tuple(item["task_ids"][:1]): item["code"] for item in decision["unmet"]}
    assert codes == {("pretrain/6/0",): "no_capacity", ("finetune/0",): "gang_size_mismatch", ("index",): "no_matching_group"}
    west = decision["groups"]["v5e-16-west"]
    assert {"have", "in_flight", "required", "availability", "outcome", "why", "pressure"} <= west.keys()
    assert decision["unmet"][0]["groups"] == {"v5e-16-west": "pool_exhausted", "v5e-16-east-spot": "backoff"}
    assert decision["unmet"][0]["remedy_text"] == "raise chips of pool v5e-reservation from 128 to 192"
    assert decision["cost_per_hour"]["before"] < decision["cost_per_hour"]["after"]


IDLE_CLUSTER = """cluster: c
groups:
  - {name: g, max_slices: 9, min_slices: 1, host: {cpu: 4}}
"""
IDLE_SLICES = """now: 2026-11-16T12:00:00Z
slices:
  - {id: busy, group: g, state: READY, usage: [{state: busy, tasks: [a]}]}
  - {id: old, group: g, state: READY, usage: idle, idle_since: 2026-11-16T11:00:00Z}
  - {id: young, group: g, state: READY, usage: idle, idle_since: 2026-11-16T11:55:00Z}
  - {id: late, group: g, state: BOOTING, unneeded_since: 2026-11-16T11:50:00Z}
  - {id: soon, group: g, state: BOOTING}
"""


def idle_files(directory: Path) -> tuple[str, ...]:
    """A cluster whose slices mostly have nothing to do."""
    files = {"cluster.yaml": IDLE_CLUSTER, "demand.json": "[]", "slices.yaml": IDLE_SLICES}
    for name, text in files.items():
        (directory / name).write_text(text)
    cluster, demand, slices = (str(directory / name) for name in files)
    return cluster, demand, "--slices", slices


def test_slices_that_go_and_slices_that_stay_are_shown_with_the_reasons(tmp_path: Path) -> None:
    files = idle_files(tmp_path)
    decision = plan_json(*files)
    assert decision["drains"] == [
        {"slice": "late", "group": "g", "cause": "not needed"},
        {"slice": "old", "group": "g", "cause": "idle"},
    ]
    assert decision["kept"] == {"g": {"busy": 1, "idle_timeout": 1, "cancel_after": 1}}
    shown = " ".join(in_process("plan", *files, COLUMNS="120").stdout.replace("│", " ").split())
    assert "Slices that go" in shown
    assert "late g not needed old g idle" in shown
    assert "g 1 busy, 1 idle timeout, 1 cancel after" in shown


def test_a_slice_is_explained_in_the_same_words_as_text_and_as_json(tmp_path: Path) -> None:
    files = idle_files(tmp_path)
    done = in_process("plan", *files, "--explain", "young", COLUMNS="")
    assert done.returncode == 0
    assert "drains at 2026-11-16 12:05:00Z (in 5m)." in done.stdout
    answer = plan_json(*files, "--explain", "young")
    assert (answer["text"], answer["status"]) == (done.stdout.strip(), "kept")
    assert "the decision drains it (not needed)" in in_process("plan", *files, "--explain", "late", COLUMNS="").stdout


REPLACING_CLUSTER = """cluster: c
max_unavailable: 9
return_home: {settle: 5m}
consolidation: {}
groups:
  - {name: web, max_slices: 9, max_unavailable: 9, price_per_hour: 2, host: {cpu: 8}, zone: a, max_age: 7d}
  - {name: dear, max_slices: 9, max_unavailable: 9, price_per_hour: 3, host: {cpu: 8}, zone: b}
  - {name: half, max_slices: 9, price_per_hour: 3, host: {cpu: 8}, zone: d}
  - {name: full, max_slices: 1, price_per_hour: 3, host: {cpu: 8}, zone: c}
"""
REPLACING_SLICES = """now: 2026-11-16T12:00:00Z
slices:
  - {id: drifted, group: web, state: READY, fingerprint: before, usage: busy}
  - {id: booting, group: web, state: BOOTING, replaces: drifted}
  - {id: aged, group: web, state: READY, created_at: 2026-11-01T08:00:00Z, usage: busy}
  - {id: away, group: dear, state: READY, home: web, usage: busy}
  - {id: taken, group: dear, state: READY, usage: busy, notice: {kind: maintenance, until: 2026-11-16T12:30:00Z}}
  - {id: sick, group: full, state: READY, degraded_since: 2026-11-16T11:00:00Z, usage: degraded}
  - {id: a, group: half, state: READY, usage: {tasks: [x], reserved: {cpu: 2}}}
  - {id: b, group: half, state: READY, usage: {tasks: [y], reserved: {cpu: 1}}}
"""


def replacing_files(directory: Path) -> tuple[str, ...]:
    """A cluster of which every slice is to be replaced, replaces another, or is emptied."""
    files = {"cluster.yaml": REPLACING_CLUSTER, "demand.json": "[]", "slices.yaml": REPLACING_SLICES}
    for name, text in files.items():
        (directory / name).write_text(text)
    cluster, demand, slices = (str(directory / name) for name in files)
    return cluster, demand, "--slices", slices


def test_a_plan_shows_what_is_replaced_for_which_reason_and_what_takes_its_place(tmp_path: Path) -> None:
    files = replacing_files(tmp_path)
    decision = plan_json(*files)
    notice = "maintenance at 2026-11-16 12:30:00Z"
    saving = "saves 3.00 an hour: its work fits on a"
    assert decision["drains"] == [
        {"slice": "taken", "group": "dear", "cause": "notice", "detail": notice},
        {"slice": "b", "group": "half", "cause": "consolidation", "detail": saving},
    ]
    assert decision["kept"] == {
        "dear": {"replacement": 1},
        "full": {"no_replacement": 1},
        "half": {"busy": 1},
        "web": {"replacement": 2, "replaces": 1},
    }
    assert decision["launches"] == {"dear": 1, "web": 2}
    shown = " ".join(in_process("plan", *files, COLUMNS="160").stdout.replace("│", " ").split())
    for words in (
        "opens 1 slice to replace aged, 1 for the return of away",
        "opens 1 slice to replace taken",
        "0 (+1 replacing)",
        f"taken dear notice, {notice}",
        f"b half consolidation, {saving}",
        "web 2 waiting for its replacement, 1 replacing another",
        "full 1 outdated, without a replacement",
    ):
        assert words in shown, (words, shown)


@pytest.mark.parametrize(
    ("slice_id", "words"),
    [
        ("drifted", "(drift, made with before, its group has "),
        ("drifted", "its replacement booting is still BOOTING"),
        ("booting", "it takes the place of drifted, whose work moves here"),
        ("aged", "(expiry, older than 7d), and it waits for its replacement, which is ordered first"),
        ("away", "(return home, to web), and it waits for its replacement"),
        ("taken", "at 2026-11-16 12:30:00Z (in 30m), even with work on it. A slice to take its place is ordered"),
        ("sick", "(degraded, since 2026-11-16 11:00:00Z), and no replacement can be ordered now"),
        ("b", "the decision drains it (consolidation, saves 3.00 an hour: its work fits on a)"),
    ],
)
def test_a_plan_explains_slices_that_are_replaced(tmp_path: Path, slice_id: str, words: str) -> None:
    done = in_process("plan", *replacing_files(tmp_path), "--explain", slice_id, COLUMNS="")
    assert (done.returncode, words in done.stdout) == (0, True), done.stdout


def test_the_example_of_slices_that_are_replaced_in_the_docs_can_be_planned(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.+?)^```$", FILES.read_text(), flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "slices.yaml").write_text(next(block for block in blocks if "fingerprint: before" in block))
    (tmp_path / "demand.json").write_text("[]")
    files = (EXAMPLES[0], str(tmp_path / "demand.json"), "--slices", str(tmp_path / "slices.yaml"))
    assert in_process("plan", *files).stderr == ""
    decision = plan_json(*files)
    assert [(drain["slice"], drain["cause"]) for drain in decision["drains"]] == [("l-1", "notice")]
    assert decision["kept"]["cpu-16"] == {"busy": 1, "replacement": 1, "replaces": 1}
    assert "(drift, made with before" in in_process("plan", *files, "--explain", "c-1", COLUMNS="").stdout


def test_a_placement_can_be_tried_without_changing_the_file() -> None:
    assert plan_json(*EXAMPLES)["placement"] == "priority"
    assert plan_json(*EXAMPLES, "--placement", "cost")["placement"] == "cost"


@pytest.mark.parametrize(
    ("task", "status", "words"),
    [
        ("pretrain/0/0", 0, "fits on READY slices of v5e-16-west"),
        ("pretrain/9/3", 3, "Remedy: raise chips of pool v5e-reservation from 128 to 192."),
        ("nobody", 2, "No task or gang nobody is waiting or running, and no task id begins with it."),
    ],
)
def test_one_task_is_explained_in_the_same_words_as_text_and_as_json(task: str, status: int, words: str) -> None:
    done = in_process("plan", *EXAMPLES, "--explain", task, COLUMNS="")
    assert (done.returncode, words in done.stdout) == (status, True)
    assert plan_json(*EXAMPLES, "--explain", task)["text"] == done.stdout.strip()


def test_the_manual_shows_the_decision_and_the_explanation_of_the_examples() -> None:
    blocks = re.findall(r"^```\n(.+?)^```$", MANUAL.read_text(), flags=re.MULTILINE | re.DOTALL)
    shown = {line.rstrip() for block in blocks for line in block.splitlines()}
    decision = in_process("plan", *EXAMPLES, COLUMNS="").stdout
    assert [line for line in map(str.rstrip, decision.splitlines()) if line not in shown] == []
    explanation = in_process("plan", *EXAMPLES, "--explain", "pretrain/9/3", COLUMNS="").stdout
    assert " ".join(explanation.split()) in [" ".join(block.split()) for block in blocks]


@pytest.mark.parametrize("arguments", [(), ("--explain", "pretrain/9/3")])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_breaks_no_word(width: int, arguments: tuple[str, ...]) -> None:
    wide = in_process("plan", *EXAMPLES, *arguments, COLUMNS="400").stdout
    coloured = in_process("plan", *EXAMPLES, *arguments, COLUMNS=str(width), FORCE_COLOR="1").stdout
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert max(map(len, narrow.splitlines())) <= width
    assert set(re.findall(r"[\w./=-]+", wide)) <= set(re.findall(r"[\w./=-]+", narrow))


def test_bad_input_is_status_2_and_names_every_problem_of_every_file(tmp_path: Path) -> None:
    cluster, demand = tmp_path / "cluster.yaml", tmp_path / "demand.json"
    cluster.write_text("cluster: c\ngroups:\n  - {name: a, max_slices: x}\n")
    demand.write_text('[{"id": "t", "cpus": 4}]')
    done = in_process("plan", str(cluster), str(demand))
    assert (done.returncode, done.stdout) == (2, "")
    known = "constraints, count, device, gang, id, preemptible, resources"
    assert done.stderr.splitlines() == [
        f"error: {cluster}:3: groups[0].max_slices: 'x' is not a number; write it like 4",
        f"error: {demand}:1: tasks[0].cpus: unknown key; known keys: {known}",
    ]


def test_a_warning_does_not_stop_the_plan(tmp_path: Path) -> None:
    cluster, demand = tmp_path / "cluster.yaml", tmp_path / "demand.json"
    cluster.write_text("cluster: c\ngroups:\n  - {name: a, device: {type: tpu, variant: v5p-8}, host: {tpu: 8}, max_slices: 1}\n")
    demand.write_text('[{"id": "t", "resources": {"tpu": 8}}]')
    done = in_process("plan", str(cluster), str(demand))
    assert done.returncode == 0
    assert "warning:" in done.stderr
    assert "8 contradicts v5p-8" in done.stderr


def test_problems_of_the_slices_file_are_reported_with_those_of_the_other_files(tmp_path: Path) -> None:
    cluster, slices = tmp_path / "cluster.yaml", tmp_path / "slices.yaml"
    cluster.write_text("cluster: c\n")
    slices.write_text("slices: [{id: a}]\n")
    problems = in_process("plan", str(cluster), EXAMPLES[1], "--slices", str(slices)).stderr
    assert "groups: is missing; add it" in problems
    assert "slices[0].group: is missing; add it" in problems


def test_ids_are_not_taken_for_markup(tmp_path: Path) -> None:
    demand = tmp_path / "demand.json"
    demand.write_text('[{"id": "a:rocket:[bold]b", "resources": {"cpu": 999}}]')
    assert "a:rocket:[bold]b" in in_process("plan", EXAMPLES[0], str(demand)).stdout


@pytest.mark.parametrize(("name", "path"), [("cluster", EXAMPLES[0]), ("demand-file", EXAMPLES[1]), ("slices-file", EXAMPLES[3])])
def test_the_examples_satisfy_their_schemas(name: str, path: str) -> None:
    schema = json.loads(in_process("schema", name).stdout)
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
    jsonschema.Draft202012Validator(json.loads(in_process("schema", name).stdout)).validate(data)


def test_every_file_and_message_has_a_schema() -> None:
    schemas = json.loads(in_process("schema").stdout)
    assert {"cluster", "demand-file", "slices-file", "event", "state", "decision", "decision-summary"} <= schemas.keys()
    assert json.loads(in_process("schema", "cluster").stdout) == schemas["cluster"]
    assert "max_slices" in schemas["cluster"]["$defs"]["ScaleGroup"]["properties"]
    assert in_process("schema", "clusters").returncode == 2
