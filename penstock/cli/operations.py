"""`penstock drain`, `pause`, `resume` and `clear-block`: an operator's orders."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from penstock.cli.connect import Reach, at_cluster, cluster_options, json_option, perform
from penstock.cli.screen import print_json
from penstock.contract.answers import Done

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient


@click.command(short_help="Empty a slice and give it back, or cancel that.")
@click.argument("slice_id", metavar="SLICE")
@click.option("--cause", default="operator", show_default=True, help="Why; shown wherever the drain is.")
@click.option("--force", is_flag=True, help="Delete it at the deadline even with work on it.")
@click.option("--cancel", is_flag=True, help="Serve again instead.")
@json_option
@cluster_options
def drain(reach: Reach, slice_id: str, cause: str, force: bool, cancel: bool, as_json: bool) -> None:
    """Empty a slice and give it back: no new work, and once the controller confirms that it is empty it is deleted.

    At the deadline a slice that is not empty serves again, unless the drain is forced. A drain can be cancelled until the slice
    is being deleted.
    """
    if cancel and force:
        raise click.UsageError("--cancel and --force exclude each other")
    if cancel:
        perform(_order(reach, lambda autoscaler: autoscaler.cancel_drain(slice_id), as_json=as_json))
    perform(_order(reach, lambda autoscaler: autoscaler.drain(slice_id, cause=cause, force=force), as_json=as_json))


@click.command(short_help="Stop launching and draining; slices live on.")
@click.argument("reason", default="")
@json_option
@cluster_options
def pause(reach: Reach, reason: str, as_json: bool) -> None:
    """Stop launching and draining, for a REASON that status shows; slices live on, and demand is taken."""
    perform(_order(reach, lambda autoscaler: autoscaler.pause(reason), as_json=as_json))


@click.command()
@json_option
@cluster_options
def resume(reach: Reach, as_json: bool) -> None:
    """Launch and drain again."""
    perform(_order(reach, lambda autoscaler: autoscaler.resume(), as_json=as_json))


@click.command("clear-block", short_help="Ask the cloud again for a blocked group, or for all.")
@click.argument("group", required=False)
@json_option
@cluster_options
def clear_block(reach: Reach, group: str | None, as_json: bool) -> None:
    """Forget what blocks a GROUP, or every group, and ask the cloud again."""
    perform(_order(reach, lambda autoscaler: autoscaler.clear_block(group), as_json=as_json))


async def _order(reach: Reach, order: "Callable[[AutoscalerClient], Awaitable[Done]]", *, as_json: bool) -> int:
    async with at_cluster(reach, ordering=True) as autoscaler:
        done = await order(autoscaler)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{autoscaler.cluster}: {done.message}.")
    return 0
