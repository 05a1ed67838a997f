"""The data directory of an embedded service: databases, logs, lock, and the address files for commands."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from penstock.local_service import LOCK, Note
from worker.settings import BadSettings

_GITIGNORE = "# Data of an embedded Penstock; keep it out of version control.\n*\n"
_LOCK_TRIES, _LOCK_SECONDS = 10, 0.02
"""A command that reads a note holds the lock for an instant."""
_NOTES: tuple[Note, ...] = ("address", "ui", "sim")


class BadDataDir(BadSettings):
    """The data directory is unusable: it cannot be written, or another service runs on it."""


class DataDir:
    """The files of one embedded service."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_new(self) -> bool:
        """Whether no service has run here yet."""
        return not self.temporal_database.exists()

    @property
    def temporal_database(self) -> Path:
        """The Temporal server's database, with every workflow history."""
        return self.path / "temporal.sqlite"

    @property
    def cloud_database(self) -> Path:
        """The simulated cloud's database."""
        return self.path / "cloud.sqlite"

    @property
    def google_database(self) -> Path:
        """The database of the emulator of Google's clouds."""
        return self.path / "google.sqlite"

    @property
    def local_hosts(self) -> Path:
        """The state directory of the local hosts' daemon."""
        return self.path / "local"

    @property
    def temporal_config(self) -> Path:
        """A configuration file for Temporal's own tools, with the server's address; there while the service runs."""
        return self.path / "temporal.toml"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.path / f"{name}.log"

    def write_notes(self, *, address: str, namespace: str, ui: str, sim: str | None) -> None:
        """Write the addresses of this service for `penstock.local_service`, and the server's for Temporal's own tools."""
        self.temporal_config.write_text(f'[profile.default]\naddress = "{address}"\nnamespace = "{namespace}"\n')
        for name, value in {"address": address, "ui": ui, "sim": sim}.items():
            if value is not None:
                (self.path / name).write_text(f"{value}\n")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the directory and lock it against other services; raises `BadDataDir`."""
        with self._open_lock() as lock:
            self._take(lock)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._remove_notes()  # Of a service that was killed.
            try:
                yield
            finally:
                self._remove_notes()

    def _remove_notes(self) -> None:
        for path in (self.temporal_config, *(self.path / name for name in _NOTES)):
            path.unlink(missing_ok=True)

    def _open_lock(self) -> TextIO:
        """Open the lock file without locking it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / ".gitignore").write_text(_GITIGNORE)
            return (self.path / LOCK).open("a+")
        except OSError as error:
            raise BadDataDir(f"{self.path} cannot be used: {error.strerror}; name another directory with --data") from None

    def _take(self, lock: TextIO) -> None:
        for remaining in reversed(range(_LOCK_TRIES)):
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not remaining:
                    lock.seek(0)
                    raise BadDataDir(self._in_use(lock.read().strip())) from None
            time.sleep(_LOCK_SECONDS)
        raise AssertionError("unreachable")

    def _in_use(self, pid: str) -> str:
        note = self.path / "address"
        server = f", server at {note.read_text().strip()}" if note.exists() else ""
        holder = f"process {pid}" if pid else "another process"
        return f"{self.path} is in use by {holder}{server}; stop it first, or name another directory with --data"
