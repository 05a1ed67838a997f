"""`python -m worker`: run workflows and activities until stopped; with `--embedded`, everything they need as well."""

import signal

if __name__ == "__main__":
    # Ctrl-C while all of this is imported ends the process without a word; what runs later has handlers of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

import click

from penstock.config.problems import BadInput
from penstock.connection import BadConnection
from penstock.contract.addresses import TEMPORAL_PORT, TEMPORAL_UI_PORT
from worker.children import Ended, StartFailed
from worker.guidance import EXAMPLE_DEMAND
from worker.home import DEFAULT_HOME, BadHome, Home
from worker.serving import Unreachable, connected, stop_event, working
from worker.settings import BadSettings, Settings, settings_from
from worker.telemetry import configure_runtime, log_to

EXAMPLE_CLUSTER = Path("examples/cluster.yaml")
EXAMPLE_SCENARIO = Path("examples/sim.yaml")
GCP_EMULATOR = "gcp-emulator"
GCP_CLUSTER, GCP_DEMAND = Path("examples/cluster-gcp.yaml"), Path("examples/demand-gcp.json")
GCP_HOME = DEFAULT_HOME / GCP_EMULATOR
"""Beside the other example's data: neither finds clouds there that only the other one starts."""
_WRONG, _MISUSED = 1, 2


def _demand_for(cluster: Path) -> Path | None:
    """Tasks that fit the cluster, if it is one of the examples."""
    known = {EXAMPLE_CLUSTER.resolve(): EXAMPLE_DEMAND, GCP_CLUSTER.resolve(): GCP_DEMAND}
    return known.get(cluster.resolve())


@click.command()
@click.option("--embedded", is_flag=True, help="Start a Temporal server, a cloud and a cluster as well.")
@click.option(
    "--provider",
    type=click.Choice(["sim", GCP_EMULATOR]),
    default="sim",
    show_default=True,
    help="Which example is run; with gcp-emulator, Google's clouds are emulated here.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Where they keep everything. [default: {DEFAULT_HOME}; with gcp-emulator {GCP_HOME}]",
)
@click.option(
    "--cluster-file",
    type=click.Path(path_type=Path),
    help=f"The cluster to start. [default: {EXAMPLE_CLUSTER}; with gcp-emulator {GCP_CLUSTER}]",
)
@click.option(
    "--scenario",
    type=click.Path(path_type=Path),
    help=f"How the simulated cloud behaves. [default: {EXAMPLE_SCENARIO}, if there]",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=TEMPORAL_PORT,
    show_default=True,
    help="The server's; a free one if it is taken.",
)
@click.option(
    "--ui-port",
    type=click.IntRange(1, 65535),
    default=TEMPORAL_UI_PORT,
    show_default=True,
    help="The UI's; a free one if it is taken.",
)
def main(
    *,
    embedded: bool,
    provider: str,
    data: Path | None,
    cluster_file: Path | None,
    scenario: Path | None,
    port: int,
    ui_port: int,
) -> None:
    """Run Penstock's workflows and activities until stopped.

    The server is found as Temporal's own tools find it: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, … With --embedded
    there is one on this machine for as long as this process lives.
    """
    try:
        settings = settings_from()
        configure_runtime(settings)
    except BadSettings as error:
        _fail(error, _MISUSED)
    if not embedded:
        log_to(None)
        _perform(_serve(settings))
    from worker.embedded import Options, run_embedded

    told = scenario or (EXAMPLE_SCENARIO if EXAMPLE_SCENARIO.exists() else None)
    emulated = provider == GCP_EMULATOR
    cluster = cluster_file or (GCP_CLUSTER if emulated else EXAMPLE_CLUSTER)
    options = Options(
        Home(data or (GCP_HOME if emulated else DEFAULT_HOME)),
        cluster,
        told,
        emulated=emulated,
        demand_file=_demand_for(cluster),
        port=port,
        ui_port=ui_port,
    )
    _perform(run_embedded(options, settings))


async def _serve(settings: Settings) -> None:
    """Work for the configured server until told to stop, then finish what is under way."""
    stopped = stop_event()
    client = await connected()
    async with working(client, settings):
        click.echo(f"worker ready on task queue {settings.task_queue} at {client.service_client.config.target_host}")
        await stopped.wait()
    click.echo("worker stopped")


def _perform(work: Coroutine[Any, Any, None]) -> NoReturn:
    """Do it, and end the process at once: the SDK's own threads crash interpreters that take their time (sdk-python#300)."""
    try:
        asyncio.run(work)
    except (BadSettings, BadConnection, BadInput, BadHome, Unreachable) as error:
        _fail(error, _MISUSED)
    except (StartFailed, Ended) as error:
        _fail(error, _WRONG)
    _finish(0)


def _fail(error: Exception, code: int) -> NoReturn:
    click.echo(f"error: {error}", err=True)
    _finish(code)


def _finish(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
