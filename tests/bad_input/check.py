"""Give generated files, messages, queries and command lines to their readers; say what is wrong with the answers."""

import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

import click

from penstock.cli.failures import EXIT_REFUSED, EXIT_STATUS, EXIT_UNEXPECTED, EXIT_UNMET
from penstock.cli.main import main
from penstock.client.demand_messages import as_demand
from penstock.client.errors import ClientError
from tests.bad_input.check_messages import check_batches, check_messages, check_queries, some_message
from tests.bad_input.findings import Check, showing
from tests.bad_input.generate import as_json, as_yaml, command_line, document
from tests.bad_input.service import Service
from tests.bad_input.valid import CLUSTER, COMMANDS, SIGNALS, SLICES, TASKS
from tests.cli.running import in_process

_STATUSES = {0, EXIT_UNMET, EXIT_REFUSED, *EXIT_STATUS.values()} - {EXIT_UNEXPECTED}
_LONGEST_LINE = 1100
"""Characters of one line of an error."""
_MOST_LINES = 130
"""Lines of errors: those of three files with thirty problems each, and warnings."""
_NOWHERE = {"TEMPORAL_ADDRESS": "127.0.0.1:9", "PENSTOCK_SIM_URL": "http://127.0.0.1:9"}


def check_files(rng: random.Random, folder: Path) -> str | None:
    """`penstock plan` with one or several bad files: placed, unmet, or bad input with a line for each problem."""
    paths = {}
    for kind, valid in (("cluster", CLUSTER), ("demand", TASKS), ("slices", SLICES)):
        data = document(rng, valid) if rng.random() < 0.5 else valid
        is_json = rng.random() < 0.5
        paths[kind] = folder / f"{kind}.{'json' if is_json else 'yaml'}"
        paths[kind].write_bytes((as_json if is_json else as_yaml)(rng, data))
    showing({kind: path.read_bytes()[:600] for kind, path in paths.items()})
    options = rng.choice([[], ["--json"], ["--explain", "t/3"]])
    words = ("plan", str(paths["cluster"]), str(paths["demand"]), "--slices", str(paths["slices"]), *options)
    return _wrong(words, _run(*words))


def check_client(rng: random.Random, _folder: Path) -> str | None:
    """Tasks as Python values, for the client: demand, or an error that says what is wrong."""
    tasks = document(rng, TASKS)
    while not isinstance(tasks, list):
        tasks = document(rng, TASKS)
    showing(tasks)
    try:
        as_demand(tasks).model_dump_json()
    except ClientError as refused:
        return None if 0 < len(str(refused)) <= _LONGEST_LINE else f"an error of {len(str(refused))} characters"
    return None


def check_commands(rng: random.Random, folder: Path) -> str | None:
    """A command line with wrong arguments: a documented exit status, and an error of bounded length.

    Half of them meet a service with a cluster, whose core reads what they name.
    """
    words = command_line(rng, _commands(), _options(), _files(folder))
    showing(words)
    if rng.random() < 0.5:
        return _wrong(words, _run(*words))
    return _wrong(words, run_served(Service([some_message(rng, SIGNALS) for _ in range(3)]), *words))


CHECKS: dict[str, Check] = {
    "files": check_files,
    "messages": check_messages,
    "batches": check_batches,
    "queries": check_queries,
    "tasks of the client": check_client,
    "command lines": check_commands,
}


def _run(*words: str) -> CompletedProcess[str]:
    def end(status: int) -> None:
        raise SystemExit(status)

    with patch("penstock.cli.connect.finish", end):  # The real one ends this process.
        return in_process(*words, **_NOWHERE)


def run_served(service: Service, *words: str) -> CompletedProcess[str]:
    """Run a command that finds the service, and asks it again at once."""

    async def connect(**_: Any) -> Service:
        return service

    with (
        patch("penstock.connection.connect", connect),
        patch("penstock.cli.status._WATCH_SECONDS", 0),
        patch("penstock.cli.delete._POLL_SECONDS", 0),
    ):
        return _run(*words)


def _wrong(words: Sequence[str], done: CompletedProcess[str]) -> str | None:
    """What is wrong with the end of a command."""
    if done.returncode not in _STATUSES:
        return f"exit status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}"
    lines = done.stderr.splitlines()
    if "Traceback" in done.stderr or len(lines) > _MOST_LINES or max(map(len, lines), default=0) > _LONGEST_LINE:
        return f"an error of {len(lines)} lines, the longest {max(map(len, lines))} characters: {done.stderr[:500]}"
    if _asks_for_json(words) and done.returncode == 2 and done.stdout:
        json.loads(done.stdout)
    return None


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether `--json` is an option here, and not the value of the one before, as in `--explain --json`."""
    return any(word == "--json" and not before.startswith("--") for before, word in pairwise(("", *words)))


@cache
def _commands() -> tuple[tuple[str, ...], ...]:
    """Nothing, every command without arguments, and valid command lines."""
    return ((), *(path for path, _ in _leaves((), main)), *COMMANDS)


@cache
def _options() -> tuple[str, ...]:
    """Every option of every command."""
    return tuple(sorted({name for _, command in _leaves((), main) for each in command.params for name in _spelt(each)}))


def _spelt(parameter: click.Parameter) -> Sequence[str]:
    return parameter.opts if isinstance(parameter, click.Option) else ()


def _leaves(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands below a command, each with the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _leaves((*path, name), found)


def _files(folder: Path) -> tuple[str, ...]:
    bad = folder / "bad.yaml"
    bad.write_text("cluster: demo\ngroups: {x: 1}\n")
    return ("examples/cluster.yaml", "examples/demand.json", "examples/slices.yaml", str(bad), str(folder), "nowhere.yaml", "-")
