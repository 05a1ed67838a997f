"""Exit codes of `python -m worker` and `python -m embedded`, and how their processes end."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, NoReturn

import click

from penstock.config.problems import BadInput
from penstock.connection import BadConnection
from penstock.exits import finish
from worker.serving import Unreachable
from worker.settings import BadSettings

FAILED = 1
"""A server process of `python -m embedded` did not start, or ended."""
STUCK = 75
"""The worker cannot take up a workflow run again; a new process can. The number is EX_TEMPFAIL of sysexits.h: try again."""
MISUSED = 2
"""A setting, an option or a file is wrong, or no Temporal server answers."""
INTERRUPTED = 128 + signal.SIGINT
"""Ctrl-C, after an orderly stop; the shell's own convention. SIGTERM and SIGHUP end with 0: a supervisor requested the stop."""
_MISUSES = (BadSettings, BadConnection, BadInput, Unreachable)


def run_and_exit(work: Coroutine[Any, Any, signal.Signals], *, failures: tuple[type[Exception], ...] = ()) -> NoReturn:
    """Run the work until a signal stops it, then exit. `failures` are exceptions that exit with `FAILED`."""
    try:
        stopped_by = asyncio.run(work)
    except _MISUSES as error:
        fail(error, MISUSED)
    except failures as error:
        fail(error, FAILED)
    finish(INTERRUPTED if stopped_by is signal.SIGINT else 0)


def fail(error: BaseException, code: int) -> NoReturn:
    """Print an error and end the process."""
    click.echo(f"error: {error}", err=True)
    finish(code)
