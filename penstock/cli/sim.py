"""`penstock sim`: look at the simulated cloud, and make trouble there."""

import json
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

import click
import yaml

from penstock.cli.connect import json_option
from penstock.cli.failures import EXIT_BAD_INPUT, CommandFailed
from penstock.cli.render_sim import behaviour_view, resources_view
from penstock.cli.screen import screen
from penstock.cli.sim_calls import SimCalls
from penstock.contract.addresses import DEFAULT_SIM_URL
from penstock.notes import read_note
from penstock.wording import listed

_WRITTEN = "Write it like stockout=true, boot_latency=30s or 'quota={scope: zone, limit: 3}': docs/simulated-cloud.md"


class _TellingGroup(click.Group):
    """Says in words why a command could not do its work."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as failed:
            failed.tell()
            ctx.exit(failed.code)


@click.group(cls=_TellingGroup, short_help="Look at the simulated cloud, and make trouble there.")
@click.option("--url", envvar="PENSTOCK_SIM_URL", help=f"The simulated cloud.  [default: {DEFAULT_SIM_URL}]")
@click.pass_context
def sim(ctx: click.Context, url: str | None) -> None:
    """Look at the simulated cloud, and make trouble there.

    What a zone can be told to do is in docs/simulated-cloud.md.
    """
    ctx.obj = SimCalls(url or read_note("sim") or DEFAULT_SIM_URL)


@sim.command("list")
@click.option("--zone", help="Only this zone.")
@click.option("--all", "everything", is_flag=True, help="Also what is gone.")
@json_option
@click.pass_obj
def list_(calls: SimCalls, zone: str | None, everything: bool, as_json: bool) -> None:
    """List what exists in the simulated cloud."""
    ever = calls.call("GET", "/resources")["items"]
    if zone is not None:
        _tell_strange(zone, ever)
    items = [item for item in ever if zone in (None, item["zone"]) and (everything or item["phase"] != "gone")]
    if as_json:
        click.echo(json.dumps(items, indent=2))
    else:
        screen().print(resources_view(items, datetime.now(UTC)))


@sim.command()
@click.argument("zone")
@json_option
@click.pass_obj
def show(calls: SimCalls, zone: str, as_json: bool) -> None:
    """Show how a zone behaves."""
    _tell_strange(zone, calls.call("GET", "/resources")["items"])
    _tell_behaviour(zone, calls.call("GET", f"/zones/{quote(zone, safe='')}"), as_json=as_json)


@sim.command("set")
@click.argument("zone")
@click.argument("behaviour", nargs=-1, metavar="KEY=VALUE…")
@click.option("--reset", is_flag=True, help="Forget what was set before.")
@json_option
@click.pass_obj
def set_(calls: SimCalls, zone: str, behaviour: tuple[str, ...], reset: bool, as_json: bool) -> None:
    """Change how a zone behaves from now on.

    Such as stockout=true, capacity=2, boot_latency=30s or 'quota={scope: zone, limit: 3}': docs/simulated-cloud.md has them all.
    What is not named stays as it is. KEY=null unsets one, and --reset all of them.
    """
    path = f"/zones/{quote(zone, safe='')}"
    before = {} if reset else calls.call("GET", path)
    wanted = before | dict(map(_pair, behaviour))
    given = {key: value for key, value in wanted.items() if value is not None}
    try:
        told = calls.call("PUT", path, given)
    except CommandFailed as failed:
        hints = (_WRITTEN,) if failed.code == EXIT_BAD_INPUT else ()
        raise CommandFailed(failed.message, *failed.hints, *hints, code=failed.code) from None
    _tell_mistyped(zone, calls.call("GET", "/resources")["items"])
    _tell_behaviour(zone, told, as_json=as_json)


@sim.command()
@click.argument("name", required=False)
@click.option("--zone", help="Every preemptible resource of this zone.")
@json_option
@click.pass_obj
def preempt(calls: SimCalls, name: str | None, zone: str | None, as_json: bool) -> None:
    """Take one resource away, or all preemptible ones of a zone."""
    if (name is None) == (zone is None):
        raise click.UsageError("give the NAME of a resource or --zone, one of them")
    if zone is not None:
        _tell_strange(zone, calls.call("GET", "/resources")["items"])
        taken = calls.call("POST", f"/zones/{quote(zone, safe='')}/preempt")["preempted"]
        told = f"Preempted in {zone}: {', '.join(taken) or 'nothing, for nothing there is preemptible'}."
    else:
        calls.call("POST", f"/resources/{quote(str(name), safe='')}/preempt")
        taken, told = [name], f"Preempted {name}."
    _tell_done(told, as_json=as_json, preempted=taken)


@sim.command("kill-host")
@click.argument("name")
@click.argument("host", type=click.IntRange(min=0), default=0)
@json_option
@click.pass_obj
def kill_host(calls: SimCalls, name: str, host: int, as_json: bool) -> None:
    """Let one host of a resource answer no more; hosts count from 0."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/hosts/{host}/kill")
    _tell_done(f"Host {host} of {name} answers no more.", as_json=as_json, name=name, killed_host=host)


@sim.command()
@click.argument("name")
@json_option
@click.pass_obj
def admit(calls: SimCalls, name: str, as_json: bool) -> None:
    """Let a queued resource in, room or not."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/admit")
    _tell_done(f"Admitted {name}.", as_json=as_json, admitted=name)


@sim.command()
@click.argument("name")
@json_option
@click.pass_obj
def delete(calls: SimCalls, name: str, as_json: bool) -> None:
    """Delete a resource behind the autoscaler's back."""
    calls.call("DELETE", f"/resources/{quote(name, safe='')}")
    _tell_done(f"Deleting {name}.", as_json=as_json, deleting=name)


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise CommandFailed(f"{text!r} is not KEY=VALUE; write it like stockout=true", code=EXIT_BAD_INPUT)
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise CommandFailed(f"the value of {key} cannot be read: {value!r}", code=EXIT_BAD_INPUT) from None


def _tell_strange(zone: str, ever: list[Any]) -> None:
    """Warn of a zone in which nothing was ever made, while something was elsewhere."""
    used = _zones(ever)
    if zone not in used and used and not _tell_mistyped(zone, ever):
        click.echo(f"warning: nothing was ever made in {zone}; something was in {listed(used)}", err=True)


def _tell_mistyped(zone: str, ever: list[Any]) -> bool:
    """Any zone can be told anything, also one that is only mistyped; whether that was said."""
    used = _zones(ever)
    close = get_close_matches(zone, used, n=1)
    mistyped = zone not in used and bool(close)
    if mistyped:
        click.echo(f"warning: nothing was ever made in {zone}; did you mean {close[0]}?", err=True)
    return mistyped


def _zones(ever: list[Any]) -> list[str]:
    return sorted({item["zone"] for item in ever})


def _tell_done(told: str, *, as_json: bool, **facts: Any) -> None:
    click.echo(json.dumps(facts, indent=2) if as_json else told)


def _tell_behaviour(zone: str, behaviour: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(behaviour, indent=2))
    else:
        screen().print(behaviour_view(zone, behaviour))
