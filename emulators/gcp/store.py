"""Records, zone behaviours and faults of the Google emulator in SQLite, with a full copy in memory."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from emulators.gcp.behaviour import Behaviour
from emulators.gcp.faults import Fault
from emulators.gcp.records import Api, Key, Machine, Operation, QueuedResource, Record
from emulators.store import ZoneStore

_TABLES = """
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS faults (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
"""
_KINDS: dict[str, type[Record]] = {"machine": Machine, "queued": QueuedResource, "operation": Operation}
_FAULTS = TypeAdapter(tuple[Fault, ...])
DEFAULTS = "-"
"""Key of the behaviour of every zone that has none of its own."""

_BUILT_IN_ZONES = (
    "europe-west4-a",
    "europe-west4-b",
    "us-central1-a",
    "us-central1-b",
    "us-central2-b",
    "us-east1-b",
    "us-east1-c",
    "us-east5-a",
    "us-east5-b",
    "us-west1-a",
    "us-west4-a",
)
"""Zones that lists name even if they are empty."""

R = TypeVar("R", Machine, QueuedResource)


class GcpStore(ZoneStore[Behaviour]):
    """Every record ever created, indexed by number, key and request id."""

    def __init__(self, path: Path) -> None:
        in_use = f"{path} is in use by another emulator; stop it or name another file"
        super().__init__(path, _TABLES, behaviour=Behaviour, in_use=in_use)
        self._machines: dict[int, Machine] = {}
        self._queued: dict[int, QueuedResource] = {}
        self._current: dict[Key, Machine | QueuedResource] = {}
        self._operations: dict[tuple[Api, str], Operation] = {}
        self._requests: dict[tuple[Api, str], str] = {}
        self._last_number = 0
        for kind, body in self._db.execute("SELECT kind, body FROM records ORDER BY number"):
            self._index(_KINDS[kind].model_validate_json(body))
        stored = self._db.execute("SELECT body FROM faults").fetchone()
        self.faults: tuple[Fault, ...] = () if stored is None else _FAULTS.validate_json(stored[0])

    def next_number(self) -> int:
        """A number that no record has."""
        self._last_number += 1
        return self._last_number

    def behaviour(self, zone: str) -> Behaviour:
        """The current behaviour of a zone."""
        return self._zones.get(zone) or self._zones.get(DEFAULTS) or Behaviour()

    def zones(self) -> list[str]:
        """The built-in zones, and those that have a behaviour or ever had a resource."""
        configured = (zone for zone in self._zones if zone != DEFAULTS)
        return sorted({*_BUILT_IN_ZONES, *configured, *(record.zone for record in self.ever_created())})

    def set_faults(self, faults: Sequence[Fault]) -> None:
        """Replace the pending faults."""
        self.faults = tuple(faults)
        self._db.execute("INSERT OR REPLACE INTO faults VALUES (1, ?)", (_FAULTS.dump_json(self.faults).decode(),))

    def ever_created(self) -> Iterator[Machine | QueuedResource]:
        """Every resource ever created, oldest first, including those that are gone."""
        everything: list[Machine | QueuedResource] = [*self._machines.values(), *self._queued.values()]
        return iter(sorted(everything, key=lambda record: record.number))

    def find(self, key: Key, now: datetime) -> Machine | QueuedResource | None:
        """The resource with the key that exists now."""
        found = self._current.get(key)
        return found if found is not None and found.exists(now) else None

    def machines(self, now: datetime) -> Collection[Machine]:
        """The nodes and instances that exist now, by kind, project, zone and name."""
        return self._existing(Machine, now)

    def queued_resources(self, now: datetime) -> Collection[QueuedResource]:
        """The queued resources that exist now, by project, zone and name."""
        return self._existing(QueuedResource, now)

    def machine(self, number: int) -> Machine:
        """A machine by its number, gone or not."""
        return self._machines[number]

    def queued_resource(self, number: int) -> QueuedResource:
        """A queued resource by its number, gone or not."""
        return self._queued[number]

    def operations(self) -> Collection[Operation]:
        """All operations, oldest first."""
        return self._operations.values()

    def operation(self, api: Api, name: str) -> Operation | None:
        """An operation by its name."""
        return self._operations.get((api, name))

    def operation_of_request(self, api: Api, request_id: str | None) -> Operation | None:
        """The operation of an earlier call with the same request id."""
        name = None if request_id is None else self._requests.get((api, request_id))
        return None if name is None else self._operations[api, name]

    def save(self, *records: Record) -> None:
        """Store records in one transaction."""
        names = {kind: name for name, kind in _KINDS.items()}
        rows = [(record.number, names[type(record)], record.model_dump_json()) for record in records]
        self._commit(("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", rows))
        for record in records:
            self._index(record)

    def _existing(self, kind: type[R], now: datetime) -> list[R]:
        for key in [key for key, record in self._current.items() if not record.exists(now)]:
            del self._current[key]
        return [record for _, record in sorted(self._current.items()) if isinstance(record, kind)]

    def _index(self, record: Record) -> None:
        self._last_number = max(self._last_number, record.number)
        if isinstance(record, Operation):
            self._operations[record.api, record.name] = record
            if record.request_id is not None:
                self._requests[record.api, record.request_id] = record.name
        elif isinstance(record, Machine):
            self._machines[record.number] = record
            self._index_by_key(record)
        elif isinstance(record, QueuedResource):
            self._queued[record.number] = record
            self._index_by_key(record)

    def _index_by_key(self, record: Machine | QueuedResource) -> None:
        """A key belongs to the newest resource that has it."""
        other = self._current.get(record.key)
        if other is None or other.number <= record.number:
            self._current[record.key] = record
