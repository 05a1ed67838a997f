"""`penstock status`, `decision` and `explain`: a cluster's state, its current decision, and why a task waits."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.live import Live

from penstock.cli.completion import complete_slices
from penstock.cli.connect import Target, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import EXIT_BAD_INPUT, EXIT_UNMET
from penstock.cli.render_decision import print_decision, print_explanation, print_slice_explanation
from penstock.cli.render_status import caption, status_view
from penstock.cli.terminal import print_json, terminal
from penstock.contract.answers import ClusterStatus, TaskStatus
from penstock.contract.messages import LONGEST_ASKED
from penstock.contract.slice_answers import SliceOutlook

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_WATCH_SECONDS = 1.0
"""Between two queries of a live view."""
_PATIENCE_SECONDS = 5.0
"""Deadline for one answer of a live view; then it shows that there is none."""


@click.command()
@click.option("--watch", "-w", is_flag=True, help="Show every change until Ctrl-C; with --json, one line each.")
@json_option
@cluster_options
def status(target: Target, watch: bool, as_json: bool) -> None:
    """What keeps the cluster from working normally (a pause, a recovery, a resync) comes first."""
    if watch:
        perform(_watch(target, as_json=as_json), until_interrupted=True)
    perform(_show_status(target, as_json=as_json))


@click.command()
@json_option
@cluster_options
def decision(target: Target, as_json: bool) -> None:
    """It is computed now, on the current state. While the cluster is paused, recovering or being deleted, it says so first.

    Exit status: 0 if everything is placed, 3 with unmet demand.
    """
    perform(_show_decision(target, as_json=as_json))


@click.command()
@click.argument("task", metavar="TASK|SLICE", shell_complete=complete_slices)
@json_option
@cluster_options
def explain(target: Target, task: str, as_json: bool) -> None:
    """TASK is the id of a pending or running task, the id of a gang, or the beginning of task ids: `pretrain/`.

    SLICE is the id of a slice: why it is kept and when it goes if nothing changes, or why it is going.

    Exit status: 0 for a slice, and if a task runs or is placed; 3 if it cannot be placed now, 2 if it is unknown.
    """
    perform(_explain(target, task, as_json=as_json))


async def _show_status(target: Target, *, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        found = await autoscaler.status()
    if as_json:
        print_json(found)
    else:
        terminal().print(status_view(found, datetime.now(UTC)))
    return 0


async def _watch(target: Target, *, as_json: bool) -> int:
    async with at_cluster(target, seconds=None) as autoscaler:
        if as_json:
            await _print_changes(autoscaler)
        await _show_changes(autoscaler)
    return 0


async def _print_changes(autoscaler: "AutoscalerClient") -> None:
    """One line of JSON for every change, until interrupted."""
    since = None
    while True:
        found = await _status_in_time(autoscaler, since)
        if found is not None and found.changed:
            click.echo(found.model_dump_json())
            since = found.version
        await asyncio.sleep(_WATCH_SECONDS)


async def _show_changes(autoscaler: "AutoscalerClient") -> None:
    """A live view on a terminal, elsewhere a new view for every change, until interrupted. The last view stays."""
    console = terminal()
    shown, answered = await autoscaler.status(), datetime.now(UTC)
    if not console.is_terminal:
        await _print_views(autoscaler, shown)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                now = datetime.now(UTC)
                live.update(Group(caption(shown, now, answered), status_view(shown, now)), refresh=True)
                await asyncio.sleep(_WATCH_SECONDS)
                found = await _status_in_time(autoscaler, shown.version)
                answered = answered if found is None else datetime.now(UTC)
                shown = found if found is not None and found.changed else shown
    finally:
        console.print(status_view(shown, datetime.now(UTC)))


async def _print_views(autoscaler: "AutoscalerClient", shown: ClusterStatus) -> None:
    """A view for every change, until interrupted."""
    console = terminal()
    console.print(status_view(shown, datetime.now(UTC)))
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        found = await _status_in_time(autoscaler, shown.version)
        if found is not None and found.changed:
            shown = found
            console.print("", status_view(shown, datetime.now(UTC)), sep="\n")


async def _status_in_time(autoscaler: "AutoscalerClient", since: int | None) -> ClusterStatus | None:
    """The cluster's status; None while it does not answer, so that a live view outlasts restarts of server and worker."""
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await autoscaler.status(since)
    except (TimeoutError, RPCError):
        return None


async def _show_decision(target: Target, *, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        found = await autoscaler.decision()
    if as_json:
        print_json(found)
    else:
        print_decision(found)
    return EXIT_UNMET if found.unmet else 0


async def _explain(target: Target, task: str, *, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        piece = await autoscaler.explain_slice(task) if len(task) <= LONGEST_ASKED else None
        found = await autoscaler.explain(task) if piece is None or piece.status is SliceOutlook.GONE else None
    if piece is not None and (found is None or (found.status is TaskStatus.UNKNOWN and piece.group)):
        print_json(piece) if as_json else print_slice_explanation(piece)
        return EXIT_BAD_INPUT if piece.status is SliceOutlook.GONE else 0
    assert found is not None
    if as_json:
        print_json(found)
    else:
        print_explanation(found)
    return {TaskStatus.UNKNOWN: EXIT_BAD_INPUT, TaskStatus.UNMET: EXIT_UNMET}.get(found.status, 0)
