"""Command line `python -m emulators.sim`: run the simulated cloud until SIGINT or SIGTERM."""

import asyncio
from pathlib import Path

import click
from aiohttp import web

from emulators.command_line import GRACE_SECONDS, LOOPBACK, port_errors, stop_signal, storage_errors
from emulators.sim.behaviour import Scenario, load_scenario
from emulators.sim.server import application
from emulators.sim.store import SimStore
from penstock.config.problems import BadInput
from penstock.contract.addresses import SIM_PORT


@click.command()
@click.option("--port", default=SIM_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free port.")
@click.option("--database", required=True, type=click.Path(path_type=Path), help="SQLite file; created if missing.")
@click.option("--scenario", type=click.Path(path_type=Path), help="YAML file with the behaviour of each zone.")
def main(port: int, database: Path, scenario: Path | None) -> None:
    """Run a simulated cloud on this machine. Its state is in the database and survives a crash."""
    try:
        loaded = Scenario() if scenario is None else load_scenario(scenario)
    except BadInput as error:
        raise click.ClickException(str(error)) from None
    with storage_errors(database, fix="name another file with --database"):
        store = SimStore(database)
        store.use_scenario(loaded)
    try:
        asyncio.run(_serve(store, port))
    finally:
        store.close()


async def _serve(store: SimStore, port: int) -> None:
    stopped = stop_signal()
    runner = web.AppRunner(application(store), access_log=None, shutdown_timeout=GRACE_SECONDS)
    await runner.setup()
    try:
        with port_errors("--port", port):
            await web.TCPSite(runner, LOOPBACK, port).start()
        click.echo(f"simulated cloud on http://{LOOPBACK}:{runner.addresses[0][1]}")
        await stopped.wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    main()
