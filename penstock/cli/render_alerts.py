"""The first lines of a status on a terminal: everything that keeps the cluster from working normally."""

from collections.abc import Iterator
from datetime import datetime

from rich.markup import escape

from penstock.cli.render_driven import silent_groups
from penstock.cli.render_money import at_cost, silent_sources
from penstock.cli.terminal import lapse
from penstock.contract.answers import ClusterStatus, GroupStatus, ProblemKind
from penstock.model.cluster import ScaleDown
from penstock.wording import counted, listed

SHOWN = 10
"""Problems of locations before the rest are only counted."""
_PROBLEM = {ProblemKind.NOT_WATCHED: "Not watched", ProblemKind.NO_ANSWER: "No answer", ProblemKind.REFUSED: "Refused"}


def alerts(status: ClusterStatus, now: datetime) -> Iterator[str]:
    """The reasons why the cluster does not work normally, a paragraph each."""
    yield from _unread(status)
    if status.closing:
        yield "[bold red]Being deleted[/]: slices are drained and deleted, nothing is launched."
    if status.paused is not None:
        reason = f": {escape(status.paused)}" if status.paused else ""
        yield f"[bold yellow]Paused[/]{reason}. Nothing is launched or drained until: penstock resume"
    if status.recovery is not None:
        since = lapse(status.recovery.since, now)
        if status.closing:
            yield f"[bold yellow]Checking for leftovers[/] for {since}: every location is listed before the cluster ends."
        else:
            reason = escape(status.recovery.reason.rstrip("."))
            held = "Nothing is launched or drained meanwhile."
            if status.recovery.goes_on:
                held = (
                    "The other groups go on; what is not known yet, and what shares a pool or entries with it, buys nothing new."
                )
            yield f"[bold yellow]Recovering[/] for {since}: {reason}. {held}"
        if status.recovery.waiting_for:
            yield f"  Waiting for {escape(listed(status.recovery.waiting_for))}."
    if status.undecided is not None:
        since = lapse(status.undecided.since, now)
        problem = escape(status.undecided.problem)
        tries, again = status.undecided.failures, status.undecided.again_at
        often = f", {tries:,} times" if tries > 1 else ""
        next_try = f" Tried again in {lapse(now, again)}, or once the configuration changes." if again and again > now else ""
        yield f"[bold red]Evaluations fail[/] for {since}{often}: {problem}. The figures are of an older demand.{next_try}"
    yield from _location_problems(status, now)
    yield from _source_problems(status)
    yield from silent_sources(status, now)
    if status.scale_down is ScaleDown.OBSERVE:
        yield f"[bold yellow]Observing[/]: scale_down is observe, so no decision drains anything. {_observed(status)}"
    yield from silent_groups(status, now)
    for group in status.groups:
        yield from _silences(group, status, now)


def _unread(status: ClusterStatus) -> Iterator[str]:
    """That the figures lack messages which have arrived."""
    if status.unread:
        are, them = ("is", "it") if status.unread == 1 else ("are", "them")
        count = counted(status.unread, "message")
        yield f"[bold yellow]{count} {are} not read yet[/]: these figures are from before {them}."


def _observed(status: ClusterStatus) -> str:
    if not status.observed_drains:
        return "The last one would have drained nothing."
    return f"The last one would have drained {counted(status.observed_drains, 'slice')}: penstock decision lists them."


def _source_problems(status: ClusterStatus) -> Iterator[str]:
    """What must be sent again, and demand for which nothing new is bought."""
    for source, why in status.resync_needed.items():
        yield f"[bold yellow]Resync needed[/] from source {escape(source)}: {escape(why)}"
    for source, usage in status.usage.items():
        if usage.resync_needed is not None:
            yield f"[bold yellow]Resync needed[/] for the usage of source {escape(source)}: {escape(usage.resync_needed)}"
    for demand in status.demand.values():
        if demand.buys_nothing is not None:
            yield f"[bold yellow]Buys nothing[/]: {escape(demand.buys_nothing)}"


def _silences(group: GroupStatus, status: ClusterStatus, now: datetime) -> Iterator[str]:
    """What no controller says about READY slices of a group, and should have."""
    ready, name = group.unreported_since, escape(group.name)
    if ready is not None and (now - ready).total_seconds() >= status.ready_grace_seconds:
        yield (
            f"[bold yellow]No usage report[/] has named {counted(group.unreported, 'slice')} of {name},"
            f" READY for up to {lapse(ready, now)}{at_cost(group.unreported_cost_per_hour)}: is the controller running?"
        )
    if group.unclaimed_since is not None:
        yield (
            f"[bold red]Not joined[/] for up to {lapse(group.unclaimed_since, now)}: {counted(group.unclaimed, 'READY slice')} of"
            f" {name}{at_cost(group.unclaimed_cost_per_hour)}. A controller reports usage and names other slices, but not these,"
            " so they hold nothing."
        )
    if group.not_started_since is not None:
        yield (
            f"[bold yellow]Not started[/] for up to {lapse(group.not_started_since, now)}: tasks placed on READY slices of"
            f" {name}, such as {escape(listed(group.not_started))}: does the controller use these slices?"
        )


def _location_problems(status: ClusterStatus, now: datetime) -> Iterator[str]:
    """The locations that cannot be watched; those with equal problems share a line."""
    alike: dict[tuple[ProblemKind, str], list[str]] = {}
    for key, problem in status.locations.items():
        alike.setdefault((problem.kind, problem.message), []).append(key)
    for (kind, message), keys in list(alike.items())[:SHOWN]:
        since = min(status.locations[key].since for key in keys)
        what = f"[bold red]{_PROBLEM[kind]}[/] for {lapse(since, now)}: {escape(listed(keys))}"
        yield f"{what}. {escape(message.rstrip('.'))}. Nothing is launched there; the other locations go on."
    if len(alike) > SHOWN:
        yield f"  and {counted(len(alike) - SHOWN, 'more problem')} of locations: --json has them"
