"""Child processes: each has its own log and ends no later than its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedded import die_with_parent

STOP_SECONDS = 10.0
"""From SIGTERM to SIGKILL."""
TAIL_LINES = 30
"""How much of a log an error message quotes."""


class StartFailed(Exception):
    """A process did not become ready: names it and quotes the end of its log."""


class Ended(Exception):
    """A process ended that should keep running: names it and quotes the end of its log."""


class Child:
    """One child process with its own log.

    It has its own process group, so Ctrl-C reaches only the parent, which then ends its children in order. If the parent is
    killed, the kernel kills the child. Start it from the main thread: to the kernel, the "parent" is the thread that forked.
    """

    def __init__(self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id; None before the start and after the end."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, if it ended on its own."""
        return None if self._process is None else self._process.poll()

    def check_alive(self) -> None:
        """Raise `Ended` if it ended on its own."""
        if self.exit_code is not None:
            raise Ended(f"the {self.name} ended with exit code {self.exit_code}; {self.log} ends with:\n{self.tail}")

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def start(self) -> None:
        """Start it; its output is appended to its log."""
        command = [sys.executable, "-SE", die_with_parent.__file__, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - commands are this package's own
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, process_group=0
            )

    def stop(self, *, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, then SIGKILL if it takes too long; returns its exit code."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """SIGKILL."""
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
