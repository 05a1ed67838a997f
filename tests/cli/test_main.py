"""The command as a whole: help comes at once, every command is there, and mistakes are answered with what was meant."""

import subprocess
import sys

import click
import pytest

from penstock.cli.main import SECTIONS, main
from tests.cli.running import Commands

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


def test_help_loads_nothing_that_takes_long() -> None:
    told = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.splitlines()[-1] == "[]"
    assert all(name in told for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_it_is_said_to_be_and_says_the_same_of_itself(name: str) -> None:
    assert command(name).get_short_help_str(limit=100) == COMMANDS[name].summary


def test_no_command_needs_temporal_to_explain_itself() -> None:
    modules = sorted({entry.target.partition(":")[0] for entry in COMMANDS.values()})
    code = f"import sys, {', '.join(modules)}; print('temporalio' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert told == "False\n"


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    told = Commands()("stauts")
    assert told.returncode == 2
    assert "No such command 'stauts'. Did you mean status?" in told.stderr
    assert "No such command 'xyzzy'." in Commands()("xyzzy").stderr
