"""`penstock demand`: submit, show and clear the pending tasks of a source, and forget a source that is gone."""

from pathlib import Path

import click

from penstock.cli.connect import Target, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import CommandFailed
from penstock.cli.render_demand import demand_view, source_details
from penstock.cli.terminal import print_json, print_json_data, terminal
from penstock.config.demand import load_demand
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import DEFAULT_SOURCE
from penstock.model.demand import Demand
from penstock.wording import counted, did_you_mean

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_SOURCE = click.option("--source", default=DEFAULT_SOURCE, show_default=True, help="Source of the demand; sources add up.")


@click.group()
def demand() -> None:
    """Demand is the list of pending tasks of a source, most urgent first. The demand of all sources adds up."""


@demand.command()
@click.argument("file", type=_FILE)
@_SOURCE
@json_option
@cluster_options
def submit(target: Target, file: Path, source: str, as_json: bool) -> None:
    """Submit the tasks of FILE, or of standard input for -.

    They replace the source's earlier demand. The file is JSON or YAML as for `penstock plan`: docs/files.md.
    """
    perform(_submit(target, file, source, as_json=as_json))


@demand.command()
@click.option("--source", help="Only this source.")
@json_option
@cluster_options
def show(target: Target, source: str | None, as_json: bool) -> None:
    """Show the demand of each source.

    That is the demand that the autoscaler holds: epoch, revision, tasks, gangs and shapes.
    """
    perform(_show(target, source, as_json=as_json))


@demand.command()
@_SOURCE
@json_option
@cluster_options
def clear(target: Target, source: str, as_json: bool) -> None:
    """Clear the demand of a source."""
    perform(_clear(target, source, as_json=as_json))


@demand.command()
@click.argument("source", metavar="SOURCE")
@json_option
@cluster_options
def forget(target: Target, source: str, as_json: bool) -> None:
    """Forget a source that is gone.

    Its demand ends, and what it reported about slices is withdrawn. A source that reports again is a new one.
    """
    perform(_forget(target, source, as_json=as_json))


async def _submit(target: Target, file: Path, source: str, *, as_json: bool) -> int:
    tasks = load_demand(file)
    async with at_cluster(target, ordering=True) as autoscaler:
        accepted = await autoscaler.submit_demand(tasks, source=source)
    if as_json:
        print_json(accepted)
    else:
        stamp = f"epoch {accepted.epoch}, revision {accepted.revision}"
        click.echo(f"Accepted {counted(len(tasks.task_ids), 'task')} of source {accepted.source}: {stamp}.")
        click.echo("Next: penstock status --watch, penstock decision, penstock explain TASK")
    return 0


async def _show(target: Target, source: str | None, *, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        held = (await autoscaler.dump()).demand
    if source is not None and source not in held:
        hint = did_you_mean(source, sorted(held), noun="sources")
        raise CommandFailed(f"there is no demand of source {source!r}; {hint}", code=ErrorCode.BAD_INPUT)
    details = [source_details(name, held[name]) for name in sorted(held) if source in (None, name)]
    if as_json:
        sources = [each.model_dump(mode="json") for each in details]
        print_json_data({"cluster": autoscaler.cluster, "sources": sources})
    else:
        terminal().print(demand_view(details))
    return 0


async def _clear(target: Target, source: str, *, as_json: bool) -> int:
    async with at_cluster(target, ordering=True) as autoscaler:
        accepted = await autoscaler.submit_demand(Demand(), source=source)
    if as_json:
        print_json(accepted)
    else:
        click.echo(f"Cleared demand of source {source}: epoch {accepted.epoch}, revision {accepted.revision}.")
    return 0


async def _forget(target: Target, source: str, *, as_json: bool) -> int:
    async with at_cluster(target, ordering=True) as autoscaler:
        done = await autoscaler.forget_source(source)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{autoscaler.cluster}: {done.message}.")
    return 0
