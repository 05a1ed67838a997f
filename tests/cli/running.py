"""The `penstock` command as a person runs it: a real process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 90.0
"""Commands take half a second, and far longer on a busy machine."""
_PROGRAM = str(Path(sys.executable).parent / "penstock")
_POINTING = ("TEMPORAL_", "PENSTOCK_")
"""Variables that would point a command to where this test does not mean."""


class Commands:
    """Commands in one environment and directory."""

    def __init__(self, environment: Mapping[str, str] | None = None, *, folder: Path | None = None) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_POINTING)}
        self.environment = inherited | {"COLUMNS": "160"} | dict(environment or {})
        self.folder = folder

    def __call__(self, *arguments: str, told: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_PROGRAM, *arguments],
            input=told,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=self.environment,
            cwd=self.folder,
        )

    def json(self, *arguments: str) -> Any:
        """What the command prints for programs."""
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
