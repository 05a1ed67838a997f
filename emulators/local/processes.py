"""Processes on Linux: start one behind a gate, identify it despite pid reuse, find and signal all its descendants."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.model.value import Value

_PROC = Path("/proc")
_MARK = "PENSTOCK_MARK"
"""Environment variable that identifies a host's descendants after the host itself ended."""
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.001
"""How often to read an empty environment again, because a process has none for a moment during exec."""
_ENDED = ("Z", "X")
"""States of a process that ended and was not waited for yet."""
_GATE = 'read -r go && exec "$@" </dev/null'
"""Waits for a line, then executes the command. If the daemon dies first, the read fails and the shell exits."""


class Process(Value):
    """A host's process. Pids are reused; pid, start time and boot id together are unique."""

    pid: int
    started_ticks: int
    """Clock ticks from boot to the start of the process."""
    boot: str
    mark: str


class ProcessStat(NamedTuple):
    """A process as `/proc/PID/stat` shows it."""

    pid: int
    state: str
    session: int
    started_ticks: int

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self.state not in _ENDED


class GatedProcess:
    """A process that executes its command only after `release`, and exits if the daemon dies before that.

    The daemon starts the process, stores it and then releases it, so that no command runs that is not stored.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        mark = uuid.uuid4().hex
        with log.open("ab") as output:
            self._child = subprocess.Popen(  # noqa: S603 - running the command of the configuration is what this is for
                ["/bin/sh", "-c", _GATE, "host", *command],
                env={**env, _MARK: mark},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pid = self._child.pid
        # A child that was not waited for keeps its pid, so the entry exists even if the process has already ended.
        found = read_stat(pid)
        assert found is not None
        self.process = Process(pid=pid, started_ticks=found.started_ticks, boot=boot_id(), mark=mark)

    def release(self) -> subprocess.Popen[bytes]:
        """Let it execute its command. Poll the returned child now and then, or it stays a zombie when it ends."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(b"go\n")
            self._child.stdin.flush()
        return self.cancel()

    def cancel(self) -> subprocess.Popen[bytes]:
        """Close the gate's input: a process that was not released exits without executing its command."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        return self._child


def boot_id() -> str:
    """The kernel's id of the current boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_stat(pid: int) -> ProcessStat | None:
    """The process with a pid, if there is one."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may contain anything, so parse from the last parenthesis.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(pid, state=fields[0], session=int(fields[3]), started_ticks=int(fields[19]))


def is_running(process: Process) -> bool:
    """Whether this process runs; another process with the same pid does not count."""
    found = read_stat(process.pid)
    return found is not None and found.runs and _is(process, found)


def still_running(processes: Iterable[Process]) -> list[ProcessStat]:
    """Those of the processes and their descendants that run; descendants that left the session are not found."""
    boot = boot_id()
    leaders = {process.pid: (process, read_stat(process.pid)) for process in processes if process.boot == boot}
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()] if leaders else []
    running = [found for pid in pids if (found := read_stat(pid)) is not None and found.runs and found.session in leaders]
    return [found for found in running if _belongs(found, *leaders[found.session])]


def send_signal(target: ProcessStat, kind: signal.Signals) -> None:
    """Signal a process, unless it has ended or its pid now belongs to another process."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(target.pid)
        try:
            current = read_stat(target.pid)
            if current is not None and current.started_ticks == target.started_ticks:
                signal.pidfd_send_signal(handle, kind)
        finally:
            os.close(handle)


def _is(process: Process, found: ProcessStat) -> bool:
    return (found.pid, found.started_ticks) == (process.pid, process.started_ticks) and boot_id() == process.boot


def _belongs(found: ProcessStat, process: Process, leader: ProcessStat | None) -> bool:
    """Whether a member of the session whose id is the process's pid descends from the process.

    The kernel does not reuse a pid while a session has it as its id. If the process still has its pid, the session is its
    own. If another process has the pid, the old session is gone. If no process has it, the mark decides.
    """
    if leader is not None:
        return _is(process, leader)
    return f"{_MARK}={process.mark}".encode() in _environment(found.pid)


def _environment(pid: int) -> list[bytes]:
    """The environment of a process; read again while it is empty, because exec empties it for a moment."""
    for _ in range(_ATTEMPTS):
        try:
            found = (_PROC / str(pid) / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
        if found:
            return found.split(b"\0")
        time.sleep(_PAUSE_SECONDS)
    return []
