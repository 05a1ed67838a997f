"""The command as a whole: its help, mistyped names, failures, and shell completion."""

import inspect
import json
import re
import subprocess
import sys

import click
import pytest

from penstock.cli.failures import EXIT_STATUS, CommandFailed
from penstock.cli.main import SECTIONS, main
from penstock.contract.error_codes import ErrorCode
from tests.cli.running import Commands, in_process

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
_HELP = """
import sys
from penstock.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
print(sorted(name for name in ("temporalio", "google", "rich", "pydantic", "yaml") if name in sys.modules))
"""


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def test_help_imports_no_slow_package() -> None:
    printed = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.splitlines()[-1] == "[]"
    assert all(name in printed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_line_in_the_list(name: str) -> None:
    summary, help_text = COMMANDS[name].summary, in_process(name, "--help").stdout
    assert help_text.split("\n\n")[1].strip() == summary
    assert help_text.count(summary) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_paragraph_of_the_help_is_not_indented_further_than_the_first(name: str) -> None:
    body = in_process(name, "--help").stdout.partition("\nOptions:")[0].split("\n\n")[1:]
    assert all(re.match(r" {2}\S", paragraph) or "penstock " in paragraph for paragraph in body if paragraph.strip())


@pytest.mark.parametrize("name", ["demand", "config", "sim"])
def test_the_lines_of_subcommands_are_not_cut(name: str) -> None:
    assert "..." not in in_process(name, "--help", COLUMNS="80").stdout.partition("Commands:")[2]


def test_no_command_needs_temporal_for_its_help() -> None:
    modules = sorted({entry.target.partition(":")[0] for entry in COMMANDS.values()})
    code = f"import sys, {', '.join(modules)}; print('temporalio' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed == "False\n"


def test_a_mistyped_command_is_answered_with_the_most_similar_one() -> None:
    done = Commands()("stauts")
    assert done.returncode == 2
    assert "No such command 'stauts'. Did you mean status?" in done.stderr
    assert "No such command 'xyzzy'." in in_process("xyzzy").stderr


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_a_documented_exit_status(code: ErrorCode) -> None:
    assert CommandFailed("x", code=code).exit_code == EXIT_STATUS.get(code, 6)
    assert CommandFailed("x", code=code).exit_code in (1, 2, 4, 5, 6, 70, 130)


def test_a_failure_as_json_has_its_code_its_message_and_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    CommandFailed("no worker runs", "Start one: make run", code=ErrorCode.NO_WORKER).show_json()
    CommandFailed("refused", code=ErrorCode.REFUSED).show_json()
    first, second = re.split(r"(?<=^})\n", capsys.readouterr().out.strip(), maxsplit=1, flags=re.MULTILINE)
    assert json.loads(first) == {"error": {"code": "no_worker", "message": "no worker runs", "fix": "Start one: make run"}}
    assert json.loads(second) == {"error": {"code": "refused", "message": "refused"}}


@pytest.mark.parametrize(
    ("name", "work"), [("plan", "penstock.cli.plan.run_plan"), ("status", "penstock.cli.connect.asyncio.run")]
)
def test_ctrl_c_is_status_130_without_a_message_and_an_error_under_json(
    name: str, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(started: object = None, *_: object, **__: object) -> None:
        if inspect.iscoroutine(started):
            started.close()
        raise KeyboardInterrupt

    def end(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(work, interrupted)
    monkeypatch.setattr("penstock.cli.connect.finish", end)  # The real one ends this process.
    arguments = ("plan", "examples/cluster.yaml", "examples/demand.json") if name == "plan" else (name,)
    done = in_process(*arguments)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")
    done = in_process(*arguments, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (130, "interrupted")


def test_a_wrong_option_under_json_is_json() -> None:
    done = in_process("status", "--json", "--wacth")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, done.stderr, error["code"]) == (2, "", "bad_input")
    assert "--wacth" in error["message"]


@pytest.mark.parametrize(
    ("shell", "part"), [("bash", "complete -o nosort"), ("zsh", "#compdef penstock"), ("fish", "complete --no-files")]
)
def test_each_shell_gets_its_completion_script(shell: str, part: str) -> None:
    script = in_process("completion", shell).stdout
    assert part in script
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in script
    assert re.search(rf"^ *{shell} .*penstock completion {shell}", in_process("completion", "--help").stdout, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("penstock cl", ["clusters", "clear-block"]),
        ("penstock slices --st", ["--state"]),
        ("penstock slices --state RE", ["requesting", "ready"]),
        ("penstock demand s", ["show", "submit"]),
        ("penstock schema cluster-", ["cluster-status", "cluster-summary"]),
    ],
)
def test_the_shell_completes_commands_options_and_values(words: str, completed: list[str]) -> None:
    count = len(words.split()) - 1
    shell = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    printed = Commands(shell)().stdout
    assert sorted(line.partition(",")[2] for line in printed.splitlines()) == sorted(completed)
