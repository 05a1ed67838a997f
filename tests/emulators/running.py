"""Emulators as real processes, which tests start, kill and start again on the same file."""

import os
import re
import select
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from embedded import die_with_parent

START_SECONDS = 60.0
"""A start takes about half a second, and far longer on a busy machine."""
_READY = re.compile(r"simulated cloud on http://127\.0\.0\.1:(\d+)\n")


class Running(ABC):
    """One process at a time, whose first line of output names its ports."""

    def __init__(self, ready: re.Pattern[str]) -> None:
        self._ready = ready
        self._process: subprocess.Popen[str] | None = None

    def begin(self, command: list[str]) -> list[int]:
        """Start the command; returns the ports when it accepts calls."""
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        announced, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if announced else ""
        ready = self._ready.fullmatch(line)
        assert ready is not None, f"not ready: {line!r}, exit code {self._process.poll()}"
        return [int(port) for port in ready.groups()]

    @abstractmethod
    def start(self) -> None:
        """Start it; returns when it accepts calls."""

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended since."""
        return self._process is not None

    def kill(self) -> None:
        """Send SIGKILL."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code."""
        return self.end(signal.SIGTERM)

    def end(self, kind: signal.Signals | None) -> int:
        """Send the signal, if any, and wait for the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if kind is not None:
            process.send_signal(kind)
        code = process.wait(START_SECONDS)
        if process.stdout is not None:
            process.stdout.close()
        return code


R = TypeVar("R", bound=Running)


def ensure_running(emulator: R) -> R:
    """The emulator, started unless it runs."""
    if not emulator.is_running:
        emulator.start()
    return emulator


@contextmanager
def kept_running(emulator: R) -> Iterator[R]:
    """Run the emulator within the context."""
    try:
        emulator.start()
        yield emulator
    finally:
        emulator.kill()


class RunningSim(Running):
    """The simulated cloud on one database; a restart keeps its port."""

    def __init__(self, database: Path, *, scenario: Path | None = None) -> None:
        super().__init__(_READY)
        self.database = database
        self.scenario = scenario
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it; returns when it accepts calls."""
        # die_with_parent ends it with the test run, even if that is killed.
        command = [sys.executable, "-SE", die_with_parent.__file__, str(os.getpid())]
        command += [sys.executable, "-m", "emulators.sim", "--port", str(self._port), "--database", str(self.database)]
        command += [] if self.scenario is None else ["--scenario", str(self.scenario)]
        (self._port,) = self.begin(command)
