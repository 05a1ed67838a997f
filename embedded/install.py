"""Create a virtual environment and install a lock file into it, with progress; `make` calls it. Standard library only."""

import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_PIP = ("-m", "pip", "--disable-pip-version-check", "install")
_PINNED = re.compile(r"^[\w.-]+==", re.MULTILINE)
_FOUND = re.compile(r"^(?:Collecting|Processing|Requirement already satisfied:) (?:\S*/)?([\w.]+(?:-[a-z][\w.]*)*)")
"""The line that pip prints when it reaches a package: from an index, from a local file, or installed already."""
_DOWNLOADING = re.compile(r"Downloading (\S+) \((\d+(?:\.\d+)? MB)\)")
_CLEAR_LINE = "\r\033[K"
_TAIL_LINES = 30


def main() -> None:
    """Install `LOCK` and the project of the current directory into `VENV`: `python -m embedded.install VENV LOCK`."""
    venv, lock = Path(sys.argv[1]), Path(sys.argv[2])
    python = venv / "bin" / "python"
    if not python.exists():
        _step(f"Creating the virtual environment {venv}", [sys.executable, "-m", "venv", str(venv)])
    packages = len(_PINNED.findall(lock.read_text()))
    locked = [str(python), *_PIP, "--progress-bar", "off", "--require-hashes", "--requirement", str(lock)]
    _step(f"Installing {packages} packages of {lock}", locked, packages=packages)
    _step("Installing penstock", [str(python), *_PIP, "--no-deps", "--no-build-isolation", "--editable", "."])


def _step(name: str, command: list[str], *, packages: int = 0) -> None:
    """Run one command. Print one line about it, and its output only if it fails."""
    began = time.monotonic()
    _write(f"{name}… ")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - built above
    assert process.stdout is not None
    output = _shown(process.stdout, name, packages)
    if process.wait():
        _write("failed\n" + "".join(output[-_TAIL_LINES:]))
        sys.exit(process.returncode)
    again = f"{_CLEAR_LINE}{name}… " if sys.stdout.isatty() else ""
    _write(f"{again}done in {time.monotonic() - began:.1f} s\n")


def _shown(lines: Iterable[str], name: str, packages: int) -> list[str]:
    """Collect the output. On a terminal, show in one line which of the packages pip has reached."""
    output, collected = [], 0
    for line in lines:
        output.append(line)
        state = None
        if found := _FOUND.search(line):
            collected += 1
            state = found[1]
        elif found := _DOWNLOADING.search(line):
            state = f"downloading {found[1].partition('-')[0]}, {found[2]}"
        elif line.startswith("Installing collected packages"):
            state = "unpacking"
        if state and packages and sys.stdout.isatty():
            _write(f"{_CLEAR_LINE}{name}… [{min(collected, packages)}/{packages}] {state}")
    return output


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
