"""`penstock delete`: end a cluster, and stay until it has ended."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.connect import Reach, at_cluster, at_server, json_option, perform, server_options
from penstock.cli.failures import EXIT_DIFFERS, EXIT_REFUSED, CommandFailed
from penstock.cli.screen import print_json, screen
from penstock.contract.answers import ClusterStatus
from penstock.contract.names import STATUS, autoscaler_id
from penstock.model.slices import SliceState
from penstock.wording import counted, listed

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

_LOOK_SECONDS = 1.0
"""Between two looks at what is left."""
_PATIENCE_SECONDS = 10.0
"""How long one answer is waited for before that is said."""


@click.command(short_help="Delete a cluster: its slices, then its autoscaler.")
@click.argument("cluster")
@click.option("--force", is_flag=True, help="Delete slices now, work or not, instead of draining them.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Return once the order is taken.")
@json_option
@server_options
def delete(reach: Reach, cluster: str, force: bool, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Delete a cluster: drain its slices, delete them, check that they are gone, then end its autoscaler.

    It stays until all of it is gone; Ctrl-C leaves, and the deletion goes on.
    """
    perform(_delete(reach._replace(cluster=cluster), force=force, sure=yes, wait=not no_wait, as_json=as_json))


async def _delete(reach: Reach, *, force: bool, sure: bool, wait: bool, as_json: bool) -> int:
    console = screen(stderr=as_json)  # What is for people keeps out of the way of what is for programs.
    async with at_cluster(reach) as autoscaler:
        before = await autoscaler.status()
    if not sure:
        _ask(before, force=force, err=as_json)
    async with at_cluster(reach, ordering=True) as autoscaler:
        done = await autoscaler.delete(force=force)
    click.echo(f"{reach.cluster}: {done.message}.", err=as_json)
    if wait:
        await _stay(reach, console)
        click.echo(f"Cluster {reach.cluster} is gone.", err=as_json)
    if as_json:
        print_json(done, cluster=reach.cluster, gone=wait)
    return 0


def _ask(before: ClusterStatus, *, force: bool, err: bool) -> None:
    """Make sure that it is meant."""
    how = "with whatever runs on them" if force else "as they empty"
    count = "no slices" if not before.slices else f"{left_text(before)}, which go {how}"
    try:
        with _interruptible():
            meant = click.confirm(f"Cluster {before.cluster} has {count}. Delete it?", err=err)
    except click.Abort:
        raise CommandFailed("nobody answered, so nothing was deleted; --yes answers beforehand", code=EXIT_REFUSED) from None
    if not meant:
        raise CommandFailed("nothing was deleted", code=EXIT_REFUSED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question at once: the event loop would only take note of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _stay(reach: Reach, console: Console) -> None:
    """Wait until the cluster is gone; whoever leaves earlier is told that the deletion goes on without them."""
    try:
        async with at_server(reach, seconds=None) as client:
            await _until_gone(client, str(reach.cluster), console)
    except asyncio.CancelledError:
        click.echo(f"\nThe deletion of {reach.cluster} goes on.", err=True)
        click.echo(f"  Watch it: penstock status --watch --cluster {reach.cluster}", err=True)
        click.echo(f"  Stay until it is gone: penstock delete {reach.cluster}", err=True)
        raise


async def _until_gone(client: "Client", cluster: str, console: Console) -> None:
    """Show what is left until the autoscaler has completed."""
    from temporalio.client import WorkflowExecutionStatus

    handle = client.get_workflow_handle(autoscaler_id(cluster))
    told = ""
    with console.status("waiting for slices to go…") as spinner:
        while (found := (await handle.describe()).status) is WorkflowExecutionStatus.RUNNING:
            left = await _left(handle)
            spinner.update(left)
            if left != told and not console.is_terminal:
                console.print(left)
            told = left
            await asyncio.sleep(_LOOK_SECONDS)
    if found is not WorkflowExecutionStatus.COMPLETED:
        ended = found.name.lower() if found is not None else "gone"
        raise CommandFailed(
            f"the autoscaler of {cluster} was {ended} before it was done",
            "Its slices may live on. Start it again and delete it again: penstock config apply FILE",
            code=EXIT_DIFFERS,
        )


async def _left(handle: "WorkflowHandle[Any, Any]") -> str:
    """What the autoscaler says is left; one that cannot answer just now goes on all the same."""
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return f"left: {_errands(await handle.query(STATUS, result_type=ClusterStatus))}"
    except (TimeoutError, RPCError):
        return "no answer from the autoscaler; it is asked again"


def _errands(status: ClusterStatus) -> str:
    """The slices that are left, and who is still to be heard before the cluster may end."""
    waited = status.recovery.waiting_for if status.recovery is not None else ()
    return left_text(status) + (f"; waiting for {listed(waited)}" if waited else "")


def left_text(status: ClusterStatus) -> str:
    """The slices that are left, by state."""
    by_state = {state: sum(group.slices.get(state, 0) for group in status.groups) for state in SliceState}
    told = ", ".join(f"{count:,} {state}" for state, count in by_state.items() if count)
    return counted(status.slices, "slice") + (f" ({told})" if told else "")
