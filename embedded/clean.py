"""`make clean`: delete the files that `make` creates, unless a running service uses them. Standard library only."""

import os
import shutil
import sys
from collections.abc import Container, Iterator
from pathlib import Path

from penstock.local_service import DATA_DIR, LOCK, is_abandoned

_MADE = (".venv", ".bench", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache")


def main() -> None:
    """Clean the current directory; with the argument `--data`, the data directory too."""
    services = _services()
    users = [*services.values(), *_processes(services)]
    if users:
        sys.exit("\n".join(["make clean: in use, so nothing was removed:", *(f"  {user}" for user in users)]))
    for path in map(Path, _MADE):
        shutil.rmtree(path, ignore_errors=True)
    for path in list(Path().rglob("__pycache__")):
        shutil.rmtree(path, ignore_errors=True)
    if "--data" in sys.argv[1:]:
        shutil.rmtree(DATA_DIR, ignore_errors=True)
    elif DATA_DIR.exists():
        sys.stdout.write(f"Kept the data in {DATA_DIR}/; `make clean DATA=1` removes it too.\n")


def _services() -> dict[int, str]:
    """Services of `make run` in this directory, by process id, with how to stop each."""
    running = {int(lock.read_text()): lock.parent for lock in sorted(DATA_DIR.rglob(LOCK)) if not is_abandoned(lock.parent)}
    return {
        pid: f"the service in {data_dir}/ (process {pid}); stop it with Ctrl-C in its terminal, or: kill {pid}"
        for pid, data_dir in running.items()
    }


def _processes(services: Container[int]) -> Iterator[str]:
    """Other processes that run from the virtual environment, such as workers; Linux only."""
    programs, own = Path(".venv/bin").absolute(), (os.getpid(), os.getppid())
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            program = (entry / "cwd").readlink() / command[0]
            pid, parent = int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # It ended, or belongs to another user.
            continue
        if Path(os.path.normpath(program)).parent == programs and pid not in own and not (pid in services or parent in services):
            yield f"process {pid} ({' '.join(command).strip()}); stop it with: kill {pid}"


if __name__ == "__main__":
    main()
