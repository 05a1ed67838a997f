"""`penstock config`: apply, show and compare a cluster's configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.connect import Target, at_cluster, at_server, cluster_options, json_option, perform, server_options
from penstock.cli.discovery import no_worker, pollers, task_queue
from penstock.cli.failures import EXIT_DIFFERS, CommandFailed, print_problems
from penstock.cli.operations import print_done
from penstock.cli.render_config import changes_view, config_text
from penstock.cli.render_effects import effects_view
from penstock.cli.terminal import print_json, print_json_data, terminal
from penstock.config.cluster import load_cluster
from penstock.contract.answers import Done
from penstock.contract.error_codes import ErrorCode
from penstock.model.cluster import ClusterConfig
from penstock.model.config_diff import Change, config_changes

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def config() -> None:
    """A configuration is a file such as examples/cluster.yaml: docs/files.md lists its keys."""


@config.command()
@click.argument("file", type=_FILE)
@json_option
@server_options
def apply(target: Target, file: Path, as_json: bool) -> None:
    """Apply the configuration of FILE and print the changes.

    A cluster that does not run is started.
    """
    perform(_apply(target, file, as_json=as_json))


@config.command()
@json_option
@cluster_options
def show(target: Target, as_json: bool) -> None:
    """Print the active configuration as YAML.

    The file can be applied again. Defaults are omitted.
    """
    perform(_show(target, as_json=as_json))


@config.command()
@click.argument("file", type=_FILE)
@json_option
@server_options
def diff(target: Target, file: Path, as_json: bool) -> None:
    """Print what applying FILE would change, and launch or drain now.

    Exit status: 0 if nothing, 1 if something.
    """
    perform(_diff(target, file, as_json=as_json))


def _loaded(file: Path) -> ClusterConfig:
    loaded = load_cluster(file)
    print_problems(loaded.warnings, "warning")
    return loaded.config


async def _apply(target: Target, file: Path, *, as_json: bool) -> int:
    from penstock.client import AutoscalerClient, NoSuchCluster

    wanted = _loaded(file)
    changes: tuple[Change, ...] = ()
    async with at_server(target, ordering=True) as client:
        autoscaler = AutoscalerClient(client, wanted.cluster, task_queue=task_queue())
        try:
            before = (await autoscaler.dump()).config
            done = await autoscaler.apply_config(wanted)
            changes = config_changes(before, wanted) if before is not None else ()
        except NoSuchCluster:
            await autoscaler.start(wanted)
            done = Done(message="Started the cluster", config_revision=1)
            if not await pollers(client):
                no_worker(client).warn()
    if as_json:
        print_json(done, changes=_as_json(changes))
        return 0
    print_done(wanted.cluster, done)
    if changes:
        terminal().print(changes_view(changes))
    click.echo(f"Next: penstock status --cluster {wanted.cluster}")
    return 0


async def _show(target: Target, *, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        active = await _active(autoscaler)
    if as_json:
        print_json(active)
    else:
        click.echo(config_text(active), nl=False)
    return 0


async def _diff(target: Target, file: Path, *, as_json: bool) -> int:
    wanted = _loaded(file)
    async with at_cluster(target._replace(cluster=wanted.cluster)) as autoscaler:
        changes = config_changes(await _active(autoscaler), wanted)
        effects = await autoscaler.preview(wanted) if changes else None
    if as_json:
        print_json_data({"changes": _as_json(changes), "effects": effects and effects.model_dump(mode="json")})
    elif effects is not None:
        terminal().print(changes_view(changes))
        terminal().print(effects_view(effects))
    else:
        click.echo(f"Applying {file} would change nothing.")
    return EXIT_DIFFERS if changes else 0


def _as_json(changes: Sequence[Change]) -> list[Any]:
    return [change._asdict() for change in changes]


async def _active(autoscaler: "AutoscalerClient") -> ClusterConfig:
    """The configuration that the cluster runs with."""
    config = (await autoscaler.dump()).config
    if config is None:
        raise CommandFailed(f"cluster {autoscaler.cluster} has no configuration yet", code=ErrorCode.REFUSED)
    return config
