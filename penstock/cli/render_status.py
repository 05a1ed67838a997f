"""How a cluster is, as a view for a terminal: what needs attention first, then groups, demand, drains and recent_failures."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.screen import clock, entries, lapse, moment, titled
from penstock.contract.answers import ClusterStatus, GroupStatus
from penstock.model.decision import Tier
from penstock.model.slices import Availability, SliceState
from penstock.model.units import format_seconds
from penstock.wording import counted, listed

SHOWN = 10
"""Rows of drains, and of groups that have nothing and miss nothing, before the rest are only counted."""
LATEST = 5
"""Troubles and rejected messages that are shown; status --json has all that are kept."""

SILENCE_SECONDS = 5.0
"""A cluster that has not answered for so long may be anything but what is shown."""

STATE_STYLE = {
    **{state: "yellow" for state in SliceState if state.in_flight},
    SliceState.READY: "green",
    SliceState.DRAINING: "magenta",
    SliceState.DELETING: "magenta",
    SliceState.FAILED: "red",
    SliceState.TERMINATED: "dim",
}
_AVAILABILITY_STYLE = {Availability.AVAILABLE: "green", Availability.AT_MAX: "cyan", Availability.DISABLED: "bold red"}
_WELL = (Availability.AVAILABLE, Availability.AT_MAX, Availability.POOL_EXHAUSTED)
"""Nothing ails such a group: what it may have follows from the configuration."""


def status_view(status: ClusterStatus, now: datetime) -> RenderableType:
    """Everything about the cluster, as seen at `now`."""
    parts: list[RenderableType] = [_heading(status, now), *_banners(status, now), _groups(status, now)]
    if status.demand or not status.closing:
        parts.append(_demand(status) if status.demand else "No demand was submitted yet: penstock demand submit FILE")
        parts.append(_outcome(status))
    if status.paused is not None:
        parts.append("What was told since the pause is not decided on; penstock decision says what would be.")
    if status.standing:
        parts.append(f"Standing requests of {escape(listed(status.standing))}.")
    if status.drains:
        parts.append(_drains(status))
    if status.recent_failures:
        parts.append(_recent_failures(status, now))
    if status.rejected_in_all:
        parts.append(_rejected(status, now))
    return Group(*parts)


def _heading(status: ClusterStatus, now: datetime) -> str:
    told = f"[bold]{escape(status.cluster)}[/]: {counted(status.slices, 'slice')}, configuration {status.config_revision}"
    if status.evaluated_at is None:
        return f"{told}, not evaluated yet"
    often = "once" if status.evaluations == 1 else f"{status.evaluations:,} times, last"
    told += f", evaluated {often} {lapse(status.evaluated_at, now)} ago"
    if status.next_change_at is not None and status.next_change_at > now:
        told += f", next change by itself in {lapse(now, status.next_change_at)}"
    return told


def _banners(status: ClusterStatus, now: datetime) -> Iterator[str]:
    """What keeps the cluster from its usual work."""
    if status.closing:
        yield "[bold red]Being deleted[/]: slices drain and go, nothing is launched."
    if status.paused is not None:
        reason = f": {escape(status.paused)}" if status.paused else ""
        yield f"[bold yellow]Paused[/]{reason}. Nothing is launched or drained until: penstock resume"
    if status.recovery is not None:
        since = lapse(status.recovery.since, now)
        if status.closing:
            told = f"[bold yellow]Making sure[/] for {since} that nothing is left: every location is asked for all that it has"
        else:
            told = f"[bold yellow]Recovering[/] for {since}: {escape(status.recovery.reason)}"
        yield f"{told}. Nothing is ordered meanwhile."
        if status.recovery.waiting_for:
            yield f"  Waiting for {escape(listed(status.recovery.waiting_for))}."
    for source, why in status.resync_needed.items():
        yield f"[bold yellow]Demand of {escape(source)} must be sent again[/]: {escape(why)}"


def _groups(status: ClusterStatus, now: datetime) -> Table:
    table = titled("Groups")
    table.add_column("group", overflow="fold")
    table.add_column("slices", justify="right", no_wrap=True)
    table.add_column("states", overflow="fold")
    table.add_column("can be asked for more", overflow="fold", min_width=12)
    quiet = [g for g in status.groups if not g.slices and g.configured and g.availability in _WELL]
    hidden = {group.name for group in quiet[SHOWN:]}
    for group in (group for group in status.groups if group.name not in hidden):
        have = f"{sum(group.slices.values())}/{group.max_slices}" if group.configured else str(sum(group.slices.values()))
        table.add_row(escape(group.name), have, _states(group), _availability(group, now))
    if hidden:
        table.caption = f"and {counted(len(hidden), 'more group')} without slices"
    return table


def _states(group: GroupStatus) -> str:
    told = [f"{group.slices[s]} [{STATE_STYLE[s]}]{s}[/]" for s in SliceState if group.slices.get(s)]
    if group.queued:
        told.append(f"{group.queued} [yellow]queued[/]")
    return ", ".join(told) or "[dim]–[/]"


def _availability(group: GroupStatus, now: datetime) -> str:
    if not group.configured:
        return "[yellow]no longer configured[/]: its slices go as they empty"
    told = f"[{_AVAILABILITY_STYLE.get(group.availability, 'red')}]{group.availability}[/]"
    if group.until is not None and group.until > now:
        told += f" until {clock(group.until, now)} ({lapse(now, group.until)})"
    return f"{told}: {escape(group.reason)}" if group.reason else told


def _demand(status: ClusterStatus) -> Table:
    table = titled("Demand")
    table.add_column("source", overflow="fold")
    for name in ("tasks", "epoch", "revision"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, source in sorted(status.demand.items()):
        epoch, revision = (str(number) if number >= 0 else "–" for number in (source.epoch, source.revision))
        table.add_row(escape(name), f"{source.tasks:,}", epoch, revision)
    return table


def _outcome(status: ClusterStatus) -> str:
    """What becomes of the demand, in a line or two."""
    if status.evaluated_at is None:
        return "Nothing is decided yet."
    tiers = [f"{status.placed[tier]:,} {tier.replace('_', ' ')}" for tier in Tier if status.placed.get(tier)]
    told = f"Placed {entries(sum(status.placed.values()))}" + (f" ({', '.join(tiers)})" if tiers else "")
    if status.deferred:
        told += f"; [yellow]{counted(status.deferred, 'slice')} deferred[/] by launch limits"
    unmet = [f"{count:,} {code}" for code, count in status.unmet.items() if count]
    if not unmet:
        return f"{told}; none unmet."
    return f"{told}; [red]{sum(status.unmet.values()):,} unmet[/] ({', '.join(unmet)}): penstock decision says why."


def _drains(status: ClusterStatus) -> Table:
    table = titled("Drains")
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("cause", overflow="fold")
    table.add_column("with work on it at the deadline", overflow="fold")
    for drain in status.drains[:SHOWN]:
        end = "[red]is deleted[/]" if drain.force else "goes back to READY"
        table.add_row(escape(drain.slice_id), escape(drain.cause), end)
    if len(status.drains) > SHOWN:
        table.caption = f"and {len(status.drains) - SHOWN:,} more"
    return table


def _recent_failures(status: ClusterStatus, now: datetime) -> Table:
    table = titled("Troubles lately", style="bold red", key=1)
    table.add_column("ago", justify="right", no_wrap=True)
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("what happened", overflow="fold")
    for trouble in sorted(status.recent_failures, key=lambda trouble: trouble.at, reverse=True)[:LATEST]:
        what = f"[red]{trouble.failure.kind}[/]" + (f": {escape(trouble.failure.message)}" if trouble.failure.message else "")
        table.add_row(lapse(trouble.at, now), escape(trouble.slice_id or trouble.group), what)
    if len(status.recent_failures) > LATEST:
        table.caption = f"and {len(status.recent_failures) - LATEST:,} more: --json has them"
    return table


def _rejected(status: ClusterStatus, now: datetime) -> Table:
    table = titled(f"Messages that could not be used: {status.rejected_in_all:,}", style="bold red", key=1)
    table.add_column("at", no_wrap=True)
    table.add_column("message", overflow="fold")
    table.add_column("problem", overflow="fold")
    for rejection in sorted(status.rejected, key=lambda rejection: rejection.at, reverse=True)[:LATEST]:
        table.add_row(clock(rejection.at, now), escape(rejection.message), escape(rejection.problem))
    return table


def caption(status: ClusterStatus, now: datetime, heard: datetime) -> str:
    """The first line of a live view: whether it is true now, and how to leave it."""
    told = f"[dim]{moment(now)} · version {status.version:,} · Ctrl-C ends[/]"
    silence = (now - heard).total_seconds()
    if silence < SILENCE_SECONDS:
        return told
    return f"{told} · [bold red]no answer for {format_seconds(silence)}[/]: the server or the worker is away"
