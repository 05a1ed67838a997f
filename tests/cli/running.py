"""The `penstock` command in tests: as a process of its own, or in the test's own process, which is faster."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

from click.testing import CliRunner

from penstock.cli.main import main

SECONDS = 90.0
"""Commands take half a second, and far longer on a busy machine."""
_PROGRAM = str(Path(sys.executable).parent / "penstock")
_REDIRECTING = ("TEMPORAL_", "PENSTOCK_")
"""Prefixes of the variables that would redirect a command to a service of the person who runs the tests."""
_PLAIN = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")
"""Variables of the person who runs the tests that would change the output."""


def in_process(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that needs no Temporal server in this process; `given` is its standard input."""
    variables: dict[str, str | None] = {name: None for name in os.environ if name.startswith(_REDIRECTING)}
    variables |= dict.fromkeys(_PLAIN) | {"COLUMNS": "160"} | environment
    done = CliRunner().invoke(main, arguments, input=given, env=variables, catch_exceptions=False)
    return subprocess.CompletedProcess(list(arguments), done.exit_code, done.stdout, done.stderr)


class Commands:
    """Commands as processes, in one environment and directory.

    Those that only have to end are forked from a process that has imported what they need, which `installed` ones are not.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, *, folder: Path | None = None, installed: bool = False
    ) -> None:
        self.environment = _inherited() | {"COLUMNS": "160"} | dict(environment or {})
        self.folder = folder
        self.program = _PROGRAM
        self._installed = installed

    def __call__(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        if not self._installed:
            return _spawner().run(arguments, given, self.environment, self.folder)
        return subprocess.run(
            [_PROGRAM, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=self.environment,
            cwd=self.folder,
        )

    def json(self, *arguments: str) -> Any:
        """The JSON that the command prints."""
        done = self(*arguments, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def started(self, *arguments: str) -> "subprocess.Popen[str]":
        """The command, running."""
        return subprocess.Popen(
            [_PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_REDIRECTING)}


class _Spawner:
    """The process that forks commands (`tests.cli.spawner`)."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder)
        self._address = str(folder / "spawner")
        command = [sys.executable, "-m", "tests.cli.spawner", self._address]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_inherited(), cwd=Path(__file__).parents[2], text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def run(
        self, arguments: tuple[str, ...], given: str, environment: Mapping[str, str], folder: Path | None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        order = {"arguments": arguments, "environment": environment, "folder": str(folder or Path.cwd())}
        with (
            tempfile.TemporaryFile("w+") as taken,
            tempfile.TemporaryFile("w+") as output,
            tempfile.TemporaryFile("w+") as errors,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            taken.write(given)
            taken.seek(0)
            connection.connect(self._address)
            connection.settimeout(SECONDS)
            socket.send_fds(connection, [b" "], [stream.fileno() for stream in (taken, output, errors)])
            with connection.makefile("rw") as orders:
                print(json.dumps(order), file=orders, flush=True)
                status = _status(orders, arguments)
            return subprocess.CompletedProcess(list(arguments), status, _text(output), _text(errors))


def _status(orders: IO[str], arguments: tuple[str, ...]) -> int:
    """The exit status of a command; one that takes too long is killed."""
    process = int(orders.readline())
    try:
        return int(orders.readline())
    except TimeoutError:
        os.kill(process, signal.SIGKILL)
        raise subprocess.TimeoutExpired(list(arguments), SECONDS) from None


def _text(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


@cache
def _spawner() -> _Spawner:
    """The one of this process; it ends with it."""
    return _Spawner()
