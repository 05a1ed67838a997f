"""`penstock ui`: print links into the Temporal UI for a cluster and its slices."""

import json
from collections.abc import Iterable

import click

from penstock.cli.completion import complete_slices
from penstock.cli.connect import Target, at_server, cluster_options, json_option, perform
from penstock.cli.discovery import only_cluster
from penstock.cli.failures import CommandFailed
from penstock.cli.ui_links import UiLinks, ui_option
from penstock.contract import names
from penstock.contract.error_codes import ErrorCode
from penstock.model.slices import SliceState

COLUMNS = (names.GROUP_ATTRIBUTE, names.STATE_ATTRIBUTE, names.CAUSE_ATTRIBUTE)
"""Columns that the UI's lists of slices do not have by themselves."""


@click.command()
@click.argument("slice_id", metavar="[SLICE]", required=False, shell_complete=complete_slices)
@click.option("--group", help="Links to slices of this group only.")
@ui_option
@json_option
@cluster_options
def ui(target: Target, slice_id: str | None, group: str | None, ui: str | None, as_json: bool) -> None:
    """The workflow list; the cluster's autoscaler and inventories; its slices, also those in flight, leaving or failed; a SLICE.

    The last line names the columns to add to the lists. The address of the UI is --ui, else PENSTOCK_UI_URL, else the one that
    `make run` noted, else guessed from the server's.
    """
    perform(_show(target, slice_id, ui, group=group, as_json=as_json))


async def _show(target: Target, slice_id: str | None, url: str | None, *, group: str | None, as_json: bool) -> int:
    async with at_server(target) as client:
        links = UiLinks.of(client, url)
        found = cluster_links(links, target.cluster or await only_cluster(client), slice_id, group=group)
    if as_json:
        click.echo(json.dumps(found | {"columns": COLUMNS, "guessed": links.guessed}, indent=2))
        return 0
    longest = max(map(len, found))
    for name, link in found.items():
        click.echo(f"{name.ljust(longest)}  {link}")
    click.echo(f"{'columns'.ljust(longest)}  {', '.join(COLUMNS)}: add them to the list with the gear above it")
    if links.guessed:
        click.echo(f"note: {links.url} is guessed from the server's address; --ui URL names another", err=True)
    return 0


def _states(states: Iterable[SliceState]) -> str:
    """The filter of running slices in one of the states."""
    wanted = ", ".join(f"'{state}'" for state in states)
    return f"ExecutionStatus='Running' AND {names.STATE_ATTRIBUTE} IN ({wanted})"


def cluster_links(links: UiLinks, cluster: str, slice_id: str | None, *, group: str | None = None) -> dict[str, str]:
    """Links by what they show; those of slices only for one group, if it is named."""
    of_cluster = f"{names.CLUSTER_ATTRIBUTE}='{cluster}'"
    of_slices = f"WorkflowType='{names.SLICE}' AND {of_cluster}" + (f" AND {names.GROUP_ATTRIBUTE}='{group}'" if group else "")
    found = {
        "workflows": links.workflows,
        "cluster": links.filtered(of_cluster),
        "autoscaler": links.workflow(names.autoscaler_id(cluster)),
        "slices": links.filtered(f"{of_slices} AND ExecutionStatus='Running'"),
        "in flight": links.filtered(f"{of_slices} AND {_states(state for state in SliceState if state.in_flight)}"),
        "draining": links.filtered(f"{of_slices} AND {_states((SliceState.DRAINING, SliceState.DELETING))}"),
        "failed": links.filtered(f"{of_slices} AND ExecutionStatus='Failed'"),
        "inventories": links.filtered(f"WorkflowType='{names.INVENTORY}' AND {of_cluster}"),
    }
    if slice_id is None:
        return found
    own = names.group_named_in(slice_id)
    if own is None:
        raise CommandFailed(
            f"{slice_id!r} is not the name of a slice", "List them: penstock slices", code=ErrorCode.NO_SUCH_SLICE
        )
    return found | {"slice": links.workflow(names.slice_workflow_id(cluster, own, slice_id))}
