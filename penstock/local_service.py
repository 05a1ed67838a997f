"""Find a service that `make run` started: the address files in its data directory, and its lock."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

DATA_DIR = Path(".penstock")
"""The data directory of `make run`, in the project directory."""
GCP_DATA_DIR = DATA_DIR / "gcp-emulator"
"""The data directory of `make run PROVIDER=gcp-emulator`. Kept apart: each example has a cloud of its own."""
LOCK = "lock"
"""The file in a data directory that its service holds locked while it runs."""

Note = Literal["address", "ui", "sim"]
"""The Temporal server's `host:port`, the URL of its UI, and the URL of the simulated cloud."""


def read_note(name: Note) -> str | None:
    """The address that a running service noted in this directory or in one above it; None if none runs."""
    for data_dir in _data_dirs():
        try:
            text = (data_dir / name).read_text().strip()
        except OSError:
            continue
        if text and _owned(data_dir) and not is_abandoned(data_dir):
            return text
    return None


def is_abandoned(data_dir: Path) -> bool:
    """Whether the service of this directory is gone. One that was killed leaves its notes behind, but not the lock."""
    try:
        import fcntl
    except ImportError:  # Windows, where no service of `make run` starts.
        return False
    try:
        with (data_dir / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
    except OSError:  # Locked by the service, or no lock file: the note was written by other means.
        return False


def _data_dirs() -> Iterator[Path]:
    here = Path.cwd()
    for directory in (here, *here.parents):
        yield directory / DATA_DIR
        yield directory / GCP_DATA_DIR


def _owned(data_dir: Path) -> bool:
    """Whether the note is this user's own. In a shared directory such as /tmp, another user could leave a false one."""
    return os.name != "posix" or data_dir.stat().st_uid == os.getuid()
