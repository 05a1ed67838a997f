"""`penstock sim`: inspect the simulated cloud and inject faults."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import click

from penstock.cli.connect import json_option
from penstock.cli.failures import CommandFailed
from penstock.cli.operations import duration_seconds
from penstock.cli.render_sim import behaviour_view, resources_view
from penstock.cli.sim_http import SimCalls
from penstock.cli.terminal import moment, terminal
from penstock.config.documents import parse_value
from penstock.config.problems import BadInput
from penstock.contract.addresses import DEFAULT_SIM_URL
from penstock.contract.error_codes import ErrorCode
from penstock.local_service import read_note
from penstock.model.failures import Notice, NoticeKind
from penstock.wording import listed, shortened, similar

_EXAMPLES = "Write it like stockout=true, boot_latency=30s or 'quota={scope: zone, limit: 3}': docs/simulated-cloud.md"

_SHOWN = 60
"""Characters of an offending value that are shown."""


@click.group()
@click.option("--url", envvar="PENSTOCK_SIM_URL", help=f"Address of the simulated cloud.  [default: {DEFAULT_SIM_URL}]")
@click.pass_context
def sim(ctx: click.Context, url: str | None) -> None:
    """docs/simulated-cloud.md lists the settings of a zone."""
    ctx.obj = SimCalls(url or read_note("sim") or DEFAULT_SIM_URL)


@sim.command("list")
@click.option("--zone", help="Only this zone.")
@click.option("--all", "everything", is_flag=True, help="Also resources that are gone.")
@json_option
@click.pass_obj
def list_(calls: SimCalls, zone: str | None, everything: bool, as_json: bool) -> None:
    """List resources."""
    ever = calls.call("GET", "/resources")["items"]
    if zone is not None:
        _warn_if_unused(zone, ever)
    items = [item for item in ever if zone in (None, item["zone"]) and (everything or item["phase"] != "gone")]
    if as_json:
        click.echo(json.dumps(items, indent=2))
    else:
        terminal().print(resources_view(items, datetime.now(UTC)))


@sim.command()
@click.argument("zone")
@json_option
@click.pass_obj
def show(calls: SimCalls, zone: str, as_json: bool) -> None:
    """Show the settings of a zone."""
    _warn_if_unused(zone, calls.call("GET", "/resources")["items"])
    _print_settings(zone, calls.call("GET", f"/zones/{quote(zone, safe='')}"), as_json=as_json)


@sim.command("set")
@click.argument("zone")
@click.argument("behaviour", nargs=-1, metavar="KEY=VALUE…")
@click.option("--reset", is_flag=True, help="Reset all other settings to their defaults.")
@json_option
@click.pass_obj
def set_(calls: SimCalls, zone: str, behaviour: tuple[str, ...], reset: bool, as_json: bool) -> None:
    """Change settings of a zone.

    Such as stockout=true, capacity=2, boot_latency=30s or 'quota={scope: zone, limit: 3}': docs/simulated-cloud.md lists all.
    Others stay unchanged. KEY=null resets one, --reset all of them.
    """
    changes = dict(map(_pair, behaviour))
    path = f"/zones/{quote(zone, safe='')}"
    wanted = ({} if reset else calls.call("GET", path)) | changes
    given = {key: value for key, value in wanted.items() if value is not None}
    try:
        settings = calls.call("PUT", path, given)
    except CommandFailed as failed:
        examples = (_EXAMPLES,) if failed.code is ErrorCode.BAD_INPUT else ()
        raise CommandFailed(failed.message, *failed.fixes, *examples, code=failed.code) from None
    _warn_if_mistyped(zone, calls.call("GET", "/resources")["items"])
    _print_settings(zone, settings, as_json=as_json)


@sim.command()
@click.argument("name", required=False)
@click.option("--zone", help="Every preemptible resource of this zone.")
@json_option
@click.pass_obj
def preempt(calls: SimCalls, name: str | None, zone: str | None, as_json: bool) -> None:
    """Preempt one resource, or all preemptible ones of a zone."""
    if (name is None) == (zone is None):
        raise click.UsageError("give either the NAME of a resource or --zone")
    if zone is not None:
        _warn_if_unused(zone, calls.call("GET", "/resources")["items"])
        taken = calls.call("POST", f"/zones/{quote(zone, safe='')}/preempt")["preempted"]
        text = f"Preempted in {zone}: {', '.join(taken) or 'nothing: no resource there is preemptible'}."
    else:
        calls.call("POST", f"/resources/{quote(str(name), safe='')}/preempt")
        taken, text = [name], f"Preempted {name}."
    _print_done(text, as_json=as_json, preempted=taken)


@sim.command()
@click.argument("name")
@click.option("--kind", type=click.Choice([str(kind) for kind in NoticeKind]), help="What the cloud announces.")
@click.option("--in", "duration", metavar="DURATION", help="How long until then, such as 10m.")
@click.option("--off", is_flag=True, help="Take back what was announced.")
@json_option
@click.pass_obj
def notice(calls: SimCalls, name: str, kind: str | None, duration: str | None, off: bool, as_json: bool) -> None:
    """Announce what the cloud will do to one resource.

    It comes true by itself: the resource is preempted, its hosts stop answering, or it is gone.
    """
    path = f"/resources/{quote(name, safe='')}/notice"
    if off and kind is None and duration is None:
        calls.call("DELETE", path)
        _print_done(f"{name}: nothing is announced any more.", as_json=as_json, name=name, notice=None)
        return
    if off or kind is None or duration is None:
        raise click.UsageError("give --kind and --in, such as --kind maintenance --in 10m, or --off alone")
    announced = Notice(kind=NoticeKind(kind), until=datetime.now(UTC) + timedelta(seconds=duration_seconds(duration, "--in")))
    sent = announced.model_dump(mode="json")
    calls.call("PUT", path, sent)
    text = f"{name}: {announced.kind.noun} announced for {moment(announced.until)}."
    _print_done(text, as_json=as_json, name=name, notice=sent)


@sim.command("kill-host")
@click.argument("name")
@click.argument("host", type=click.IntRange(min=0), default=0)
@json_option
@click.pass_obj
def kill_host(calls: SimCalls, name: str, host: int, as_json: bool) -> None:
    """Make one host of a resource stop answering; hosts count from 0."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/hosts/{host}/kill")
    _print_done(f"Host {host} of {name} stopped answering.", as_json=as_json, name=name, killed_host=host)


@sim.command()
@click.argument("name")
@json_option
@click.pass_obj
def admit(calls: SimCalls, name: str, as_json: bool) -> None:
    """Admit a queued resource, even without capacity."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/admit")
    _print_done(f"Admitted {name}.", as_json=as_json, admitted=name)


@sim.command()
@click.argument("name")
@json_option
@click.pass_obj
def delete(calls: SimCalls, name: str, as_json: bool) -> None:
    """Delete a resource without the autoscaler's knowledge."""
    calls.call("DELETE", f"/resources/{quote(name, safe='')}")
    _print_done(f"Deleting {name}.", as_json=as_json, deleting=name)


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise CommandFailed(f"{text!r} is not KEY=VALUE; write it like stockout=true", code=ErrorCode.BAD_INPUT)
    try:
        return key, parse_value(key, value)
    except BadInput:
        shown = shortened(repr(value), _SHOWN)
        raise CommandFailed(f"the value of {key} is not YAML: {shown}", code=ErrorCode.BAD_INPUT) from None


def _warn_if_unused(zone: str, ever: list[Any]) -> None:
    """Warn about a zone in which nothing was ever created, while other zones are in use."""
    used = _zones(ever)
    if zone not in used and used and not _warn_if_mistyped(zone, ever):
        click.echo(f"warning: nothing was ever created in {zone}; zones in use: {listed(used)}", err=True)


def _warn_if_mistyped(zone: str, ever: list[Any]) -> bool:
    """Warn about a zone that looks mistyped: any name is accepted. Returns whether it did."""
    used = _zones(ever)
    close = similar(zone, used)
    mistyped = zone not in used and bool(close)
    if mistyped:
        click.echo(f"warning: nothing was ever created in {zone}; did you mean {close[0]}?", err=True)
    return mistyped


def _zones(ever: list[Any]) -> list[str]:
    return sorted({item["zone"] for item in ever})


def _print_done(text: str, *, as_json: bool, **facts: Any) -> None:
    click.echo(json.dumps(facts, indent=2) if as_json else text)


def _print_settings(zone: str, behaviour: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(behaviour, indent=2))
    else:
        terminal().print(behaviour_view(zone, behaviour))
