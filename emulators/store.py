"""SQLite storage of an emulator: a file for one process at a time, and the behaviour of every zone in it."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from emulators.behaviour import ZoneBehaviour

_ZONES = "CREATE TABLE IF NOT EXISTS zones (name TEXT PRIMARY KEY, behaviour TEXT NOT NULL);"

B = TypeVar("B", bound=ZoneBehaviour)
Write = tuple[str, Sequence[tuple[Any, ...]]]
"""An SQL statement, and the rows to execute it for."""


class DatabaseInUse(Exception):
    """Another process has the file open."""


def open_database(path: Path, tables: str, *, in_use: str) -> sqlite3.Connection:
    """Open the database and create missing tables; raises `DatabaseInUse` with the message `in_use`.

    WAL with `synchronous = NORMAL` is fast and survives a crash of the process, though not of the machine. Deleted content
    is overwritten, because it may be a secret.
    """
    database = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA secure_delete = ON")
        database.executescript(tables)
    except sqlite3.OperationalError as error:
        database.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise DatabaseInUse(in_use) from None
    return database


class ZoneStore(Generic[B]):
    """Base of the stores: behaviours by zone, and transactions that write them together with records.

    A change is committed before its reply is sent, so that `kill -9` loses nothing that a caller knows of.
    """

    def __init__(self, path: Path, tables: str, *, behaviour: type[B], in_use: str) -> None:
        self._db = open_database(path, _ZONES + tables, in_use=in_use)
        rows = self._db.execute("SELECT name, behaviour FROM zones").fetchall()
        self._zones: dict[str, B] = {name: behaviour.model_validate_json(body) for name, body in rows}

    def set_zone(self, zone: str, behaviour: B) -> None:
        """Replace the behaviour of a zone."""
        self._commit(zones={zone: behaviour})

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        self._db.close()

    def _commit(self, *writes: Write, zones: Mapping[str, B] | None = None) -> None:
        """Make the writes and store the behaviours of the zones, in one transaction."""
        zones = zones or {}
        behaviours = [(name, behaviour.model_dump_json()) for name, behaviour in zones.items()]
        with self._db:
            self._db.execute("BEGIN")
            for statement, rows in (*writes, ("INSERT OR REPLACE INTO zones VALUES (?, ?)", behaviours)):
                self._db.executemany(statement, rows)
        self._zones.update(zones)
