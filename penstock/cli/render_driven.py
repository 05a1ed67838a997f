"""Groups that are driven by reports of pressure, in the status for a terminal."""

from collections.abc import Iterator
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from penstock.cli.terminal import lapse, titled
from penstock.contract.answers import ClusterStatus, DrivenStatus
from penstock.wording import counted


def queues_view(status: ClusterStatus, now: datetime) -> Iterator[Table]:
    """A table of how many slices each group should have, and its last report, if pressure drives any group."""
    rows = [(group.name, group.driven) for group in status.groups if group.driven is not None]
    if not rows:
        return
    table = titled("Queue lengths")
    table.add_column("group", overflow="fold")
    for name in ("desired", "queued", "running", "capacity", "slices seen", "last report"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, driven in rows:
        report = driven.report
        figures: tuple[str, ...] = ("–",) * 4
        if report is not None:
            figures = tuple(f"{figure:,}" for figure in (report.queued, report.running, report.capacity, report.slices))
        desired = "–" if driven.desired is None else f"{driven.desired:,}"
        table.add_row(escape(name), desired, *figures, _age(driven, now))
    yield table


def _age(driven: DrivenStatus, now: datetime) -> str:
    if driven.at is None:
        return "never"
    source = f" from {escape(driven.source)}" if driven.source else ""
    age = f"{lapse(driven.at, now)} ago{source}"
    if driven.stale_since is not None:
        age += f", [yellow]stale for {lapse(driven.stale_since, now)}[/]"
    return age


def silent_groups(status: ClusterStatus, now: datetime) -> Iterator[str]:
    """Groups with slices whose reports have stopped, or never came: they stay as they are."""
    for group in status.groups if not status.closing else ():
        driven, name = group.driven, escape(group.name)
        if driven is None or not group.slices:
            continue
        stays = f"so its {counted(sum(group.slices.values()), 'slice')} stay as they are: is the controller running?"
        if driven.at is None:
            yield f"[bold yellow]No pressure report[/] has come for {name}, {stays}"
        elif driven.stale_since is not None:
            yield f"[bold yellow]Stale pressure report[/] for {name}, of {lapse(driven.at, now)} ago, {stays}"
