"""`penstock delete`: delete a cluster, and wait until it is gone."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.completion import complete_clusters
from penstock.cli.connect import Target, at_cluster, at_server, json_option, perform, server_options
from penstock.cli.failures import CommandFailed, Interrupted
from penstock.cli.operations import print_done
from penstock.cli.terminal import clock, lapse, print_json, terminal
from penstock.contract.answers import ClusterStatus
from penstock.contract.error_codes import ErrorCode
from penstock.contract.names import STATUS, autoscaler_id
from penstock.model.slices import SliceState
from penstock.model.units import format_seconds
from penstock.wording import counted, listed

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

    from penstock.client.last_run import LastRun

_POLL_SECONDS = 1.0
"""Between two queries of the remaining slices."""
_PATIENCE_SECONDS = 10.0
"""Deadline for one answer; then the command says that there is none."""
_COMEBACK_SECONDS = 300.0
"""Deadline for an autoscaler that the server ended: workers look every 30 s, and read up to 50 MB of its history."""


@click.command()
@click.argument("cluster", shell_complete=complete_clusters)
@click.option("--force", is_flag=True, help="Delete slices at once, even if work is left on them.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--no-wait", is_flag=True, help="Return once the order is accepted.")
@json_option
@server_options
def delete(target: Target, cluster: str, force: bool, yes: bool, no_wait: bool, as_json: bool) -> None:
    """It drains the slices, deletes them, checks every location for leftovers, and ends the autoscaler.

    The command waits until all of it is gone. Ctrl-C ends the command; the deletion continues.
    """
    perform(_delete(target._replace(cluster=cluster), force=force, confirmed=yes, wait=not no_wait, as_json=as_json))


async def _delete(target: Target, *, force: bool, confirmed: bool, wait: bool, as_json: bool) -> int:
    console = terminal(stderr=as_json)  # Standard output is for JSON alone.
    async with at_cluster(target) as autoscaler:
        before = await autoscaler.status()
    if not confirmed:
        _confirm(before, force=force, err=as_json)
    async with at_cluster(target, ordering=True) as autoscaler:
        done = await autoscaler.delete(force=force)
    if not as_json:
        print_done(str(target.cluster), done)
    if wait:
        await _wait(target, console)
        click.echo(f"Cluster {target.cluster} is gone.", err=as_json)
    if as_json:
        print_json(done, cluster=target.cluster, gone=wait)
    return 0


def _confirm(before: ClusterStatus, *, force: bool, err: bool) -> None:
    """Ask whether to delete the cluster; fails unless the answer is yes."""
    how = "at once, with any work on them" if force else "once they are empty"
    slices = "no slices" if not before.slices else f"{slices_by_state(before)}, which are deleted {how}"
    try:
        with _interruptible():
            agreed = click.confirm(f"Cluster {before.cluster} has {slices}. Delete it?", err=err)
    except KeyboardInterrupt:
        raise Interrupted("nothing was deleted") from None
    except click.Abort:
        raise CommandFailed("no answer, so nothing was deleted; --yes skips the question", code=ErrorCode.REFUSED) from None
    if not agreed:
        raise CommandFailed("nothing was deleted", code=ErrorCode.REFUSED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question at once, as `KeyboardInterrupt`: the event loop would only note it, click would abort."""
    interrupts = 0

    def interrupt(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except click.Abort:
        if interrupts:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


async def _wait(target: Target, console: Console) -> None:
    """Wait until the cluster is gone; on Ctrl-C say that the deletion continues, and how to follow it."""
    try:
        async with at_server(target, seconds=None) as client:
            await _until_gone(client, str(target.cluster), console)
    except asyncio.CancelledError:
        click.echo(f"\nThe deletion of {target.cluster} continues.", err=True)
        click.echo(f"  Watch it: penstock status --watch --cluster {target.cluster}", err=True)
        click.echo(f"  Wait for its end: penstock delete {target.cluster}", err=True)
        raise


async def _until_gone(client: "Client", cluster: str, console: Console) -> None:
    """Show the remaining slices until the autoscaler has completed, also if it must come back for that."""
    from temporalio.client import WorkflowExecutionStatus

    from penstock.client.last_run import last_run

    handle = client.get_workflow_handle(autoscaler_id(cluster))
    printed = ""
    with console.status("waiting for slices to be deleted…") as spinner:
        while (run := await last_run(client, cluster)) is None or run.status is not WorkflowExecutionStatus.COMPLETED:
            if run is None or run.status is not WorkflowExecutionStatus.RUNNING:
                await _until_back(handle, cluster, run, console)
                continue
            left = await _left(handle)
            spinner.update(left)
            if _without_lapse(left) != printed and not console.is_terminal:
                console.print(left, soft_wrap=True)
            printed = _without_lapse(left)
            await asyncio.sleep(_POLL_SECONDS)


async def _until_back(handle: "WorkflowHandle[Any, Any]", cluster: str, ended: "LastRun | None", console: Console) -> None:
    """Wait for another run after one that ended early; raise if a person ended it, or no worker starts another."""
    if ended is None or not ended.by_server:
        raise _ended_early(cluster, ended)
    reason = f" ({ended.reason})" if ended.reason else ""
    again = "A worker starts it again, and the deletion goes on."
    console.print(f"The autoscaler of {cluster} ended early{reason}. {again}", soft_wrap=True, markup=False)
    try:
        async with asyncio.timeout(_COMEBACK_SECONDS):
            while (await handle.describe()).run_id == ended.run_id:
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise _ended_early(cluster, ended) from None


def _ended_early(cluster: str, ended: "LastRun | None") -> CommandFailed:
    """The failure to delete a cluster whose autoscaler does not come back by itself."""
    how = ended.status.name.lower() if ended is not None and ended.status is not None else "gone"
    reason = f" ({ended.reason})" if ended is not None and ended.reason else ""
    silence = f"; no worker has started it again for {format_seconds(_COMEBACK_SECONDS)}" if ended and ended.by_server else ""
    return CommandFailed(
        f"the autoscaler of {cluster} ended early: {how}{reason}{silence}",
        f"Its slices may still exist. Start it again, and it goes on deleting them: penstock restore {cluster}",
        code=ErrorCode.AUTOSCALER_ENDED,
    )


def _without_lapse(line: str) -> str:
    """The line without the time that is left, which changes every second: in a pipe a line is printed only for news."""
    return re.sub(r" \([\dhms.]+\) at the latest", "", line)


async def _left(handle: "WorkflowHandle[Any, Any]") -> str:
    """A line about the remaining slices. While the autoscaler does not answer, the deletion continues nevertheless."""
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return f"left: {left_text(await handle.query(STATUS, result_type=ClusterStatus), datetime.now(UTC))}"
    except (TimeoutError, RPCError):
        return "no answer from the autoscaler; retrying"


def left_text(status: ClusterStatus, now: datetime) -> str:
    """The slices that are left, what the deletion waits for and until when, and how to wait no longer."""
    return "; ".join((slices_by_state(status), *_awaited(status, now)))


def _awaited(status: ClusterStatus, now: datetime) -> Iterator[str]:
    draining = sum(group.slices.get(SliceState.DRAINING, 0) for group in status.groups)
    if draining:
        ends = [drain.deadline for drain in status.drains if drain.deadline is not None]
        until = f", until {clock(max(ends), now)} ({lapse(now, max(ends))}) at the latest" if ends else ""
        yield f"waiting for the controller to confirm that {counted(draining, 'slice')} {_are(draining)} empty{until}"
        yield f"to delete them now: penstock delete {status.cluster} --force --yes"
    deleting = sum(group.slices.get(SliceState.DELETING, 0) for group in status.groups)
    if deleting:
        yield f"waiting for the cloud to delete {counted(deleting, 'slice')}"
    if status.recovery is not None and status.recovery.waiting_for:
        yield f"waiting for {listed(status.recovery.waiting_for)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def slices_by_state(status: ClusterStatus) -> str:
    """The number of slices, in all and by state."""
    by_state = {state: sum(group.slices.get(state, 0) for group in status.groups) for state in SliceState}
    counts = ", ".join(f"{count:,} {state}" for state, count in by_state.items() if count)
    return counted(status.slices, "slice") + (f" ({counts})" if counts else "")
