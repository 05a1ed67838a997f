"""`penstock demand` and `penstock request`: what is wanted, now and always."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError

from penstock.cli.connect import Reach, at_cluster, cluster_options, json_option, perform
from penstock.cli.failures import EXIT_BAD_INPUT, CommandFailed
from penstock.cli.screen import print_json
from penstock.config.demand import load_demand
from penstock.config.documents import read_document
from penstock.config.problems import BadInput, problems_of
from penstock.contract.answers import Accepted
from penstock.contract.messages import DEFAULT_SOURCE, CapacityMessage
from penstock.model.demand import Demand
from penstock.model.resources import DIMENSIONS
from penstock.model.slices import StandingItem
from penstock.model.units import parse_seconds
from penstock.wording import counted

if TYPE_CHECKING:
    from penstock.client import AutoscalerClient

_FILE = click.Path(dir_okay=False, path_type=Path)
_SOURCE = click.option("--source", default=DEFAULT_SOURCE, show_default=True, help="Whose demand it is; sources add up.")


@click.group(short_help="Submit the tasks that wait, or clear them.")
def demand() -> None:
    """Submit the tasks that wait, or clear them."""


@demand.command()
@click.argument("file", type=_FILE)
@_SOURCE
@json_option
@cluster_options
def submit(reach: Reach, file: Path, source: str, as_json: bool) -> None:
    """Submit the tasks of FILE in place of what the source submitted before.

    The file is JSON or YAML as for `penstock plan`: docs/files.md.
    """
    perform(_submit(reach, file, source, as_json=as_json))


@demand.command()
@_SOURCE
@json_option
@cluster_options
def clear(reach: Reach, source: str, as_json: bool) -> None:
    """Nothing of the source waits any more."""
    perform(_clear(reach, source, as_json=as_json))


@click.command(short_help="Ask for a floor of capacity, busy or not.")
@click.argument("owner")
@click.argument("file", type=_FILE, required=False)
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Room for so many of what follows.")
@click.option("--cpu", help="Cores of one, such as 0.5.")
@click.option("--memory", help="Of one, such as 16GiB.")
@click.option("--disk", help="Of one, such as 100GiB.")
@click.option("--gpu", help="GPUs of one, whole or a share.")
@click.option("--tpu", help="Chips of one.")
@click.option("--variant", help="Of the accelerator, such as v5litepod-16.")
@click.option("--for", "lifetime", metavar="DURATION", help="Withdraw it by itself after so long, such as 8h.")
@click.option("--release", is_flag=True, help="Withdraw the owner's request.")
@json_option
@cluster_options
def request(
    reach: Reach, owner: str, file: Path | None, lifetime: str | None, release: bool, as_json: bool, **wanted: Any
) -> None:
    """Ask for a floor of capacity in the name of OWNER, busy or not, in place of what OWNER asked for before.

    Either FILE lists what is wanted (shapes with `count`, as under `standing` in docs/files.md), or options say it:

        penstock request notebooks --count 8 --cpu 4 --memory 16GiB
    """
    perform(_request(reach, owner, file=file, lifetime=lifetime, release=release, wanted=wanted, as_json=as_json))


async def _submit(reach: Reach, file: Path, source: str, *, as_json: bool) -> int:
    tasks = load_demand(file)
    async with at_cluster(reach, ordering=True) as autoscaler:
        accepted = await autoscaler.submit_demand(tasks, source=source)
    if as_json:
        print_json(accepted)
    else:
        _tell(accepted, len(tasks.task_ids))
        click.echo("See what becomes of it: penstock status --watch, penstock decision, penstock explain TASK")
    return 0


async def _clear(reach: Reach, source: str, *, as_json: bool) -> int:
    async with at_cluster(reach, ordering=True) as autoscaler:
        accepted = await autoscaler.submit_demand(Demand(), source=source)
    if as_json:
        print_json(accepted)
    else:
        click.echo(f"Nothing of {source} waits any more, as of epoch {accepted.epoch}, revision {accepted.revision}.")
    return 0


def _tell(accepted: Accepted, tasks: int) -> None:
    click.echo(f"Accepted {counted(tasks, 'task')} of {accepted.source} as epoch {accepted.epoch}, revision {accepted.revision}.")
    if accepted.invalid:
        click.echo(f"{accepted.invalid:,} could not be read; penstock decision says why.")
    if accepted.resync_needed:
        click.echo(f"It must be sent again: {accepted.resync_needed}")


async def _request(
    reach: Reach, owner: str, *, file: Path | None, lifetime: str | None, release: bool, wanted: dict[str, Any], as_json: bool
) -> int:
    wants = () if release else _wants(file, wanted)
    expires = None if lifetime is None else datetime.now(UTC) + timedelta(seconds=_seconds(lifetime))
    async with at_cluster(reach, ordering=True) as autoscaler:
        if release:
            done = await autoscaler.release_capacity(owner)
        else:
            done = await autoscaler.request_capacity(owner, wants, expires=expires)
        unmet = None if release else await _why_unmet(autoscaler, owner)
    if as_json:
        print_json(done, unmet=unmet)
        return 0
    click.echo(f"{autoscaler.cluster}: {done.message}.")
    if unmet is not None:
        click.echo(f"It is unmet ({unmet}).")
    return 0


async def _why_unmet(autoscaler: "AutoscalerClient", owner: str) -> str | None:
    """Why an owner's request cannot be met as things are; None if it can."""
    decision = await autoscaler.decision()
    return next((f"{found.code}: {found.message}" for found in decision.standing if found.owner == owner and not found.met), None)


def _wants(file: Path | None, wanted: dict[str, Any]) -> tuple[StandingItem, ...]:
    amounts = {name: wanted[name] for name in DIMENSIONS if wanted[name] is not None}
    if (file is None) == (not amounts):
        raise CommandFailed("give a FILE or amounts such as --cpu 4, one of them; or --release", code=EXIT_BAD_INPUT)
    if file is not None:
        return wants_of(file)
    device = (
        {"device": {"type": "tpu" if "tpu" in amounts else "gpu", "variants": [wanted["variant"]]}} if wanted["variant"] else {}
    )
    return _checked({"wants": [{"count": wanted["count"], "resources": amounts} | device]}, "the options", {})


def wants_of(file: Path) -> tuple[StandingItem, ...]:
    """What a file says is wanted; raises `BadInput` with every mistake."""
    document = read_document(file)
    if isinstance(document.data, list):
        document = document.under("wants")
    return _checked(document.data, document.file, document.lines)


def _checked(data: Any, file: str, lines: Any) -> tuple[StandingItem, ...]:
    owned = data | {"owner": "anyone"} if isinstance(data, dict) else data
    try:
        return CapacityMessage.model_validate(owned).wants
    except ValidationError as error:
        raise BadInput(problems_of(error, CapacityMessage, file, lines)) from None


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise CommandFailed(f"--for: {error}", code=EXIT_BAD_INPUT) from None
