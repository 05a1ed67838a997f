"""`python -m emulators.gcp`: run Google's TPU and Compute APIs on this machine until stopped."""

import asyncio
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import click
from aiohttp import web

from emulators.database import DatabaseInUse
from emulators.gcp.admin import Admin, tell_refusals
from emulators.gcp.calls import Calls
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_server import ComputeServer
from emulators.gcp.hosts import Hosts
from emulators.gcp.queueing import Queueing
from emulators.gcp.store import Store
from emulators.gcp.tpu import TpuCalls
from emulators.gcp.tpu_server import TpuServer
from penstock.contract.addresses import GOOGLE_PORTS

HOST = "127.0.0.1"
"""Nobody but this machine: the cloud has no passwords."""
_GRACE_SECONDS = 1.0
"""For calls under way when the cloud is stopped: all but those held back on purpose end within it."""
_PORT = click.IntRange(0, 65535)
_COMPUTE_PORT, _TPU_PORT, _HOSTS_PORT = GOOGLE_PORTS


@click.command()
@click.option("--port", default=_COMPUTE_PORT, show_default=True, type=_PORT, help="Compute and /emulator; 0 takes a free one.")
@click.option("--grpc-port", default=_TPU_PORT, show_default=True, type=_PORT, help="TPU; 0 takes a free one.")
@click.option("--health-port", default=_HOSTS_PORT, show_default=True, type=_PORT, help="Hosts; 0 takes a free one.")
@click.option("--database", required=True, type=click.Path(path_type=Path), help="SQLite file; made if missing.")
def main(port: int, grpc_port: int, health_port: int, database: Path) -> None:
    """Run Google's TPU and Compute APIs on this machine; what they hold is in the database and survives a crash."""
    try:
        store = Store(database)
    except DatabaseInUse as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"{database} cannot be used: {error}; name another file with --database") from None
    _allow_many_sockets()
    try:
        asyncio.run(_serve(store, port, grpc_port, health_port))
    finally:
        store.close()


async def _serve(store: Store, port: int, grpc_port: int, health_port: int) -> None:
    stopped = asyncio.Event()
    for kind in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)
    cloud, counted = Cloud(store), Calls()
    queueing = Queueing(cloud)
    hosts = Hosts(cloud, queueing)
    tpu = TpuServer(cloud, TpuCalls(cloud, queueing), counted)
    app = web.Application(middlewares=[tell_refusals])
    app.add_routes(Admin(cloud, queueing, counted).routes() + ComputeServer(cloud, counted).routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE_SECONDS)
    async with AsyncExitStack() as running:
        await runner.setup()
        running.push_async_callback(runner.cleanup)
        with _named("--health-port", health_port):
            health_port = await hosts.start(health_port)
        running.push_async_callback(hosts.stop)
        with _named("--grpc-port", grpc_port):
            grpc_port = await tpu.start(HOST, grpc_port)
        running.push_async_callback(tpu.stop, _GRACE_SECONDS)
        with _named("--port", port):
            await web.TCPSite(runner, HOST, port).start()
        port = runner.addresses[0][1]
        following = asyncio.create_task(hosts.run())
        running.callback(following.cancel)
        click.echo(f"Google emulator: Compute on http://{HOST}:{port}, TPU on {HOST}:{grpc_port}, hosts on port {health_port}")
        await asyncio.wait([asyncio.create_task(stopped.wait()), following], return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()


def _allow_many_sockets() -> None:
    """As many as the machine lets us: every host listens on one of its own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def _named(option: str, port: int) -> Iterator[None]:
    """Name the option whose port cannot be had."""
    try:
        yield
    except OSError as error:
        told = error.strerror or error
        raise click.ClickException(f"port {port} cannot be used: {told}; name another with {option}") from None


if __name__ == "__main__":
    main()
