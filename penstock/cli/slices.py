"""`penstock slices` and `penstock slice`: the ledger, and everything about one slice."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.completion import complete_groups, complete_slices
from penstock.cli.connect import Target, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import CommandFailed, suggestions
from penstock.cli.render_slices import SliceDetails, slice_view, slices_view
from penstock.cli.terminal import print_json, terminal
from penstock.cli.ui_links import UiLinks, ui_option
from penstock.contract.answers import ClusterStatus
from penstock.contract.error_codes import ErrorCode
from penstock.contract.names import slice_workflow_id
from penstock.model.slices import SliceState
from penstock.wording import listed

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient
    from penstock.core.state.state import AutoscalerState


@click.command()
@click.option("--group", shell_complete=complete_groups, help="Only slices of this group.")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in SliceState], case_sensitive=False),
    help="Only slices in this state.",
)
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="Page to show.")
@click.option("--page-size", type=click.IntRange(1, 1000), default=200, show_default=True, help="Slices on a page.")
@json_option
@cluster_options
def slices(target: Target, group: str | None, state: str | None, page: int, page_size: int, as_json: bool) -> None:
    """In the order in which they were ordered, oldest first."""
    perform(_show_slices(target, group=group, state=state, page=page, page_size=page_size, as_json=as_json))


@click.command("slice")
@click.argument("slice_id", metavar="NAME", shell_complete=complete_slices)
@ui_option
@json_option
@cluster_options
def slice_(target: Target, slice_id: str, ui: str | None, as_json: bool) -> None:
    """Its state, group, location, hosts, usage, drain, failure and timeline, also after it ended.

    Exit status: 2 if there is no such slice.
    """
    perform(_show_slice(target, slice_id, ui=ui, as_json=as_json))


async def _show_slices(target: Target, *, group: str | None, state: str | None, page: int, page_size: int, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        found = await autoscaler.slices(group=group, state=state, page=page, page_size=page_size, about=True)
        if group is not None and not found.total:
            _check_group(group, await autoscaler.status())
    if as_json:
        print_json(found)
    else:
        terminal().print(slices_view(found, datetime.now(UTC)))
    return 0


def _check_group(group: str, found: ClusterStatus) -> None:
    """Fail if there is no such group: a group without slices may exist."""
    groups = [known.name for known in found.groups]
    if group in groups:
        return
    known = f"Groups of {found.cluster}: {listed(groups)}" if groups else f"{found.cluster} has no groups"
    raise CommandFailed(f"there is no group {group!r}", *suggestions(group, groups), known, code=ErrorCode.BAD_INPUT)


async def _show_slice(target: Target, slice_id: str, *, ui: str | None, as_json: bool) -> int:
    async with at_cluster(target) as autoscaler:
        details = await _details(autoscaler, slice_id, UiLinks.of(autoscaler.client, ui))
    if as_json:
        print_json(details)
    else:
        terminal().print(slice_view(details, datetime.now(UTC)))
    return 0


async def _details(autoscaler: "AutoscalerClient", slice_id: str, links: UiLinks) -> SliceDetails:
    from penstock.client import NoSuchSlice
    from penstock.core.state.protections import with_protection

    state = await autoscaler.dump()
    known = state.by_id.get(slice_id)
    try:
        lifecycle = await autoscaler.lifecycle(slice_id, group=known.group if known else None)
    except NoSuchSlice:
        if known is None:
            raise _no_such_slice(autoscaler.cluster, slice_id, state) from None
        lifecycle = None
    group = known.group if known is not None else lifecycle.spec.group if lifecycle is not None else ""
    workflow_id = slice_workflow_id(autoscaler.cluster, group, slice_id)
    return SliceDetails(
        cluster=autoscaler.cluster,
        slice_id=slice_id,
        group=group,
        ledger=None if known is None else with_protection(state, known),
        lifecycle=lifecycle,
        usage=state.usage.get(slice_id, ()),
        workflow_id=workflow_id,
        ui=links.workflow(workflow_id),
    )


def _no_such_slice(cluster: str, slice_id: str, state: "AutoscalerState") -> CommandFailed:
    names = [piece.id for piece in state.slices]
    fixes = suggestions(slice_id, names) or ((f"Slices of {cluster}: {listed(names, 3)}",) if names else ())
    return CommandFailed(f"there is no slice {slice_id!r}", *fixes, "List them: penstock slices", code=ErrorCode.NO_SUCH_SLICE)
