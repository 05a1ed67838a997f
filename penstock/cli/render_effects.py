"""What a configuration would do if it were applied, for a terminal: short tables of launches and drains."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.terminal import Prose, lapse, moment, titled
from penstock.contract.answers import DrainSummary
from penstock.contract.effects import Effects, OutdatedEffect
from penstock.wording import counted

SHOWN = 10
"""Rows of a table before the rest are only counted."""


def effects_view(effects: Effects) -> RenderableType:
    """What the next decision would do otherwise."""
    parts: list[RenderableType] = []
    if effects.held is not None:
        parts.append(Prose(f"[bold yellow]{escape(effects.held)}[/]"))
    if not effects.differ:
        parts.append("Nothing would be launched or drained for it now.")
        return Group(*parts)
    if effects.launches:
        parts.append(_launches(effects))
    parts += _drains(effects)
    if effects.outdated:
        parts.append(_outdated(effects))
    if effects.blocked:
        parts.append(_blocked(effects))
    parts += [Prose(line) for line in _closing(effects)]
    return Group(*parts)


def _launches(effects: Effects) -> RenderableType:
    table = titled("Launches at once")
    table.add_column("group", overflow="fold")
    for name in ("now", "if applied"):
        table.add_column(name, justify="right")
    for item in effects.launches[:SHOWN]:
        table.add_row(escape(item.group), str(item.before), f"[bold]{item.after}[/]")
    if len(effects.launches) > SHOWN:
        table.caption = f"and {counted(len(effects.launches) - SHOWN, 'more group')}: --json lists them all"
    return table


def _drains(effects: Effects) -> Iterator[RenderableType]:
    kinds = (
        ("Slices that would drain", effects.drains),
        ("Slices that would be called off", effects.called_off),
        ("Slices that would stay after all", effects.spared),
        ("Drains that would be cancelled", effects.cancelled),
    )
    for title, drains in kinds:
        if drains:
            yield _table(title, drains)


def _table(title: str, drains: Sequence[DrainSummary]) -> RenderableType:
    table = titled(title)
    for name in ("slice", "group", "cause"):
        table.add_column(name, overflow="fold")
    for drain in drains[:SHOWN]:
        table.add_row(escape(drain.slice), escape(drain.group), escape(drain.why))
    if len(drains) > SHOWN:
        table.caption = f"and {counted(len(drains) - SHOWN, 'more slice')}: --json lists them all"
    return table


def _outdated(effects: Effects) -> RenderableType:
    """Slices that go one after another, as the disruption budget and the window allow."""
    table = titled("Slices that would be replaced, in all")
    table.add_column("group", overflow="fold")
    table.add_column("cause", overflow="fold")
    for name in ("now", "if applied", "at a time"):
        table.add_column(name, justify="right")
    table.add_column("begins", overflow="fold")
    for item in effects.outdated[:SHOWN]:
        row = (escape(item.group), escape(item.cause), f"{item.before:,}", f"[bold]{item.after:,}[/]")
        table.add_row(*row, *(_pace(item, effects.at) if item.after else ("–", "–")))
    if len(effects.outdated) > SHOWN:
        table.caption = f"and {counted(len(effects.outdated) - SHOWN, 'more group')}: --json lists them all"
    return table


def _pace(item: OutdatedEffect, now: datetime) -> tuple[str, str]:
    """How many slices are replaced at a time, and from when."""
    if not item.at_once:
        return "[red]0[/]", "never: max_unavailable is 0"
    opens = "at once" if item.opens_at is None else f"{moment(item.opens_at)} (in {lapse(now, item.opens_at)})"
    return f"{item.at_once:,}", opens


def _blocked(effects: Effects) -> RenderableType:
    table = titled("Groups that would launch no more")
    table.add_column("group", overflow="fold")
    table.add_column("why", overflow="fold")
    for item in effects.blocked[:SHOWN]:
        table.add_row(escape(item.group), escape(item.reason))
    if len(effects.blocked) > SHOWN:
        table.caption = f"and {counted(len(effects.blocked) - SHOWN, 'more group')}: --json lists them all"
    return table


def _closing(effects: Effects) -> Iterator[str]:
    if any(item.after and item.at_once for item in effects.outdated):
        yield "An idle slice that is to be replaced drains first; a busy one drains once its replacement is READY."
    for group, slices in effects.removed.items():
        yield f"{escape(group)} has {counted(slices, 'slice')}: what works there is not stopped, and they go once they are idle."
    if effects.unmet.before != effects.unmet.after:
        yield f"Unmet: {counted(effects.unmet.before, 'task')} now, {effects.unmet.after:,} if applied."
    before, after = effects.cost_per_hour_before, effects.cost_per_hour_after
    if before != after:
        yield f"Cost per hour once all launches are READY: {before:,.2f} now, {after:,.2f} if applied."
