"""The demand of each source for a terminal: its epoch and revision, and a row for each shape."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.terminal import Prose, titled
from penstock.core.state.state import SourceDemand
from penstock.model.demand import Demand
from penstock.model.shape import Shape
from penstock.model.value import Value
from penstock.wording import counted

SHOWN = 20
"""Shapes of one source before the rest are only counted."""
FIRST_IDS = 3
"""Task ids of each shape in JSON."""


class ShapeDemand(Value):
    """The entries of one shape; `invalid` are tasks that could not be parsed or gangs that contradict themselves."""

    shape: Shape
    description: str
    entries: int
    tasks: int
    invalid: str | None = None
    first_task_ids: tuple[str, ...] = ()


class SourceDetails(Value):
    """The demand of one source that the autoscaler holds; epoch and revision are -1 before its first message."""

    source: str
    epoch: int
    revision: int
    tasks: int
    gangs: int
    resync_needed: str | None
    shapes: tuple[ShapeDemand, ...]


def source_details(name: str, held: SourceDemand) -> SourceDetails:
    """Sum up the demand of one source."""
    return SourceDetails(
        source=name,
        epoch=held.epoch,
        revision=held.revision,
        tasks=len(held.demand.task_ids),
        gangs=len(held.demand.gang_ids),
        resync_needed=held.resync_needed,
        shapes=_shapes(held.demand),
    )


def _shapes(demand: Demand) -> tuple[ShapeDemand, ...]:
    """The shapes in order of their first entry; entries with a fault are apart."""
    found: dict[tuple[int, str | None], ShapeDemand] = {}
    for run, ids, _ in demand.pieces():
        fault = f"{run.fault.code}: {run.fault.message}" if run.fault is not None else None
        shape = demand.workload.shapes[run.shape]
        empty = ShapeDemand(shape=shape, description=str(shape), entries=0, tasks=0, invalid=fault)
        known = found.get((run.shape, fault), empty)
        added = {
            "entries": known.entries + run.entries,
            "tasks": known.tasks + len(ids),
            "first_task_ids": (*known.first_task_ids, *ids)[:FIRST_IDS],
        }
        found[run.shape, fault] = known.model_copy(update=added)
    return tuple(found.values())


def demand_view(sources: Sequence[SourceDetails]) -> RenderableType:
    """A line and a table for each source."""
    if not sources:
        return "No demand was submitted: penstock demand submit FILE"
    return Group(*(part for source in sources for part in _source(source)))


def _source(source: SourceDetails) -> list[RenderableType]:
    epoch, revision = (str(number) if number >= 0 else "–" for number in (source.epoch, source.revision))
    counts = f"{counted(source.tasks, 'task')}, {counted(source.gangs, 'gang')}, {counted(len(source.shapes), 'shape')}"
    parts: list[RenderableType] = [Prose(f"[bold]{escape(source.source)}[/]: {counts}; epoch {epoch}, revision {revision}")]
    if source.resync_needed:
        parts.append(Prose(f"[bold yellow]Resync needed[/]: {escape(source.resync_needed)}"))
    if source.shapes:
        parts.append(_table(source.shapes))
    return parts


def _table(shapes: Sequence[ShapeDemand]) -> RenderableType:
    table = titled("Shapes")
    table.add_column("shape", overflow="fold")
    table.add_column("entries", justify="right", no_wrap=True)
    table.add_column("tasks", justify="right", no_wrap=True)
    table.add_column("first task", overflow="fold")
    for each in shapes[:SHOWN]:
        described = escape(each.description) if each.invalid is None else f"[red]{escape(each.invalid)}[/]"
        first = each.first_task_ids[0] if each.first_task_ids else "–"
        table.add_row(described, f"{each.entries:,}", f"{each.tasks:,}", escape(first))
    if len(shapes) > SHOWN:
        rest = shapes[SHOWN:]
        table.caption = (
            f"and {counted(len(rest), 'more shape')}, {counted(sum(each.tasks for each in rest), 'task')}: --json lists them"
        )
    return table
