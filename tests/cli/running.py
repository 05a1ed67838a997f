"""The `penstock` command in tests: as a real process, or in the test's own process, which is faster."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    """Commands as real processes, in one environment and directory."""

    def __init__(self, environment: Mapping[str, str] | None = None, *, folder: Path | None = None) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_REDIRECTING)}
        self.environment = inherited | {"COLUMNS": "160"} | dict(environment or {})
        self.folder = folder
        self.program = _PROGRAM

    def __call__(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
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
