"""The SQLite file that an emulator keeps everything in, for itself alone."""

import sqlite3
from pathlib import Path


class DatabaseInUse(Exception):
    """Another process runs on the file; two would contradict each other."""


def opened(path: Path, tables: str, *, in_use: str) -> sqlite3.Connection:
    """The database with its tables, made if need be; raises `DatabaseInUse` with the sentence given if another process has it.

    WAL without a sync per commit: that guards against the process dying, not the machine, and is quick. What is deleted is
    overwritten: it may have been a secret.
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
