"""Measuring: CPU seconds of a call, the peak memory of a process, and processes of their own to measure in."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
"""The checkout: what `python -m bench` runs in."""

_RSS_UNITS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024
"""`ru_maxrss` counts bytes on macOS and KiB elsewhere."""

Given = TypeVar("Given")
Found = TypeVar("Found")


def timed(prepare: Callable[[], Given], call: Callable[[Given], Found], *, repeats: int) -> tuple[list[float], Found]:
    """CPU seconds of each call, and what the last one found.

    Every call has an input of its own: values cache what they derive, and a second call must not profit from the first.
    """
    seconds: list[float] = []
    for _ in range(repeats):
        given = prepare()
        start = time.process_time()
        found = call(given)
        seconds.append(time.process_time() - start)
    return seconds, found


def peak_megabytes() -> float:
    """The most memory this process ever held.

    Linux counts what the parent held at the fork into `ru_maxrss`, so there the kernel's own high-water mark is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _RSS_UNITS_PER_MB


def output_of(module: str, *arguments: str) -> str:
    """What a module of the benchmark prints when run in a fresh process."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def progress(line: str) -> None:
    """A line for whoever is waiting."""
    print(line, file=sys.stderr, flush=True)
