"""`python -m emulators.local`: own hosts on this machine until stopped, and leave them running then or not."""

import asyncio
import os
import secrets
import signal
import sqlite3
from pathlib import Path

import click
from aiohttp import web

from emulators.database import DatabaseInUse
from emulators.local.health import HOST
from emulators.local.keeper import Keeper
from emulators.local.server import application
from emulators.local.store import Store
from penstock.contract.addresses import LOCAL_PORT

DEFAULT_GRACE_SECONDS = 10.0
"""As long as container runtimes give what they stop."""
TOKEN_FILE = "token"  # noqa: S105 - where it is, not what it is
_STOP_SECONDS = 1.0
"""For calls under way when the daemon is stopped: all but those held back on purpose end within it."""
_OWNER_ONLY = 0o700


@click.command()
@click.option("--port", default=LOCAL_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--state", required=True, type=click.Path(path_type=Path, file_okay=False), help="Directory; made if missing.")
@click.option("--stop-hosts", is_flag=True, help="When stopped, end every host first.")
@click.option(
    "--grace",
    default=DEFAULT_GRACE_SECONDS,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds to end before SIGKILL.",
)
def main(port: int, state: Path, *, stop_hosts: bool, grace: float) -> None:
    """Own slices of host processes on this machine; what is owned is in the state directory and survives a crash."""
    try:
        logs = state / "logs"
        for directory in (state, logs):
            directory.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        state.chmod(_OWNER_ONLY)
        store = Store(state / "slices.sqlite")
        token = _token(state / TOKEN_FILE)
    except DatabaseInUse as error:
        raise click.ClickException(str(error)) from None
    except (OSError, sqlite3.Error) as error:
        raise click.ClickException(f"{state} cannot be used: {error}; name another directory with --state") from None
    try:
        asyncio.run(_serve(store, Keeper(store, logs=logs, grace_seconds=grace), port=port, token=token, stop_hosts=stop_hosts))
    finally:
        store.close()


async def _serve(store: Store, keeper: Keeper, *, port: int, token: str, stop_hosts: bool) -> None:
    stopped, shut_down = asyncio.Event(), asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)

    def leave_nothing() -> None:
        shut_down.set()
        stopped.set()

    app = application(store, keeper, token=token, shut_down=leave_nothing)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    await keeper.begin()
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError as error:
        await runner.cleanup()
        await keeper.end()
        raise click.ClickException(f"port {port} cannot be used: {error.strerror}; name another with --port") from None
    click.echo(f"local hosts on http://{HOST}:{runner.addresses[0][1]}")
    await stopped.wait()
    await runner.cleanup()
    if stop_hosts or shut_down.is_set():
        await keeper.end_all()
    await keeper.end()


def _token(path: Path) -> str:
    """The word that callers must know, drawn once and readable by the owner alone."""
    if not path.exists():
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex())
        fresh.rename(path)
    return path.read_text().strip()


if __name__ == "__main__":
    main()
