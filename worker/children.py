"""Processes that this one starts, logs and ends: none of them outlives it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker import tether

STOP_SECONDS = 10.0
"""For a process that was asked to stop, before it is killed."""
TAIL_LINES = 30
"""Of a log, to show why a process did not do as it should."""


class StartFailed(Exception):
    """A process did not come up: which, and what it said last."""


class Ended(Exception):
    """A process ended that should run."""


class Child:
    """One process with a log of its own.

    It is no part of the terminal's process group: Ctrl-C reaches this process alone, which then ends its children in order. The
    kernel ends them should this process be killed. Started from the main thread only: the kernel takes the end of the thread
    that started a process for the end of its parent.
    """

    def __init__(self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, while it is known to this process."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, if it has ended by itself."""
        return None if self._process is None else self._process.poll()

    def check_alive(self) -> None:
        """Raise `Ended`, with what it said last, if it has ended by itself."""
        if self.exit_code is not None:
            raise Ended(f"the {self.name} ended with exit code {self.exit_code}; {self.log} ends with:\n{self.tail}")

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def start(self) -> None:
        """Start it; its output goes to the end of its log."""
        command = [sys.executable, "-SE", tether.__file__, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - commands are this package's own
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, process_group=0
            )

    def stop(self, *, seconds: float = STOP_SECONDS) -> int:
        """Ask it to stop, kill it if it does not, and return its exit code."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._end(signal.SIGKILL, STOP_SECONDS)

    def _end(self, kind: signal.Signals, seconds: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(kind)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
