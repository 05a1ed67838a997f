"""docs/cli.md covers every command and exit status, and names only commands that exist."""

import re
from pathlib import Path

import click
import pytest

from penstock.cli import failures
from penstock.cli.main import main

MANUAL = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
CONTEXT = click.Context(main)


def leaves() -> list[str]:
    """Every command with its subcommands: `demand submit`."""
    found: list[str] = []
    for name in main.list_commands(CONTEXT):
        command = main.get_command(CONTEXT, name)
        found += [f"{name} {inner}" for inner in command.commands] if isinstance(command, click.Group) else [name]
    return found


@pytest.mark.parametrize("name", leaves())
def test_every_command_is_in_the_manual(name: str) -> None:
    group, _, inner = name.partition(" ")
    paragraphs = [paragraph for paragraph in MANUAL.split("\n\n") if f"penstock {group}" in paragraph]
    assert re.search(rf"(penstock {group} |[|`]){inner}\b" if inner else rf"penstock {group}\b", "\n".join(paragraphs))


def test_every_exit_status_is_in_the_manual() -> None:
    statuses = {value for name, value in vars(failures).items() if name.startswith("EXIT_") and isinstance(value, int)}
    rows = set(map(int, re.findall(r"^\| (\d+) \|", MANUAL, flags=re.MULTILINE)))
    assert rows == statuses | {0}


@pytest.mark.parametrize("line", sorted(set(re.findall(r"^\$ penstock (.+)$", MANUAL, flags=re.MULTILINE))))
def test_an_example_is_a_valid_command_line(line: str) -> None:
    words = re.findall(r'"[^"]*"|\S+', line)
    command: click.Command | None = main
    while isinstance(command, click.Group):
        command = command.get_command(CONTEXT, words.pop(0))
    assert command is not None
    with command.make_context(line, [word.strip('"') for word in words], resilient_parsing=False):
        pass
