"""`penstock drain`, `keep`, `cordon`, `pause`, `clear-block`, `restore` and others: an operator's commands to a cluster."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from penstock.cli.completion import complete_groups, complete_slices
from penstock.cli.connect import Target, at_cluster, at_server, cluster_options, json_option, perform, server_options
from penstock.cli.discovery import no_worker, pollers, task_queue
from penstock.cli.failures import CommandFailed
from penstock.cli.terminal import print_json
from penstock.contract.answers import Done
from penstock.contract.error_codes import ErrorCode
from penstock.model.units import parse_seconds

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_RESTORE_SECONDS = 300.0
"""Deadline for reading the history of the last run, which may have 50 MB."""


@click.command()
@click.argument("slice_id", metavar="SLICE", shell_complete=complete_slices)
@click.option("--cause", default="operator", show_default=True, help="Why; shown wherever the drain is.")
@click.option("--force", is_flag=True, help="Delete it at the deadline even if work is left on it.")
@click.option("--cancel", is_flag=True, help="Cancel its drain: the slice returns to READY.")
@json_option
@cluster_options
def drain(target: Target, slice_id: str, cause: str, force: bool, cancel: bool, as_json: bool) -> None:
    """It gets no new work, and is deleted once the controller confirms that it is empty.

    At the deadline a slice that is not empty returns to READY, unless the drain is forced. A drain can be cancelled until the
    slice is being deleted.
    """
    if cancel and force:
        raise click.UsageError("--cancel and --force exclude each other")
    if cancel:
        perform(_operate(target, lambda autoscaler: autoscaler.cancel_drain(slice_id), as_json=as_json))
    perform(_operate(target, lambda autoscaler: autoscaler.drain(slice_id, cause=cause, force=force), as_json=as_json))


@click.command()
@click.argument("slice_id", metavar="SLICE", shell_complete=complete_slices)
@click.option("--for", "duration", metavar="DURATION", help="Keep it for this time from now on, such as 2h.")
@click.option("--off", is_flag=True, help="Keep it no longer.")
@json_option
@cluster_options
def keep(target: Target, slice_id: str, duration: str | None, off: bool, as_json: bool) -> None:
    """No decision drains it until then, whether it is idle, above a maximum or of a removed group.

    Notices of the cloud, losses and `penstock drain` are not held up.
    """
    if off == (duration is not None):
        raise click.UsageError("give --for, such as --for 2h, or --off")
    perform(_keep(target, slice_id, duration, as_json=as_json))


@click.command()
@click.argument("slice_id", metavar="SLICE", shell_complete=complete_slices)
@json_option
@cluster_options
def cordon(target: Target, slice_id: str, as_json: bool) -> None:
    """What runs there goes on. The slice counts as in use until `penstock uncordon`, so it is not given back meanwhile."""
    perform(_operate(target, lambda autoscaler: autoscaler.cordon_slice(slice_id), as_json=as_json))


@click.command()
@click.argument("slice_id", metavar="SLICE", shell_complete=complete_slices)
@json_option
@cluster_options
def uncordon(target: Target, slice_id: str, as_json: bool) -> None:
    """Ends a cordon."""
    perform(_operate(target, lambda autoscaler: autoscaler.uncordon_slice(slice_id), as_json=as_json))


@click.command()
@click.argument("reason", default="")
@json_option
@cluster_options
def pause(target: Target, reason: str, as_json: bool) -> None:
    """Status shows the REASON. Demand and usage are still accepted, and evaluated after the resume."""
    perform(_operate(target, lambda autoscaler: autoscaler.pause(reason), as_json=as_json))


@click.command()
@json_option
@cluster_options
def resume(target: Target, as_json: bool) -> None:
    """Ends a pause. Demand reported meanwhile is evaluated at once."""
    perform(_operate(target, lambda autoscaler: autoscaler.resume(), as_json=as_json))


@click.command("clear-block")
@click.argument("group", required=False, shell_complete=complete_groups)
@json_option
@cluster_options
def clear_block(target: Target, group: str | None, as_json: bool) -> None:
    """Removes the blocks of a GROUP, or of all groups, and resets their failure counts."""
    perform(_operate(target, lambda autoscaler: autoscaler.clear_block(group), as_json=as_json))


@click.command()
@click.argument("cluster")
@json_option
@server_options
def restore(target: Target, cluster: str, as_json: bool) -> None:
    """For a CLUSTER whose autoscaler was terminated, cancelled or failed, while Temporal still has its history.

    Its configuration, pause, standing requests, blocks and demand are those of its last run. Existing slices are found before
    anything is launched.
    """
    perform(_restore(target, cluster, as_json=as_json))


async def _restore(target: Target, cluster: str, *, as_json: bool) -> int:
    from penstock.client import AutoscalerClient

    async with at_server(target, seconds=_RESTORE_SECONDS, ordering=True) as client:
        state = await AutoscalerClient(client, cluster, task_queue=task_queue()).restore()
        if not await pollers(client):
            no_worker(client).warn()
    paused = "" if state.paused is None else "; it is still paused: penstock resume"
    done = Done(
        message=f"Restored with configuration revision {state.config_revision}{paused}", config_revision=state.config_revision
    )
    if as_json:
        print_json(done)
    else:
        print_done(cluster, done)
    return 0


async def _keep(target: Target, slice_id: str, duration: str | None, *, as_json: bool) -> int:
    seconds = None if duration is None else duration_seconds(duration)
    return await _operate(target, lambda autoscaler: autoscaler.keep_slice(slice_id, seconds), as_json=as_json)


async def _operate(target: Target, operation: "Callable[[AutoscalerClient], Awaitable[Done]]", *, as_json: bool) -> int:
    async with at_cluster(target, ordering=True) as autoscaler:
        done = await operation(autoscaler)
    if as_json:
        print_json(done)
    else:
        print_done(autoscaler.cluster, done)
    return 0


def duration_seconds(text: str, option: str = "--for") -> float:
    """The seconds of an option."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}", code=ErrorCode.BAD_INPUT) from None


def print_done(cluster: str, done: Done) -> None:
    """Print the autoscaler's answer."""
    click.echo(f"{cluster}: {done.message.rstrip('.')}.")
