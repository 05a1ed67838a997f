"""Arguments that are not UTF-8 or very long are refused in one line, and no traceback reaches a user who did not ask for it."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from penstock.config import file_text
from tests.cli.running import Commands, in_process

EXAMPLES = ("plan", "examples/cluster.yaml", "examples/demand.json")


@pytest.mark.parametrize("arguments", [("status", "--address", "\udcff"), (*EXAMPLES, "--explain", "\udcff"), ("\udcff",)])
def test_an_argument_that_is_not_utf_8_is_named(arguments: tuple[str, ...]) -> None:
    done = in_process(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: argument {len(arguments)} is not UTF-8: '\\udcff'"
    error = json.loads(in_process(*arguments, "--json").stdout)["error"]
    assert (error["code"], "is not UTF-8" in error["message"]) == ("bad_input", True)


def test_a_setting_that_is_not_utf_8_is_named() -> None:
    done = in_process("status", PENSTOCK_CLUSTER="\udcff")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Error: PENSTOCK_CLUSTER is not UTF-8: '\\udcff'")


@pytest.mark.parametrize("arguments", [("a" * 100_000,), ("plan", "a" * 100_000, "b"), ("schema", "a" * 100_000)])
def test_an_argument_of_100_000_characters_is_quoted_in_part(arguments: tuple[str, ...]) -> None:
    done = in_process(*arguments)
    assert done.returncode == 2
    assert len(done.stderr) < 2000


def test_a_pipe_that_nobody_writes_into_and_a_device_without_an_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_text, "WRITER_SECONDS", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = in_process("plan", str(pipe), "examples/demand.json")
    assert (done.returncode, done.stderr.strip()) == (
        2,
        f"error: {pipe}: cannot be read: it is a pipe into which nothing was written for 0.1s",
    )
    done = in_process("plan", "/dev/zero", "examples/demand.json")
    assert (done.returncode, done.stderr.strip()) == (2, "error: /dev/zero: cannot be read: it has more than 100 MB")


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (
            {"id": "t", "constraints": [{"attribute": "zone", "op": "eq", "value": "x" * 100_000}]},
            "constraints[0].values[0]: has 100000 characters, the limit is 200; shorten it",
        ),
        (
            {"id": "t", "constraints": [{"attribute": "x", "op": "gt", "value": math.inf}]},
            "constraints[0].values[0]: inf is not a finite number; write a number, or a text in quotes",
        ),
        ({"id": "t", "gang": {"id": "a\x1b", "size": 2}}, "gang.id: 'a\\x1b' contains control characters"),
        ({"id": "t", "device": {"type": "tpu", "variants": ["x" * 100_000]}}, "device.variants[0]: should be at most 200"),
    ],
)
def test_a_value_that_no_sentence_could_quote_is_one_line(task: dict[str, object], problem: str, tmp_path: Path) -> None:
    file = tmp_path / "demand.json"
    file.write_text(json.dumps([task]))
    done = in_process("plan", "examples/cluster.yaml", str(file))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"error: {file}:1: tasks[0].{problem}")
    assert len(line) < 400


def test_an_unknown_task_id_of_100_000_characters_is_quoted_in_part() -> None:
    done = in_process(*EXAMPLES, "--explain", "t" * 100_000)
    assert (done.returncode, len(done.stdout) < 1000) == (2, True)


def test_a_number_of_thousands_of_digits_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "demand.json"
    file.write_text('[{"id": "t", "resources": {"cpu": ' + "1" * 5000 + "}}]")
    assert in_process("plan", "examples/cluster.yaml", str(file)).stderr.strip() == (
        f"error: {file}: is not JSON: a number has thousands of digits"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!timestamp banana", "error: the value of capacity is not YAML: '!!timestamp banana'"),
        ("[" * 100_000, f"error: the value of capacity is not YAML: '{'[' * 58}…"),
    ],
)
def test_a_setting_of_the_simulated_cloud_that_is_not_yaml_is_one_line(value: str, message: str) -> None:
    done = in_process("sim", "set", "us-east1-c", f"capacity={value}")
    assert (done.returncode, done.stderr.strip()) == (2, message)


def test_a_date_as_a_setting_of_the_simulated_cloud_reaches_it() -> None:
    done = in_process("sim", "set", "us-east1-c", "--reset", "capacity=2026-01-01", PENSTOCK_SIM_URL="http://127.0.0.1:9")
    assert done.returncode == 4


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("a part that\nnobody expected")

    monkeypatch.setattr("penstock.cli.plan.run_plan", fail)


@pytest.mark.usefixtures("broken")
def test_a_bug_is_one_line_with_what_to_report_and_status_70() -> None:
    done = in_process(*EXAMPLES)
    assert (done.returncode, done.stdout) == (70, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(
        "error: a bug in Penstock: KeyError: 'a part that\\nnobody expected' in test_bad_command_lines.fail, line "
    )
    assert "report it" in second
    assert json.loads(in_process(*EXAMPLES, "--json").stdout)["error"]["code"] == "unexpected"


@pytest.mark.usefixtures("broken")
def test_the_traceback_of_a_bug_is_printed_to_those_who_ask_for_it() -> None:
    assert "Traceback (most recent call last)" in in_process(*EXAMPLES, PENSTOCK_DEBUG="1").stderr


def test_a_bug_of_a_command_with_a_server_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("nobody expected this")

    def end(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("penstock.cli.status.at_cluster", fail)
    monkeypatch.setattr("penstock.cli.connect.finish", end)  # The real one ends this process.
    done = in_process("status")
    assert (done.returncode, done.stderr.startswith("error: a bug in Penstock: KeyError: 'nobody expected this'")) == (70, True)


def test_the_installed_program_names_an_argument_that_is_not_utf_8() -> None:
    commands = Commands()
    done = subprocess.run(
        ["penstock", b"status", b"\xff\xfe"],
        executable=commands.program,
        capture_output=True,
        timeout=90,
        check=False,
        env=commands.environment,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, rb"Error: argument 2 is not UTF-8: '\udcff\udcfe'")
