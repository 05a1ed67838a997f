"""Processes of this machine: begun behind a gate, known by more than their number, ended with all that they began."""

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
"""The variable by which what a host began is known once the host itself is gone."""
_LOOKS, _BETWEEN_LOOKS_SECONDS = 20, 0.001
"""How often, and how quickly, a process without variables is looked at before it counts as one that has none."""
_DEAD = ("Z", "X")
"""States of a process that has ended and is only waiting to be noticed."""
_GATE = 'read -r go && exec "$@" </dev/null'
"""Waits for a line, then becomes the command. Without one, because whoever was to write it is gone, it ends."""


class Process(Value):
    """A host's process. Numbers are used again; number, start and boot together never are."""

    pid: int
    started_ticks: int
    """Clock ticks from boot to its start."""
    boot: str
    mark: str


class Seen(NamedTuple):
    """A process as the kernel shows it."""

    pid: int
    state: str
    session: int
    started_ticks: int

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.state not in _DEAD


class Gated:
    """A process that waits for `release` before it becomes its command; if its owner dies first, it ends by itself.

    So nothing ever runs that is not on record: begin, record, release.
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
        # A child that nobody waited for keeps its number, so this is it, however short its life was.
        seen = look(pid)
        assert seen is not None
        self.process = Process(pid=pid, started_ticks=seen.started_ticks, boot=boot(), mark=mark)

    def release(self) -> subprocess.Popen[bytes]:
        """Let it run; what is returned is to be polled now and then, or the process stays a zombie when it ends."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(b"go\n")
            self._child.stdin.flush()
        return self.withhold()

    def withhold(self) -> subprocess.Popen[bytes]:
        """Let it end without ever having run."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        return self._child


def boot() -> str:
    """Which run of the machine this is."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def look(pid: int) -> Seen | None:
    """The process with a number, if there is one."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, in which anything may stand; what follows is regular.
    fields = text.rpartition(")")[2].split()
    return Seen(pid, state=fields[0], session=int(fields[3]), started_ticks=int(fields[19]))


def is_running(process: Process) -> bool:
    """Whether this very process has not ended; another one with its number is not it."""
    seen = look(process.pid)
    return seen is not None and seen.runs and _is(process, seen)


def remaining(processes: Iterable[Process]) -> list[Seen]:
    """What still runs of the processes and of all that they began, as far as it stayed in their sessions."""
    now = boot()
    leaders = {process.pid: (process, look(process.pid)) for process in processes if process.boot == now}
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()] if leaders else []
    running = [seen for pid in pids if (seen := look(pid)) is not None and seen.runs and seen.session in leaders]
    return [seen for seen in running if _belongs(seen, *leaders[seen.session])]


def send(seen: Seen, kind: signal.Signals) -> None:
    """Signal a process, unless it is gone or its number is another's by now."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(seen.pid)
        try:
            current = look(seen.pid)
            if current is not None and current.started_ticks == seen.started_ticks:
                signal.pidfd_send_signal(handle, kind)
        finally:
            os.close(handle)


def _is(process: Process, seen: Seen) -> bool:
    return (seen.pid, seen.started_ticks) == (process.pid, process.started_ticks) and boot() == process.boot


def _belongs(seen: Seen, process: Process, leader: Seen | None) -> bool:
    """Whether a member of the session that bears the process's number is the process's.

    The kernel gives a number away again only when its whole session is gone. So with the process still there, the session
    is its own; with another one there, nothing is left of it; with none there, only the mark can tell.
    """
    if leader is not None:
        return _is(process, leader)
    return f"{_MARK}={process.mark}".encode() in _environment(seen.pid)


def _environment(pid: int) -> list[bytes]:
    """The variables of a process. One that is just becoming another program has none for a moment."""
    for _ in range(_LOOKS):
        try:
            found = (_PROC / str(pid) / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
        if found:
            return found.split(b"\0")
        time.sleep(_BETWEEN_LOOKS_SECONDS)
    return []
