"""`penstock sim`: look at the simulated cloud, and make trouble there."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import click
import yaml

from penstock.cli.connect import json_option, noted
from penstock.cli.failures import EXIT_BAD_INPUT, CommandFailed
from penstock.cli.render_sim import behaviour_view, resources_view
from penstock.cli.screen import screen
from penstock.cli.sim_calls import DEFAULT_URL, SimCalls


class _TellingGroup(click.Group):
    """Says in words why a command could not do its work."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as failed:
            failed.tell()
            ctx.exit(failed.code)


@click.group(cls=_TellingGroup, short_help="Look at the simulated cloud, and make trouble there.")
@click.option("--url", envvar="PENSTOCK_SIM_URL", help=f"The simulated cloud.  [default: {DEFAULT_URL}]")
@click.pass_context
def sim(ctx: click.Context, url: str | None) -> None:
    """Look at the simulated cloud, and make trouble there.

    What a zone can be told to do is in docs/simulated-cloud.md.
    """
    ctx.obj = SimCalls(url or noted("sim") or DEFAULT_URL)


@sim.command("list")
@click.option("--zone", help="Only this zone.")
@click.option("--all", "everything", is_flag=True, help="Also what is gone.")
@json_option
@click.pass_obj
def list_(calls: SimCalls, zone: str | None, everything: bool, as_json: bool) -> None:
    """List what exists in the simulated cloud."""
    items = [
        item
        for item in calls.call("GET", "/resources")["items"]
        if zone in (None, item["zone"]) and (everything or item["phase"] != "gone")
    ]
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
    _tell_behaviour(zone, calls.call("GET", f"/zones/{quote(zone, safe='')}"), as_json=as_json)


@sim.command("set")
@click.argument("zone")
@click.argument("behaviour", nargs=-1, metavar="KEY=VALUE…")
@click.option("--reset", is_flag=True, help="Forget what was set before.")
@json_option
@click.pass_obj
def set_(calls: SimCalls, zone: str, behaviour: tuple[str, ...], reset: bool, as_json: bool) -> None:
    """Change how a zone behaves from now on.

    Such as stockout=true, capacity=2, boot_latency=30s or lost_replies=1: docs/simulated-cloud.md has them all. What is not
    named stays as it is. KEY=null unsets one, and --reset all of them.
    """
    path = f"/zones/{quote(zone, safe='')}"
    before = {} if reset else calls.call("GET", path)
    wanted = before | dict(map(_pair, behaviour))
    given = {key: value for key, value in wanted.items() if value is not None}
    _tell_behaviour(zone, calls.call("PUT", path, given), as_json=as_json)


@sim.command()
@click.argument("name", required=False)
@click.option("--zone", help="Every preemptible resource of this zone.")
@click.pass_obj
def preempt(calls: SimCalls, name: str | None, zone: str | None) -> None:
    """Take one resource away, or all preemptible ones of a zone."""
    if (name is None) == (zone is None):
        raise click.UsageError("give the NAME of a resource or --zone, one of them")
    if zone is not None:
        taken = calls.call("POST", f"/zones/{quote(zone, safe='')}/preempt")["preempted"]
        click.echo(f"Preempted in {zone}: {', '.join(taken) or 'nothing, for nothing there is preemptible'}.")
    else:
        calls.call("POST", f"/resources/{quote(str(name), safe='')}/preempt")
        click.echo(f"Preempted {name}.")


@sim.command("kill-host")
@click.argument("name")
@click.argument("host", type=click.IntRange(min=0), default=0)
@click.pass_obj
def kill_host(calls: SimCalls, name: str, host: int) -> None:
    """Let one host of a resource answer no more; hosts count from 0."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/hosts/{host}/kill")
    click.echo(f"Host {host} of {name} answers no more.")


@sim.command()
@click.argument("name")
@click.pass_obj
def admit(calls: SimCalls, name: str) -> None:
    """Let a queued resource in, room or not."""
    calls.call("POST", f"/resources/{quote(name, safe='')}/admit")
    click.echo(f"Admitted {name}.")


@sim.command()
@click.argument("name")
@click.pass_obj
def delete(calls: SimCalls, name: str) -> None:
    """Delete a resource behind the autoscaler's back."""
    calls.call("DELETE", f"/resources/{quote(name, safe='')}")
    click.echo(f"Deleting {name}.")


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise CommandFailed(f"{text!r} is not KEY=VALUE; write it like stockout=true", code=EXIT_BAD_INPUT)
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise CommandFailed(f"the value of {key} cannot be read: {value!r}", code=EXIT_BAD_INPUT) from None


def _tell_behaviour(zone: str, behaviour: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(behaviour, indent=2))
    else:
        screen().print(behaviour_view(zone, behaviour))
