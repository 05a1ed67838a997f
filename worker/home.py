"""The directory in which an embedded service keeps everything: databases, logs, and where its server is while it runs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

DEFAULT_HOME = Path(".penstock")
"""Where commands look for the address of a running server when nothing else tells them."""
_NOTICE = "# What an embedded Penstock keeps; nothing here belongs under version control.\n*\n"


class BadHome(Exception):
    """Nothing can be kept in this directory: it cannot be written, or another process runs on it."""


class Home:
    """The files of one embedded service."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_new(self) -> bool:
        """Whether nothing ran here yet."""
        return not self.temporal_database.exists()

    @property
    def temporal_database(self) -> Path:
        """All histories."""
        return self.path / "temporal.sqlite"

    @property
    def cloud_database(self) -> Path:
        """What the simulated cloud holds."""
        return self.path / "cloud.sqlite"

    @property
    def google_database(self) -> Path:
        """What the emulator of Google's clouds holds."""
        return self.path / "google.sqlite"

    @property
    def local_hosts(self) -> Path:
        """What the daemon of local hosts holds."""
        return self.path / "local"

    @property
    def address(self) -> Path:
        """Holds `host:port` of the server while it runs."""
        return self.path / "address"

    @property
    def sim(self) -> Path:
        """Holds the URL of the simulated cloud while it runs."""
        return self.path / "sim"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.path / f"{name}.log"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the directory, and keep others off it; raises `BadHome`."""
        with self._made() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise BadHome(self._told(lock.read().strip())) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                for note in (self.address, self.sim):
                    note.unlink(missing_ok=True)

    def _made(self) -> TextIO:
        """The directory's lock, not yet taken."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / ".gitignore").write_text(_NOTICE)
            return (self.path / "lock").open("a+")
        except OSError as error:
            raise BadHome(f"{self.path} cannot be used: {error.strerror}; name another directory with --data") from None

    def _told(self, pid: str) -> str:
        served = f", server at {self.address.read_text().strip()}" if self.address.exists() else ""
        who = f"process {pid}" if pid else "another process"
        return f"{self.path} is in use by {who}{served}; stop it first, or name another directory with --data"
