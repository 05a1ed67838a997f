"""`penstock config`: apply, show and compare a cluster's configuration."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.connect import Reach, at_cluster, at_server, cluster_options, json_option, perform, server_options
from penstock.cli.failures import EXIT_DIFFERS, EXIT_REFUSED, CommandFailed, tell_problems
from penstock.cli.presence import no_worker, pollers, task_queue
from penstock.cli.render_config import changes_between, changes_view, config_text
from penstock.cli.screen import print_json, screen
from penstock.config.cluster import load_cluster
from penstock.contract.answers import Done
from penstock.model.cluster import ClusterConfig

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(short_help="Apply, show or compare a cluster's configuration.")
def config() -> None:
    """Apply, show or compare a cluster's configuration."""


@config.command()
@click.argument("file", type=_FILE)
@json_option
@server_options
def apply(reach: Reach, file: Path, as_json: bool) -> None:
    """Apply the configuration of FILE; a cluster that does not run is started."""
    perform(_apply(reach, file, as_json=as_json))


@config.command()
@json_option
@cluster_options
def show(reach: Reach, as_json: bool) -> None:
    """Print the configuration that holds, as YAML that can be applied again."""
    perform(_show(reach, as_json=as_json))


@config.command()
@click.argument("file", type=_FILE)
@json_option
@server_options
def diff(reach: Reach, file: Path, as_json: bool) -> None:
    """Show what applying FILE would change, field by field.

    Exit status: 0 if nothing, 1 if something.
    """
    perform(_diff(reach, file, as_json=as_json))


def _loaded(file: Path) -> ClusterConfig:
    loaded = load_cluster(file)
    tell_problems(loaded.warnings, "warning")
    return loaded.config


async def _apply(reach: Reach, file: Path, *, as_json: bool) -> int:
    from penstock.client import AutoscalerClient, NoSuchCluster

    wanted = _loaded(file)
    async with at_server(reach, ordering=True) as client:
        autoscaler = AutoscalerClient(client, wanted.cluster, task_queue=task_queue())
        try:
            done = await autoscaler.apply_config(wanted)
        except NoSuchCluster:
            await autoscaler.start(wanted)
            done = Done(message="the cluster is started", config_revision=1)
            if not await pollers(client):
                no_worker(client).tell("warning")
    if as_json:
        print_json(done)
    else:
        click.echo(f"{wanted.cluster}: {done.message}.")
        click.echo(f"See how it is: penstock status --cluster {wanted.cluster}")
    return 0


async def _show(reach: Reach, *, as_json: bool) -> int:
    async with at_cluster(reach) as autoscaler:
        held = await _held(autoscaler)
    if as_json:
        print_json(held)
    else:
        click.echo(config_text(held), nl=False)
    return 0


async def _diff(reach: Reach, file: Path, *, as_json: bool) -> int:
    wanted = _loaded(file)
    async with at_cluster(reach._replace(cluster=wanted.cluster)) as autoscaler:
        changes = changes_between(await _held(autoscaler), wanted)
    if as_json:
        click.echo(json.dumps({"changes": [change._asdict() for change in changes]}, indent=2, ensure_ascii=False))
    elif changes:
        screen().print(changes_view(changes))
    else:
        click.echo(f"Applying {file} would change nothing.")
    return EXIT_DIFFERS if changes else 0


async def _held(autoscaler: "AutoscalerClient") -> ClusterConfig:
    """The configuration that holds now."""
    config = (await autoscaler.dump()).config
    if config is None:
        raise CommandFailed(f"cluster {autoscaler.cluster} has no configuration yet", code=EXIT_REFUSED)
    return config
