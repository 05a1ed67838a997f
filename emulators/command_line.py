"""Helpers of the emulators' command lines: loopback address, stop signals, errors about ports and files."""

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from emulators.store import DatabaseInUse

LOOPBACK = "127.0.0.1"
"""Only this machine may connect: two of the three emulators have no authentication."""
GRACE_SECONDS = 1.0
"""How long calls in flight may take to finish on shutdown. Only calls that are delayed on purpose take longer."""


def stop_signal() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets."""
    stopped = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)
    return stopped


@contextmanager
def storage_errors(path: Path, *, fix: str) -> Iterator[None]:
    """Report files that cannot be opened as errors of the command line; `fix` says what to do about it."""
    try:
        yield
    except DatabaseInUse as error:
        raise click.ClickException(str(error)) from None
    except (OSError, sqlite3.Error) as error:
        raise click.ClickException(f"{path} cannot be used: {error}; {fix}") from None


@contextmanager
def port_errors(option: str, port: int) -> Iterator[None]:
    """Report a port that cannot be bound, with the option that names another one."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise click.ClickException(f"port {port} cannot be used: {reason}; name another with {option}") from None
