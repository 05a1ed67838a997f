"""The clusters of a namespace as a table."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.markup import escape

from penstock.cli.terminal import Prose, clock, lapse, titled
from penstock.model.units import Moment
from penstock.model.value import Value

_STYLE = {"running": "green", "paused": "yellow", "recovering": "yellow", "deleting": "magenta", "deleted": "dim"}


class ClusterSummary(Value):
    """One cluster. Numbers are None if no worker answered, or if it ended."""

    cluster: str
    state: str
    """running, paused, recovering, deleting, no answer; or once it ended deleted, terminated, failed, canceled, timed_out."""
    since: Moment
    ended: Moment | None = None
    slices: int | None = None
    tasks: int | None = None
    unmet: int | None = None
    worker_answers: bool = False


def clusters_view(clusters: Sequence[ClusterSummary], server: str, now: datetime) -> RenderableType:
    """A row for each cluster."""
    if not clusters:
        return Prose(f"No cluster runs at {escape(server)}. Start one: penstock config apply FILE")
    table = titled("Clusters")
    table.add_column("cluster", no_wrap=True, overflow="fold")
    table.add_column("state", no_wrap=True)
    for name in ("slices", "tasks", "unmet", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worker")
    for each in clusters:
        state = f"[{_STYLE.get(each.state, 'red')}]{each.state}[/]"
        numbers = ("–" if number is None else f"{number:,}" for number in (each.slices, each.tasks, each.unmet))
        age = lapse(each.since, each.ended or now)
        table.add_row(escape(each.cluster), state, *numbers, age, _worker(each, now))
    return table


def _worker(each: ClusterSummary, now: datetime) -> str:
    if each.ended is not None:
        return f"[dim]ended {clock(each.ended, now)}[/]"
    return "[green]answers[/]" if each.worker_answers else "[red]no answer[/]"
