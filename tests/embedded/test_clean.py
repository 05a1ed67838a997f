"""`make clean` removes what make made, keeps data unless requested, and spares what is in use."""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project directory in which a service ran and was killed: its lock file is there, but not locked."""
    for made in (".venv/bin", ".penstock", "penstock/__pycache__"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / ".penstock" / "lock").write_text("1")
    return tmp_path


def _clean(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "embedded.clean", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_data_is_kept_unless_its_removal_is_requested(project: Path) -> None:
    done = _clean(project)
    assert (done.returncode, done.stdout) == (0, "Kept the data in .penstock/; `make clean DATA=1` removes it too.\n")
    assert sorted(path.name for path in project.rglob("*")) == [".penstock", "lock", "penstock"]

    assert _clean(project, "--data").returncode == 0
    assert [path.name for path in project.iterdir()] == ["penstock"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists processes on Linux only")
def test_nothing_is_removed_while_a_process_runs_from_the_environment(project: Path) -> None:
    program = project / ".venv" / "bin" / "python"
    program.symlink_to(sys.executable)
    running = subprocess.Popen([".venv/bin/python", "-c", "input()"], cwd=project, stdin=subprocess.PIPE)
    try:
        done = _clean(project)
    finally:
        running.communicate(b"\n", timeout=SECONDS)

    assert done.returncode == 1
    assert f"process {running.pid} (.venv/bin/python -c input()); stop it with: kill {running.pid}" in done.stderr
    assert program.exists()
    assert _clean(project).returncode == 0
    assert not program.exists()
