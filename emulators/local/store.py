"""Slices of local hosts in SQLite, with those that exist also in memory."""

from pathlib import Path

from emulators.local.slices import LocalSlice
from emulators.sim.store import ResourceStore


class LocalStore(ResourceStore[LocalSlice]):
    """Slices with their processes. A process is stored before its command runs, so that `kill -9` loses none."""

    def __init__(self, path: Path) -> None:
        in_use = f"{path.parent} is in use by another daemon; stop it or name another directory"
        super().__init__(path, LocalSlice, in_use=in_use)

    def find(self, name: str) -> LocalSlice | None:
        """The slice of that name, if it exists."""
        return self._existing.get(name)
