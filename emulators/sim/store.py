"""Resources of the simulated cloud in SQLite, with in-memory indexes; the store of local hosts builds on it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from emulators.sim.behaviour import Behaviour, Scenario
from emulators.sim.cloud import Phase, Resource
from emulators.store import ZoneStore

_RESOURCES = (
    "CREATE TABLE IF NOT EXISTS resources (name TEXT, created_at TEXT, body TEXT NOT NULL, PRIMARY KEY (name, created_at));"
)
_SCENARIO = "CREATE TABLE IF NOT EXISTS scenario (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);"
_HAS_LABEL = "AND (SELECT value FROM json_each(body, '$.labels') WHERE key = ?) = ? "

R = TypeVar("R", bound=Resource)


class ResourceStore(ZoneStore[Behaviour], Generic[R]):
    """Every resource ever created; those that exist are also in memory."""

    def __init__(self, path: Path, kind: type[R], *, in_use: str, tables: str = "") -> None:
        super().__init__(path, _RESOURCES + tables, behaviour=Behaviour, in_use=in_use)
        self._kind = kind
        self._existing: dict[str, R] = {}
        self._queued: dict[str, R] = {}
        self._leaving: dict[str, R] = {}
        for resource in self.ever_created():
            self._index(resource)

    def behaviour(self, zone: str) -> Behaviour:
        """The current behaviour of a zone."""
        return self._zones.get(zone, Behaviour())

    def ever_created(self, labels: Sequence[tuple[str, str]] = ()) -> list[R]:
        """Every resource ever created that has these labels, oldest first, including those that are gone."""
        query = f"SELECT body FROM resources WHERE 1 {_HAS_LABEL * len(labels)} ORDER BY created_at, name"  # noqa: S608 - constants
        rows = self._db.execute(query, [word for label in labels for word in label]).fetchall()
        return [self._kind.model_validate_json(body) for (body,) in rows]

    def existing(self, now: datetime) -> Mapping[str, R]:
        """The resources that exist now, by name."""
        for name in [name for name, resource in self._leaving.items() if resource.phase(now) is Phase.GONE]:
            del self._leaving[name], self._existing[name]
        return self._existing

    def queued(self, zone: str) -> list[R]:
        """The queued resources of a zone."""
        return [resource for resource in self._queued.values() if resource.zone == zone]

    def save(self, *resources: R, zones: Mapping[str, Behaviour] | None = None) -> None:
        """Store resources and behaviours in one transaction."""
        rows = [(resource.name, resource.created_at.isoformat(), resource.model_dump_json()) for resource in resources]
        self._commit(("INSERT OR REPLACE INTO resources VALUES (?, ?, ?)", rows), zones=zones)
        for resource in resources:
            self._index(resource)

    def _index(self, resource: R) -> None:
        """Index the resource by name, so that no call scans thousands of others."""
        name, leaving = resource.name, resource.ends_at is not None
        self._existing[name] = resource
        for index, belongs in ((self._leaving, leaving), (self._queued, resource.booting_at is None and not leaving)):
            index.pop(name, None)
            if belongs:
                index[name] = resource


class SimStore(ResourceStore[Resource]):
    """Resources, and the scenario from which zones take their behaviour."""

    def __init__(self, path: Path) -> None:
        in_use = f"{path} is in use by another simulated cloud; stop it or name another file"
        super().__init__(path, Resource, in_use=in_use, tables=_SCENARIO)
        self._scenario = Scenario()

    def use_scenario(self, scenario: Scenario) -> None:
        """Continue the stored scenario if it is the same one; otherwise reset every zone to the new one."""
        text = scenario.model_dump_json()
        if self._db.execute("SELECT 1 FROM scenario WHERE body = ?", (text,)).fetchone() is None:
            with self._db:
                self._db.execute("BEGIN")
                self._db.execute("DELETE FROM zones")
                self._db.execute("INSERT OR REPLACE INTO scenario VALUES (1, ?)", (text,))
            self._zones.clear()
        self._scenario = scenario

    def behaviour(self, zone: str) -> Behaviour:
        """The current behaviour of a zone: as last set or counted down, or as the scenario says."""
        return self._zones.get(zone) or self._scenario.behaviour_of(zone)
