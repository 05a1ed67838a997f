"""The simulated cloud as a real process: started, killed, started again on the same file."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from worker import tether

START_SECONDS = 60.0
"""Starting takes half a second, and far longer on a busy machine."""


class RunningSim:
    """One process at a time on one database; it keeps its address when it is started again."""

    def __init__(self, database: Path, *, scenario: Path | None = None) -> None:
        self.database = database
        self.scenario = scenario
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and return when calls are taken."""
        command = [sys.executable, "-SE", tether.__file__, str(os.getpid())]  # It does not outlive a test run that is killed.
        command += [sys.executable, "-m", "emulators.sim", "--port", str(self._port), "--database", str(self.database)]
        command += [] if self.scenario is None else ["--scenario", str(self.scenario)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        announced, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if announced else ""
        assert line.startswith("simulated cloud on "), f"not ready: {line!r}, exit code {self._process.poll()}"
        self._port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, kind: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(kind)
        code = process.wait(START_SECONDS)
        if process.stdout is not None:
            process.stdout.close()
        return code
