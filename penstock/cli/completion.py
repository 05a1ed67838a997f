"""`penstock completion`: shell completion, with names of clusters, groups and slices looked up in a running cluster."""

import asyncio
import atexit
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import ShellComplete, get_completion_class

if TYPE_CHECKING:
    from temporalio.client import Client

    from penstock.cli.connect import Target

LOOKUP_SECONDS = 1.0
"""Names that take longer to find are not completed: the shell waits for them."""
SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_PENSTOCK_COMPLETE"

Lookup = Callable[["Client", "Target"], Awaitable[list[str]]]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """It completes commands, options and the names of clusters, groups and slices.

    Load it from the shell's start-up file:

    \b
      bash  echo 'eval "$(penstock completion bash)"' >> ~/.bashrc
      zsh   echo 'eval "$(penstock completion zsh)"' >> ~/.zshrc
      fish  penstock completion fish > ~/.config/fish/completions/penstock.fish
    """  # noqa: D301
    from penstock.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    # The method of the base class: that of bash starts a bash to check its version, also where there is none.
    click.echo(ShellComplete.source(found(main, {}, "penstock", _VARIABLE)))


def complete_clusters(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of running clusters."""

    async def names(client: "Client", _: "Target") -> list[str]:
        from penstock.cli.discovery import running_clusters

        return await running_clusters(client)

    return _beginning(incomplete, _found(context, names))


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of the cluster's groups."""

    async def names(client: "Client", target: "Target") -> list[str]:
        return [group.name for group in (await (await _autoscaler(client, target)).status()).groups]

    return _beginning(incomplete, _found(context, names))


def complete_slices(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of the cluster's slices, of the first page."""

    async def names(client: "Client", target: "Target") -> list[str]:
        return [piece.id for piece in (await (await _autoscaler(client, target)).slices(page_size=1000)).slices]

    return _beginning(incomplete, _found(context, names))


async def _autoscaler(client: "Client", target: "Target") -> Any:
    from penstock.cli.discovery import only_cluster, task_queue
    from penstock.client import AutoscalerClient

    return AutoscalerClient(client, target.cluster or await only_cluster(client), task_queue=task_queue())


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _found(context: click.Context, lookup: Lookup) -> list[str]:
    """The names that a lookup finds in time. None if it fails: an error message would end up in the middle of the typed line."""
    from penstock.cli.connect import Target, at_server

    given = context.params
    target = Target(given.get("cluster_option"), given.get("address"), given.get("namespace"))

    async def look() -> list[str]:
        async with asyncio.timeout(LOOKUP_SECONDS), at_server(target, seconds=LOOKUP_SECONDS) as client:
            return await lookup(client, target)

    atexit.register(_leave)
    try:
        return asyncio.run(look())
    except Exception:
        return []


def _leave() -> None:
    """End without the interpreter's shutdown, which threads of the Temporal SDK can crash (sdk-python#300)."""
    sys.stdout.flush()
    os._exit(0)
