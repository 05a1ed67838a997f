"""`penstock status`, `slices`, `decision` and `explain`: how things are, and why."""

import asyncio
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.live import Live

from penstock.cli.connect import Reach, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import EXIT_BAD_INPUT, EXIT_UNMET, CommandFailed
from penstock.cli.render_decision import print_decision, print_explanation
from penstock.cli.render_slices import slices_view
from penstock.cli.render_status import caption, status_view
from penstock.cli.screen import print_json, screen
from penstock.contract.answers import ClusterStatus, TaskStatus
from penstock.model.slices import SliceState
from penstock.wording import listed

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_WATCH_SECONDS = 1.0
"""Between two looks of a live view: as often as people see a number change."""
_PATIENCE_SECONDS = 5.0
"""How long a live view waits for one answer before it says that there is none."""


@click.command()
@click.option("--watch", "-w", is_flag=True, help="Stay, and show every change; Ctrl-C ends.")
@json_option
@cluster_options
def status(reach: Reach, watch: bool, as_json: bool) -> None:
    """Show the groups, the demand, and what is wrong."""
    if watch:
        perform(_watch(reach, as_json=as_json), interrupted=0)
    perform(_show_status(reach, as_json=as_json))


@click.command()
@click.option("--group", help="Only of this group.")
@click.option(
    "--state", type=click.Choice([str(state) for state in SliceState], case_sensitive=False), help="Only in this state."
)
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--page-size", type=click.IntRange(1, 1000), default=200, show_default=True)
@json_option
@cluster_options
def slices(reach: Reach, group: str | None, state: str | None, page: int, page_size: int, as_json: bool) -> None:
    """List slices.

    In the order in which they were ordered, the oldest first.
    """
    perform(_show_slices(reach, group=group, state=state, page=page, page_size=page_size, as_json=as_json))


@click.command()
@json_option
@cluster_options
def decision(reach: Reach, as_json: bool) -> None:
    """Show what is decided now: launches, unmet demand, and why.

    Exit status: 0 with everything placed, 3 with unmet demand.
    """
    perform(_show_decision(reach, as_json=as_json))


@click.command()
@click.argument("task")
@json_option
@cluster_options
def explain(reach: Reach, task: str, as_json: bool) -> None:
    """Explain what becomes of one task.

    Exit status: 0 if it runs or will, 3 if it cannot be placed now, 2 if nobody knows it.
    """
    perform(_explain(reach, task, as_json=as_json))


async def _show_status(reach: Reach, *, as_json: bool) -> int:
    async with at_cluster(reach) as autoscaler:
        found = await autoscaler.status()
    if as_json:
        print_json(found)
    else:
        screen().print(status_view(found, datetime.now(UTC)))
    return 0


async def _watch(reach: Reach, *, as_json: bool) -> int:
    async with at_cluster(reach, seconds=None) as autoscaler:
        if as_json:
            await _print_changes(autoscaler)
        await _show_changes(autoscaler)
    return 0


async def _print_changes(autoscaler: "AutoscalerClient") -> None:
    """One line of JSON for every change, until interrupted."""
    since = None
    while True:
        found = await _heard(autoscaler, since)
        if found is not None and found.changed:
            click.echo(found.model_dump_json())
            since = found.version
        await asyncio.sleep(_WATCH_SECONDS)


async def _show_changes(autoscaler: "AutoscalerClient") -> None:
    """A live view on a terminal, and elsewhere a new one for every change, until interrupted; the last one stays."""
    console = screen()
    shown, heard = await autoscaler.status(), datetime.now(UTC)
    if not console.is_terminal:
        await _print_views(autoscaler, shown)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                now = datetime.now(UTC)
                live.update(Group(caption(shown, now, heard), status_view(shown, now)), refresh=True)
                await asyncio.sleep(_WATCH_SECONDS)
                found = await _heard(autoscaler, shown.version)
                heard = heard if found is None else datetime.now(UTC)
                shown = found if found is not None and found.changed else shown
    finally:
        console.print(status_view(shown, datetime.now(UTC)))


async def _print_views(autoscaler: "AutoscalerClient", shown: ClusterStatus) -> None:
    """A view for every change, until interrupted."""
    console = screen()
    console.print(status_view(shown, datetime.now(UTC)))
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        found = await _heard(autoscaler, shown.version)
        if found is not None and found.changed:
            shown = found
            console.print("", status_view(shown, datetime.now(UTC)), sep="\n")


async def _heard(autoscaler: "AutoscalerClient", since: int | None) -> ClusterStatus | None:
    """What the cluster answers; None while it does not, for those who watch outlast its server and its worker."""
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await autoscaler.status(since)
    except (TimeoutError, RPCError):
        return None


async def _show_slices(reach: Reach, *, group: str | None, state: str | None, page: int, page_size: int, as_json: bool) -> int:
    async with at_cluster(reach) as autoscaler:
        found = await autoscaler.slices(group=group, state=state, page=page, page_size=page_size)
        if group is not None and not found.total:
            _check_group(group, await autoscaler.status())
    if as_json:
        print_json(found)
    else:
        screen().print(slices_view(found, datetime.now(UTC)))
    return 0


def _check_group(group: str, found: ClusterStatus) -> None:
    """A group without slices may be none at all."""
    groups = [known.name for known in found.groups]
    if group in groups:
        return
    close = get_close_matches(group, groups, n=1)
    hints = [f"Did you mean {close[0]}?"] if close else []
    known = f"Groups of {found.cluster}: {listed(groups)}" if groups else f"{found.cluster} has no groups"
    raise CommandFailed(f"no group is called {group!r}", *hints, known, code=EXIT_BAD_INPUT)


async def _show_decision(reach: Reach, *, as_json: bool) -> int:
    async with at_cluster(reach) as autoscaler:
        found = await autoscaler.decision()
    if as_json:
        print_json(found)
    else:
        print_decision(found)
    return EXIT_UNMET if found.unmet else 0


async def _explain(reach: Reach, task: str, *, as_json: bool) -> int:
    async with at_cluster(reach) as autoscaler:
        found = await autoscaler.explain(task)
    if as_json:
        print_json(found)
    else:
        print_explanation(found)
    return {TaskStatus.UNKNOWN: EXIT_BAD_INPUT, TaskStatus.UNMET: EXIT_UNMET}.get(found.status, 0)
