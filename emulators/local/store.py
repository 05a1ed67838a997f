"""What the daemon remembers: one SQLite file, and what exists also in memory."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from emulators.database import opened
from emulators.local.slices import Slice
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import Phase

_TABLES = """
CREATE TABLE IF NOT EXISTS slices (name TEXT, created_at TEXT, body TEXT NOT NULL, PRIMARY KEY (name, created_at));
CREATE TABLE IF NOT EXISTS zones (name TEXT PRIMARY KEY, behaviour TEXT NOT NULL);
"""


class Store:
    """Every change is in the file before anything follows from it, so that `kill -9` loses no process."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, _TABLES, in_use=f"{path.parent} is in use by another daemon; stop it or name another directory")
        self._existing = {held.name: held for held in self.ever()}
        rows = self._db.execute("SELECT name, behaviour FROM zones").fetchall()
        self._zones = {name: Behaviour.model_validate_json(behaviour) for name, behaviour in rows}

    def behaviour(self, zone: str) -> Behaviour:
        """How a zone behaves now; unset, it gives everything at once."""
        return self._zones.get(zone, Behaviour())

    def ever(self) -> list[Slice]:
        """Everything that was ever created, in that order, gone or not."""
        rows = self._db.execute("SELECT body FROM slices ORDER BY created_at, name").fetchall()
        return [Slice.model_validate_json(body) for (body,) in rows]

    def existing(self, now: datetime) -> Mapping[str, Slice]:
        """What exists now, by name."""
        for name in [name for name, held in self._existing.items() if held.phase(now) is Phase.GONE]:
            del self._existing[name]
        return self._existing

    def held(self, name: str) -> Slice | None:
        """The slice of that name, as far as anyone remembers it."""
        return self._existing.get(name)

    def keep(self, *slices: Slice, zones: Mapping[str, Behaviour] | None = None) -> None:
        """Store slices and behaviours, all of them or none."""
        zones = zones or {}
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO slices VALUES (?, ?, ?)",
                [(held.name, held.resource.created_at.isoformat(), held.model_dump_json()) for held in slices],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO zones VALUES (?, ?)",
                [(name, behaviour.model_dump_json()) for name, behaviour in zones.items()],
            )
        self._existing.update({held.name: held for held in slices})
        self._zones.update(zones)

    def close(self) -> None:
        """Give the file back."""
        self._db.close()
