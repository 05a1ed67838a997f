"""What the simulated cloud remembers: one SQLite file, and what exists also in memory."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from emulators.database import opened
from emulators.sim.behaviour import Behaviour, Scenario
from emulators.sim.cloud import Phase, Resource

_TABLES = """
CREATE TABLE IF NOT EXISTS resources (name TEXT, created_at TEXT, body TEXT NOT NULL, PRIMARY KEY (name, created_at));
CREATE TABLE IF NOT EXISTS zones (name TEXT PRIMARY KEY, behaviour TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS scenario (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
"""


class Store:
    """Every change is in the file before anyone is told of it, so that `kill -9` loses nothing."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, _TABLES, in_use=f"{path} is in use by another simulated cloud; stop it or name another file")
        self._existing: dict[str, Resource] = {}
        self._waiting: dict[str, Resource] = {}
        self._leaving: dict[str, Resource] = {}
        for resource in self.ever():
            self._note(resource)
        self._zones: dict[str, Behaviour] = {}
        self._scenario = Scenario()

    def begin(self, scenario: Scenario) -> None:
        """Take up a scenario: as it was left if it is the one of last time, from its beginning otherwise."""
        text = scenario.model_dump_json()
        if self._db.execute("SELECT 1 FROM scenario WHERE body = ?", (text,)).fetchone() is None:
            with self._db:
                self._db.execute("BEGIN")
                self._db.execute("DELETE FROM zones")
                self._db.execute("INSERT OR REPLACE INTO scenario VALUES (1, ?)", (text,))
        self._scenario = scenario
        rows = self._db.execute("SELECT name, behaviour FROM zones").fetchall()
        self._zones = {name: Behaviour.model_validate_json(behaviour) for name, behaviour in rows}

    def behaviour(self, zone: str) -> Behaviour:
        """How a zone behaves now."""
        return self._zones.get(zone) or self._scenario.behaviour_of(zone)

    def ever(self) -> list[Resource]:
        """Everything that was ever created, in that order, gone or not."""
        rows = self._db.execute("SELECT body FROM resources ORDER BY created_at, name").fetchall()
        return [Resource.model_validate_json(body) for (body,) in rows]

    def existing(self, now: datetime) -> Mapping[str, Resource]:
        """What exists now, by name."""
        for name in [name for name, resource in self._leaving.items() if resource.phase(now) is Phase.GONE]:
            del self._leaving[name], self._existing[name]
        return self._existing

    def waiting(self, zone: str) -> list[Resource]:
        """What is queued in a zone."""
        return [resource for resource in self._waiting.values() if resource.zone == zone]

    def keep(self, *resources: Resource, zones: Mapping[str, Behaviour] | None = None) -> None:
        """Store resources and behaviours, all of them or none."""
        zones = zones or {}
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO resources VALUES (?, ?, ?)",
                [(resource.name, resource.created_at.isoformat(), resource.model_dump_json()) for resource in resources],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO zones VALUES (?, ?)",
                [(name, behaviour.model_dump_json()) for name, behaviour in zones.items()],
            )
        for resource in resources:
            self._note(resource)
        self._zones.update(zones)

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    def _note(self, resource: Resource) -> None:
        """Index the resource, so that no call needs to walk through thousands of others."""
        name, leaving = resource.name, resource.gone_at is not None
        self._existing[name] = resource
        for index, belongs in ((self._leaving, leaving), (self._waiting, resource.booting_at is None and not leaving)):
            index.pop(name, None)
            if belongs:
                index[name] = resource
