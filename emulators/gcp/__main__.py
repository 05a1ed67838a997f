"""Command line `python -m emulators.gcp`: run the Google emulator until SIGINT or SIGTERM."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path

import click
from aiohttp import web

from emulators.command_line import GRACE_SECONDS, LOOPBACK, port_errors, stop_signal, storage_errors
from emulators.gcp.admin import AdminApi, errors_as_json
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_server import ComputeServer
from emulators.gcp.health import HealthServers
from emulators.gcp.interceptor import Interceptor
from emulators.gcp.queued_resources import QueuedResources
from emulators.gcp.store import GcpStore
from emulators.gcp.tpu_methods import TpuMethods
from emulators.gcp.tpu_server import TpuServer
from penstock.contract.addresses import GOOGLE_PORTS

_PORT = click.IntRange(0, 65535)
_COMPUTE_PORT, _TPU_PORT, _HEALTH_PORT = GOOGLE_PORTS


@click.command()
@click.option("--port", default=_COMPUTE_PORT, show_default=True, type=_PORT, help="Compute and /emulator; 0 picks a free port.")
@click.option("--grpc-port", default=_TPU_PORT, show_default=True, type=_PORT, help="TPU; 0 picks a free port.")
@click.option("--health-port", default=_HEALTH_PORT, show_default=True, type=_PORT, help="Health checks; 0 picks a free port.")
@click.option("--database", required=True, type=click.Path(path_type=Path), help="SQLite file; created if missing.")
def main(port: int, grpc_port: int, health_port: int, database: Path) -> None:
    """Run Google's TPU and Compute APIs on this machine. Their state is in the database and survives a crash."""
    with storage_errors(database, fix="name another file with --database"):
        store = GcpStore(database)
    _raise_socket_limit()
    try:
        asyncio.run(_serve(store, port, grpc_port, health_port))
    finally:
        store.close()


async def _serve(store: GcpStore, port: int, grpc_port: int, health_port: int) -> None:
    stopped = stop_signal()
    cloud = Cloud(store)
    queue, interceptor = QueuedResources(cloud), Interceptor(cloud)
    health = HealthServers(cloud, queue)
    tpu = TpuServer(TpuMethods(cloud, queue), interceptor)
    app = web.Application(middlewares=[errors_as_json])
    app.add_routes(AdminApi(cloud, queue, interceptor).routes() + ComputeServer(cloud, interceptor).routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE_SECONDS)
    async with AsyncExitStack() as running:
        await runner.setup()
        running.push_async_callback(runner.cleanup)
        with port_errors("--health-port", health_port):
            health_port = await health.start(health_port)
        running.push_async_callback(health.stop)
        with port_errors("--grpc-port", grpc_port):
            grpc_port = await tpu.start(LOOPBACK, grpc_port)
        running.push_async_callback(tpu.stop, GRACE_SECONDS)
        with port_errors("--port", port):
            await web.TCPSite(runner, LOOPBACK, port).start()
        port = runner.addresses[0][1]
        updates = asyncio.create_task(health.run())
        running.callback(updates.cancel)
        addresses = f"Compute on http://{LOOPBACK}:{port}, TPU on {LOOPBACK}:{grpc_port}, hosts on port {health_port}"
        click.echo(f"Google emulator: {addresses}")
        await asyncio.wait([asyncio.create_task(stopped.wait()), updates], return_when=asyncio.FIRST_COMPLETED)
        if updates.done():
            updates.result()


def _raise_socket_limit() -> None:
    """Raise the limit of open files to its maximum, because every healthy host has a listening socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
