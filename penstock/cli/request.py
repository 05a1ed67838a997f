"""`penstock request`: set or release an owner's standing request, a floor of capacity."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError
from rich.markup import escape

from penstock.cli.connect import Target, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import CommandFailed
from penstock.cli.operations import duration_seconds, print_done
from penstock.cli.terminal import Prose, print_json, terminal
from penstock.config.documents import read_document
from penstock.config.problems import BadInput, problems_of
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import CapacityMessage
from penstock.model.resources import DIMENSIONS
from penstock.model.slices import StandingItem

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.argument("owner")
@click.argument("file", type=_FILE, required=False)
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Number of items of the size below.")
@click.option("--cpu", help="Cores of one item, such as 0.5.")
@click.option("--memory", help="Memory of one item, such as 16GiB.")
@click.option("--disk", help="Disk of one item, such as 100GiB.")
@click.option("--gpu", help="GPUs of one item: a whole number, or a share of one.")
@click.option("--tpu", help="TPU chips of one item.")
@click.option("--variant", help="Accelerator variant, such as v5litepod-16.")
@click.option("--for", "lifetime", metavar="DURATION", help="Expire after this time, such as 8h.")
@click.option("--release", is_flag=True, help="Withdraw the owner's request.")
@json_option
@cluster_options
def request(
    target: Target, owner: str, file: Path | None, lifetime: str | None, release: bool, as_json: bool, **amounts: Any
) -> None:
    """The standing request of OWNER replaces the owner's earlier one. It is accepted even if it cannot be met right now.

    Name the sizes with options, or list them in FILE (shapes with `count`, as under `standing` in docs/files.md):

        penstock request notebooks --count 8 --cpu 4 --memory 16GiB
    """
    perform(_request(target, owner, file=file, lifetime=lifetime, release=release, amounts=amounts, as_json=as_json))


async def _request(
    target: Target, owner: str, *, file: Path | None, lifetime: str | None, release: bool, amounts: dict[str, Any], as_json: bool
) -> int:
    items = () if release else _items(file, amounts)
    expires = None if lifetime is None else datetime.now(UTC) + timedelta(seconds=duration_seconds(lifetime))
    async with at_cluster(target, ordering=True) as autoscaler:
        if release:
            done = await autoscaler.release_capacity(owner)
        else:
            done = await autoscaler.request_capacity(owner, items, expires=expires)
        unmet = None if release else await _why_unmet(autoscaler, owner)
    if as_json:
        print_json(done, unmet=unmet)
        return 0
    print_done(autoscaler.cluster, done)
    if unmet is not None:
        terminal().print(Prose(escape(f"It cannot be met right now ({unmet}).")))
    return 0


async def _why_unmet(autoscaler: "AutoscalerClient", owner: str) -> str | None:
    """Why an owner's request cannot be met right now; None if it can."""
    decision = await autoscaler.decision()
    return next((f"{found.code}: {found.message}" for found in decision.standing if found.owner == owner and not found.met), None)


def _items(file: Path | None, given: dict[str, Any]) -> tuple[StandingItem, ...]:
    amounts = {name: given[name] for name in DIMENSIONS if given[name] is not None}
    if (file is None) == (not amounts):
        raise CommandFailed("give either a FILE or amounts such as --cpu 4; or --release", code=ErrorCode.BAD_INPUT)
    if file is not None:
        return items_of(file)
    device = (
        {"device": {"type": "tpu" if "tpu" in amounts else "gpu", "variants": [given["variant"]]}} if given["variant"] else {}
    )
    return _validated({"wants": [{"count": given["count"], "resources": amounts} | device]}, "options", {})


def items_of(file: Path) -> tuple[StandingItem, ...]:
    """The items that a file lists; raises `BadInput` with every problem."""
    document = read_document(file)
    if isinstance(document.data, list):
        document = document.under("wants")
    return _validated(document.data, document.file, document.lines)


def _validated(data: Any, file: str, lines: Any) -> tuple[StandingItem, ...]:
    message = data | {"owner": "unnamed"} if isinstance(data, dict) else data
    try:
        return CapacityMessage.model_validate(message).wants
    except ValidationError as error:
        raise BadInput(problems_of(error, CapacityMessage, file, lines)) from None
