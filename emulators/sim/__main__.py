"""`python -m emulators.sim`: run the simulated cloud until it is stopped."""

import asyncio
import signal
import sqlite3
from pathlib import Path

import click
from aiohttp import web

from emulators.database import DatabaseInUse
from emulators.sim.behaviour import Scenario, load_scenario
from emulators.sim.server import application
from emulators.sim.store import Store
from penstock.config.problems import BadInput
from penstock.contract.addresses import SIM_PORT

HOST = "127.0.0.1"
"""Nobody but this machine: the cloud has no passwords."""
_GRACE_SECONDS = 1.0
"""For calls under way when the cloud is stopped: all but those held back on purpose end within it."""


@click.command()
@click.option("--port", default=SIM_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--database", required=True, type=click.Path(path_type=Path), help="SQLite file; made if missing.")
@click.option("--scenario", type=click.Path(path_type=Path), help="YAML file: how each zone behaves.")
def main(port: int, database: Path, scenario: Path | None) -> None:
    """Run a simulated cloud on this machine; what it holds is in the database and survives a crash."""
    try:
        told = Scenario() if scenario is None else load_scenario(scenario)
        store = Store(database)
        store.begin(told)
    except (BadInput, DatabaseInUse) as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"{database} cannot be used: {error}; name another file with --database") from None
    try:
        asyncio.run(_serve(store, port))
    finally:
        store.close()


async def _serve(store: Store, port: int) -> None:
    stopped = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)
    runner = web.AppRunner(application(store), access_log=None, shutdown_timeout=_GRACE_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError as error:
        await runner.cleanup()
        raise click.ClickException(f"port {port} cannot be used: {error.strerror}; name another with --port") from None
    click.echo(f"simulated cloud on http://{HOST}:{runner.addresses[0][1]}")
    await stopped.wait()
    await runner.cleanup()


if __name__ == "__main__":
    main()
