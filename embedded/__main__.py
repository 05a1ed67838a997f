"""`python -m embedded`: a Temporal server, emulated clouds, a worker and a cluster in one command; `make run` calls it."""

import signal

if __name__ == "__main__":
    # Ctrl-C during the imports below ends the process without a traceback; `stop_signal` installs its own handlers later.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from pathlib import Path
from typing import NamedTuple

import click

from embedded.data_dir import DataDir
from embedded.launcher import Options, launch
from embedded.processes import Ended, StartFailed
from penstock.contract.addresses import TEMPORAL_PORT, TEMPORAL_UI_PORT
from penstock.local_service import DATA_DIR, GCP_DATA_DIR
from worker.exits import MISUSED, fail, run_and_exit
from worker.settings import BadSettings, settings_from
from worker.telemetry import configure_runtime

SIM, GCP_EMULATOR = "sim", "gcp-emulator"


class _Example(NamedTuple):
    """What `--provider` chooses: a cluster, a data directory, demand that suits it, and a controller that runs its tasks."""

    cluster: Path
    demand: Path
    data_dir: Path
    controller: Path | None = None


_EXAMPLES = {
    SIM: _Example(Path("examples/cluster.yaml"), Path("examples/demand.json"), DATA_DIR, Path("examples/controller.py")),
    GCP_EMULATOR: _Example(Path("examples/cluster-gcp.yaml"), Path("examples/demand-gcp.json"), GCP_DATA_DIR),
}
_SCENARIO = Path("examples/sim.yaml")


def _default(of: str) -> str:
    return f"[default: {getattr(_EXAMPLES[SIM], of)}; with gcp-emulator {getattr(_EXAMPLES[GCP_EMULATOR], of)}]"


@click.command()
@click.option(
    "--provider",
    type=click.Choice(list(_EXAMPLES)),
    default=SIM,
    show_default=True,
    help="The example to run: on a simulated cloud, or on an emulator of Google's clouds.",
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help=f"Directory for databases and logs. {_default('data_dir')}"
)
@click.option("--cluster-file", type=click.Path(path_type=Path), help=f"The cluster to start. {_default('cluster')}")
@click.option(
    "--scenario",
    type=click.Path(path_type=Path),
    help=f"How the simulated cloud behaves. [default: {_SCENARIO}, if the file exists]",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=TEMPORAL_PORT,
    show_default=True,
    help="Port of the Temporal server; a free one if it is taken.",
)
@click.option(
    "--ui-port",
    type=click.IntRange(1, 65535),
    default=TEMPORAL_UI_PORT,
    show_default=True,
    help="Port of the Temporal UI; a free one if it is taken.",
)
def main(*, provider: str, data: Path | None, cluster_file: Path | None, scenario: Path | None, port: int, ui_port: int) -> None:
    """Run Penstock with everything that it needs on this machine, until stopped.

    Exit codes: 0 after SIGTERM, 130 after Ctrl-C, 1 if a server process fails, 2 if an option, a setting or a file is wrong,
    75 if the worker is stuck and must be started again.
    """
    try:
        settings = settings_from()
        configure_runtime(settings)
    except BadSettings as error:
        fail(error, MISUSED)
    example = _EXAMPLES[provider]
    cluster = cluster_file or example.cluster
    suited = _example_of(cluster)
    options = Options(
        DataDir(data or example.data_dir),
        cluster,
        scenario or (_SCENARIO if _SCENARIO.exists() else None),
        emulate_google=provider == GCP_EMULATOR,
        demand_file=suited and suited.demand,
        controller=suited and suited.controller,
        port=port,
        ui_port=ui_port,
    )
    run_and_exit(launch(options, settings), failures=(StartFailed, Ended))


def _example_of(cluster: Path) -> _Example | None:
    """The example that the cluster is of, if it is of one."""
    return next((example for example in _EXAMPLES.values() if example.cluster.resolve() == cluster.resolve()), None)


if __name__ == "__main__":
    main()
