"""Measure CPU seconds of a call and peak memory of a process, and run modules in separate processes."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
"""The root of the checkout, the working directory of `python -m bench`."""

_RSS_UNITS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024
"""`ru_maxrss` counts bytes on macOS and KiB elsewhere."""

Given = TypeVar("Given")
Found = TypeVar("Found")


def timed(prepare: Callable[[], Given], call: Callable[[Given], Found], *, repeats: int) -> tuple[list[float], Found]:
    """CPU seconds of each call, and the result of the last one.

    Every call gets a new input: values cache derived data, and a second call must not profit from the caches of the first.
    """
    seconds: list[float] = []
    for _ in range(repeats):
        given = prepare()
        start = time.process_time()
        found = call(given)
        seconds.append(time.process_time() - start)
    return seconds, found


def peak_megabytes() -> float:
    """Peak resident memory of this process.

    On Linux, `ru_maxrss` includes the memory of the parent at the fork, so read the kernel's high-water mark instead.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _RSS_UNITS_PER_MB


def output_of(module: str, *arguments: str) -> str:
    """Run a module of the benchmark in a new process; returns its standard output."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def progress(line: str) -> None:
    """Print a progress line to standard error."""
    print(line, file=sys.stderr, flush=True)
