"""Command line `python -m emulators.local`: run the daemon of local hosts until SIGINT or SIGTERM."""

import asyncio
import os
import secrets
from pathlib import Path

import click
from aiohttp import web

from emulators.command_line import GRACE_SECONDS, LOOPBACK, port_errors, stop_signal, storage_errors
from emulators.local.reconciler import Reconciler
from emulators.local.server import application
from emulators.local.store import LocalStore
from penstock.contract.addresses import LOCAL_PORT

DEFAULT_GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL; the default of container runtimes."""
TOKEN_FILE = "token"  # noqa: S105 - the name of the file, not a secret
_OWNER_ONLY = 0o700


@click.command()
@click.option("--port", default=LOCAL_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free port.")
@click.option("--state", required=True, type=click.Path(path_type=Path, file_okay=False), help="Directory; created if missing.")
@click.option("--stop-hosts", is_flag=True, help="Stop every host before the daemon exits.")
@click.option(
    "--grace",
    default=DEFAULT_GRACE_SECONDS,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds between SIGTERM and SIGKILL.",
)
def main(port: int, state: Path, *, stop_hosts: bool, grace: float) -> None:
    """Run slices of host processes on this machine. The state directory holds their record and survives a crash."""
    with storage_errors(state, fix="name another directory with --state"):
        logs = state / "logs"
        for directory in (state, logs):
            directory.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        state.chmod(_OWNER_ONLY)
        store = LocalStore(state / "slices.sqlite")
        token = _token(state / TOKEN_FILE)
    reconciler = Reconciler(store, logs=logs, grace_seconds=grace)
    try:
        asyncio.run(_serve(store, reconciler, port=port, token=token, stop_hosts=stop_hosts))
    finally:
        store.close()


async def _serve(store: LocalStore, reconciler: Reconciler, *, port: int, token: str, stop_hosts: bool) -> None:
    stopped, shut_down = stop_signal(), asyncio.Event()

    def on_shutdown() -> None:
        shut_down.set()
        stopped.set()

    app = application(store, reconciler, token=token, on_shutdown=on_shutdown)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE_SECONDS)
    await runner.setup()
    await reconciler.start()
    try:
        with port_errors("--port", port):
            await web.TCPSite(runner, LOOPBACK, port).start()
        click.echo(f"local hosts on http://{LOOPBACK}:{runner.addresses[0][1]}")
        await stopped.wait()
        await runner.cleanup()
        if stop_hosts or shut_down.is_set():
            await reconciler.stop_hosts()
    finally:
        await runner.cleanup()
        await reconciler.stop()


def _token(path: Path) -> str:
    """The bearer token of callers: generated once, readable by the owner only."""
    if not path.exists():
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex())
        fresh.rename(path)
    return path.read_text().strip()


if __name__ == "__main__":
    main()
