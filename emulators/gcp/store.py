"""What the emulated cloud remembers: one SQLite file, and all of it also in memory."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from emulators.database import opened
from emulators.gcp.behaviour import Behaviour, Fault
from emulators.gcp.records import Api, Key, Machine, Operation, Queued, Record

_TABLES = """
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS zones (name TEXT PRIMARY KEY, behaviour TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS faults (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
"""
_KINDS: dict[str, type[Record]] = {"machine": Machine, "queued": Queued, "operation": Operation}
_FAULTS = TypeAdapter(tuple[Fault, ...])
DEFAULTS = "-"
"""Stands for every zone without a behaviour of its own."""

_USUAL_ZONES = (
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
"""Zones that lists name even when nothing is there."""

R = TypeVar("R", Machine, Queued)


class Store:
    """Every change is in the file before anyone is told of it, so that `kill -9` loses nothing."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, _TABLES, in_use=f"{path} is in use by another emulator; stop it or name another file")
        self._machines: dict[int, Machine] = {}
        self._queued: dict[int, Queued] = {}
        self._current: dict[Key, Machine | Queued] = {}
        self._operations: dict[tuple[Api, str], Operation] = {}
        self._requests: dict[tuple[Api, str], str] = {}
        self._last = 0
        for kind, body in self._db.execute("SELECT kind, body FROM records ORDER BY number"):
            self._note(_KINDS[kind].model_validate_json(body))
        zones = self._db.execute("SELECT name, behaviour FROM zones").fetchall()
        self._zones = {name: Behaviour.model_validate_json(behaviour) for name, behaviour in zones}
        kept = self._db.execute("SELECT body FROM faults").fetchone()
        self.faults: tuple[Fault, ...] = () if kept is None else _FAULTS.validate_json(kept[0])

    def number(self) -> int:
        """A number that no record has."""
        self._last += 1
        return self._last

    def behaviour(self, zone: str) -> Behaviour:
        """How a zone behaves now."""
        return self._zones.get(zone) or self._zones.get(DEFAULTS) or Behaviour()

    def zones(self) -> list[str]:
        """Zones with a behaviour of their own."""
        return sorted(zone for zone in self._zones if zone != DEFAULTS)

    def set_zone(self, zone: str, behaviour: Behaviour) -> None:
        """Replace how a zone behaves."""
        self._db.execute("INSERT OR REPLACE INTO zones VALUES (?, ?)", (zone, behaviour.model_dump_json()))
        self._zones[zone] = behaviour

    def set_faults(self, faults: Sequence[Fault]) -> None:
        """Replace the faults that wait for calls."""
        self.faults = tuple(faults)
        self._db.execute("INSERT OR REPLACE INTO faults VALUES (1, ?)", (_FAULTS.dump_json(self.faults).decode(),))

    def ever(self) -> Iterator[Machine | Queued]:
        """Everything that was ever created, in that order, gone or not."""
        everything: list[Machine | Queued] = [*self._machines.values(), *self._queued.values()]
        return iter(sorted(everything, key=lambda record: record.number))

    def find(self, key: Key, now: datetime) -> Machine | Queued | None:
        """What exists under a key now."""
        found = self._current.get(key)
        return found if found is not None and found.exists(now) else None

    def machines(self, now: datetime) -> Collection[Machine]:
        """The nodes and instances that exist now, by kind, project, zone and name."""
        return self._existing(Machine, now)

    def queued(self, now: datetime) -> Collection[Queued]:
        """The queued resources that exist now, by project, zone and name."""
        return self._existing(Queued, now)

    def machine(self, number: int) -> Machine:
        """A machine by its number, gone or not."""
        return self._machines[number]

    def queued_resource(self, number: int) -> Queued:
        """A queued resource by its number, gone or not."""
        return self._queued[number]

    def operations(self) -> Collection[Operation]:
        """All operations, oldest first."""
        return self._operations.values()

    def operation(self, api: Api, name: str) -> Operation | None:
        """An operation by its name."""
        return self._operations.get((api, name))

    def replayed(self, api: Api, request_id: str) -> Operation | None:
        """The operation that an earlier call with the request id began."""
        name = self._requests.get((api, request_id))
        return None if name is None else self._operations[api, name]

    def keep(self, *records: Record) -> None:
        """Store records, all of them or none."""
        names = {kind: name for name, kind in _KINDS.items()}
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
                [(record.number, names[type(record)], record.model_dump_json()) for record in records],
            )
        for record in records:
            self._note(record)

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    def _existing(self, kind: type[R], now: datetime) -> list[R]:
        for key in [key for key, record in self._current.items() if not record.exists(now)]:
            del self._current[key]
        return [record for _, record in sorted(self._current.items()) if isinstance(record, kind)]

    def _note(self, record: Record) -> None:
        self._last = max(self._last, record.number)
        if isinstance(record, Operation):
            self._operations[record.api, record.name] = record
            if record.request_id is not None:
                self._requests[record.api, record.request_id] = record.name
        elif isinstance(record, Machine):
            self._machines[record.number] = record
            self._place(record)
        elif isinstance(record, Queued):
            self._queued[record.number] = record
            self._place(record)

    def _place(self, record: Machine | Queued) -> None:
        """A name belongs to the youngest that bore it."""
        other = self._current.get(record.key)
        if other is None or other.number <= record.number:
            self._current[record.key] = record


def known_zones(store: Store) -> list[str]:
    """The usual zones, and those that were spoken of."""
    return sorted({*_USUAL_ZONES, *store.zones(), *(record.zone for record in store.ever())})
