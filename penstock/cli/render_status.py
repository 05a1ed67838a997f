"""A cluster's status for a terminal: what needs attention first, then groups, demand, drains, failures and rejected messages."""

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.render_alerts import alerts
from penstock.cli.render_driven import queues_view
from penstock.cli.render_money import cost_view
from penstock.cli.render_notices import notices_view
from penstock.cli.render_pressure import pressure_view
from penstock.cli.terminal import Prose, clock, lapse, moment, titled
from penstock.contract.answers import (
    CHEAPER,
    ClusterStatus,
    GroupStatus,
    RecentFailure,
    Rejection,
    SourceStatus,
)
from penstock.model.decision import Tier
from penstock.model.slices import Availability, SliceState
from penstock.model.units import format_seconds
from penstock.wording import counted

SHOWN = 10
"""Rows of drains, and of groups without slices or blocks, before the rest are only counted."""
LATEST = 5
"""Rows of failures and rejected messages; status --json has all that are kept."""

SILENCE_SECONDS = 5.0
"""After this time without an answer a live view says that it may be outdated."""

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
"""Not blocked: these follow from the configuration."""


def status_view(status: ClusterStatus, now: datetime) -> RenderableType:
    """Everything about the cluster, with ages as of `now`."""
    parts: list[RenderableType] = [*map(Prose, alerts(status, now)), Prose(_heading(status, now)), _groups(status, now)]
    parts += cost_view(status)
    if status.demand or not status.closing:
        parts.append(_demand(status, now) if status.demand else "No demand was submitted: penstock demand submit FILE")
        if any(source.slices for source in status.usage.values()):
            parts.append(_usage(status, now))
        parts.append(Prose(_outcome(status, now)))
    if status.behind is not None:
        held = " penstock decision shows what would be decided." if status.held is not None else ""
        parts.append(Prose(f"{escape(status.behind[0].upper() + status.behind[1:])}.{held}"))
    if not status.thorough:
        parts.append(Prose(f"[yellow]{CHEAPER}[/]"))
    parts += [*queues_view(status, now), *pressure_view(status, now)]
    parts += notices_view(status, now)
    if status.drains:
        parts.append(_drains(status, now))
    if status.recent_failures:
        parts.append(_failures(status, now))
    if status.rejected_in_all:
        parts.append(_rejected(status, now))
    return Group(*parts)


def _heading(status: ClusterStatus, now: datetime) -> str:
    text = f"[bold]{escape(status.cluster)}[/]: {counted(status.slices, 'slice')}, configuration {status.config_revision}"
    if status.evaluated_at is None:
        return f"{text}, not evaluated yet"
    often = "once" if status.evaluations == 1 else f"{status.evaluations:,} times, last"
    text += f", evaluated {often} {lapse(status.evaluated_at, now)} ago"
    if status.next_change_at is not None and status.next_change_at > now:
        text += f", next scheduled evaluation in {lapse(now, status.next_change_at)}"
    return text


def _groups(status: ClusterStatus, now: datetime) -> Table:
    table = titled("Groups")
    table.add_column("group", overflow="fold")
    table.add_column("slices", justify="right", no_wrap=True)
    table.add_column("states", overflow="fold")
    table.add_column("availability", overflow="fold", min_width=12)
    quiet = [g for g in status.groups if not g.slices and g.configured and g.availability in _WELL]
    hidden = {group.name for group in quiet[SHOWN:]}
    for group in (group for group in status.groups if group.name not in hidden):
        have = f"{sum(group.slices.values())}/{group.max_slices}" if group.configured else str(sum(group.slices.values()))
        table.add_row(escape(group.name), have, _states(group), _availability(group, now))
    if hidden:
        table.caption = f"and {counted(len(hidden), 'more group')} without slices"
    return table


def _states(group: GroupStatus) -> str:
    states = [f"{group.slices[s]} [{STATE_STYLE[s]}]{s}[/]" for s in SliceState if group.slices.get(s)]
    if group.queued:
        states.append(f"{group.queued} [yellow]queued[/]")
    return ", ".join(states) or "[dim]–[/]"


def _availability(group: GroupStatus, now: datetime) -> str:
    if not group.configured:
        return "[yellow]no longer configured[/]: nothing is launched"
    text = f"[{_AVAILABILITY_STYLE.get(group.availability, 'red')}]{group.availability}[/]"
    if group.until is not None and group.until > now:
        text += f" until {clock(group.until, now)} ({lapse(now, group.until)})"
    return f"{text}: {escape(group.reason)}" if group.reason else text


def _demand(status: ClusterStatus, now: datetime) -> Table:
    table = titled("Demand")
    table.add_column("source", overflow="fold")
    leased = any(source.lease_ends is not None for source in status.demand.values())
    for name in ("tasks", "epoch", "revision", *(["lease"] if leased else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for name, source in sorted(status.demand.items()):
        lease = [_lease(source, now)] if leased else []
        table.add_row(escape(name), f"{source.tasks:,}", _number(source.epoch), _number(source.revision), *lease)
    return table


def _lease(source: SourceStatus, now: datetime) -> str:
    """How long the lease of the demand lasts without another message."""
    if source.lease_ends is None:
        return "–"
    if source.lease_ends > now:
        return lapse(now, source.lease_ends)
    return f"[red]lapsed {lapse(source.lease_ends, now)} ago[/]"


def _usage(status: ClusterStatus, now: datetime) -> Table:
    """The sources of usage: how much each said, when it was last heard, and whether its word is stale."""
    table = titled("Usage")
    table.add_column("source", overflow="fold")
    for name in ("slices", "epoch", "revision", "last heard"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, source in sorted(status.usage.items()):
        heard = f"{lapse(source.at, now)} ago"
        if source.stale_since is not None:
            heard += f", [yellow]stale for {lapse(source.stale_since, now)}[/]"
        table.add_row(escape(name), f"{source.slices:,}", _number(source.epoch), _number(source.revision), heard)
    return table


def _number(number: int) -> str:
    return str(number) if number >= 0 else "–"


def _outcome(status: ClusterStatus, now: datetime) -> str:
    """Counts of placed and unmet tasks and of deferred slices; while the cluster is held, with the time of their evaluation."""
    if status.evaluated_at is None:
        return "Not evaluated yet."
    tiers = [f"{status.placed[tier]:,} {tier.replace('_', ' ')}" for tier in Tier if status.placed.get(tier)]
    text = f"Placed {counted(sum(status.placed.values()), 'task')}" + (f" ({', '.join(tiers)})" if tiers else "")
    if status.held is not None:
        text = f"At the last evaluation, {lapse(status.evaluated_at, now)} ago: {text[0].lower()}{text[1:]}"
    if status.deferred:
        text += f"; [yellow]{counted(status.deferred, 'slice')} deferred[/] by launch limits"
    unmet = [f"{count:,} {code}" for code, count in status.unmet.items() if count]
    if not unmet:
        return f"{text}; none unmet."
    return f"{text}; [red]{sum(status.unmet.values()):,} unmet[/] ({', '.join(unmet)}): penstock decision says why."


def _drains(status: ClusterStatus, now: datetime) -> Table:
    table = titled("Drains")
    table.add_column("no.", justify="right", no_wrap=True)
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("cause", overflow="fold")
    table.add_column("deadline", no_wrap=True)
    table.add_column("at the deadline", overflow="fold")
    for drain in status.drains[:SHOWN]:
        idle = drain.idle and not drain.needs_confirmation
        end = "[red]deleted[/]" if drain.force else "deleted, as it is idle" if idle else "back to READY"
        until = f"{clock(drain.deadline, now)} ({lapse(now, drain.deadline)})" if drain.deadline is not None else "–"
        table.add_row(str(drain.number), escape(drain.slice_id), escape(drain.why), until, end)
    if len(status.drains) > SHOWN:
        table.caption = f"and {len(status.drains) - SHOWN:,} more"
    return table


class _Dated(Protocol):
    @property
    def at(self) -> datetime: ...


T = TypeVar("T", bound=_Dated)


def _merged(items: Sequence[T], keys: Sequence[Hashable]) -> list[tuple[T, int]]:
    """The latest of each kind of equal items, with their number, newest first."""
    counts = Counter(keys)
    latest = {key: item for item, key in sorted(zip(items, keys, strict=True), key=lambda pair: pair[0].at)}
    found = [(item, counts[key]) for key, item in latest.items()]
    return sorted(found, key=lambda pair: pair[0].at, reverse=True)


def _failures(status: ClusterStatus, now: datetime) -> Table:
    """Failures of one group that are equal are one row, with the latest slice."""
    rows = _merged(status.recent_failures, [_failure_key(failed) for failed in status.recent_failures])
    table = titled("Recent failures", style="bold red", key=2)
    table.add_column("ago", justify="right", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("slice", no_wrap=True, overflow="fold")
    table.add_column("failure", overflow="fold")
    for failed, count in rows[:LATEST]:
        what = f"[red]{failed.failure.kind}[/]" + (f": {escape(failed.failure.message)}" if failed.failure.message else "")
        table.add_row(lapse(failed.at, now), str(count), escape(failed.slice_id or failed.group), what)
    if len(rows) > LATEST:
        table.caption = f"and {len(rows) - LATEST:,} more: --json has them"
    return table


def _failure_key(failed: RecentFailure) -> Hashable:
    return (failed.group, failed.failure.kind, failed.failure.message)


def _rejected(status: ClusterStatus, now: datetime) -> Table:
    rows = _merged(status.rejected, [_rejection_key(rejection) for rejection in status.rejected])
    table = titled(f"Rejected messages: {status.rejected_in_all:,}", style="bold red", key=2)
    table.add_column("ago", justify="right", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("message", overflow="fold")
    table.add_column("problem", overflow="fold")
    for rejection, count in rows[:LATEST]:
        table.add_row(lapse(rejection.at, now), str(count), escape(rejection.message), escape(rejection.problem))
    return table


def _rejection_key(rejection: Rejection) -> Hashable:
    return (rejection.message, rejection.problem)


def caption(status: ClusterStatus, now: datetime, answered: datetime) -> str:
    """The first line of a live view: its time, how to leave it, and whether it may be outdated."""
    text = f"[dim]{moment(now)} · version {status.version:,} · Ctrl-C ends[/]"
    silence = (now - answered).total_seconds()
    if silence < SILENCE_SECONDS:
        return text
    return f"{text} · [bold red]no answer for {format_seconds(silence)}[/]: the server or the worker does not respond"
