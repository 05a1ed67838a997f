"""The details of an autoscaler in the Temporal UI: a table of groups, and the unmet demand."""

from penstock.contract.answers import ClusterStatus, GroupStatus
from penstock.model.slices import SliceState
from penstock.wording import counted
from workflows.ui import markdown_tables

LARGEST_DETAILS = 19_000
"""Bytes: Temporal takes 20 kB."""
_COLUMNS: markdown_tables.Columns = {
    "group": "left",
    "READY": "right",
    "in flight": "right",
    "leaving": "right",
    "of": "right",
    "availability": "left",
}


def cluster_details(status: ClusterStatus) -> str:
    """A table of groups and the unmet demand, in Markdown, cut where the UI would refuse it."""
    head = [*_notices(status), *markdown_tables.head(_COLUMNS)]
    tail = ["", _demand(status)]
    rows = [_row(group) for group in status.groups]
    bytes_left = LARGEST_DETAILS - sum(_size(line) for line in [*head, *tail])
    shown: list[str] = []
    for row in rows:
        bytes_left -= _size(row)
        if bytes_left < 0:
            tail.insert(0, f"… and {counted(len(rows) - len(shown), 'more group')}")
            break
        shown.append(row)
    return "\n".join([*head, *shown, *tail])


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _notices(status: ClusterStatus) -> list[str]:
    """Why nothing is launched: deletion, pause or recovery; and what clouds announce for slices."""
    found = []
    if status.closing:
        found.append("**The cluster is being deleted.**")
    if status.paused is not None:
        found.append(f"**Paused.** {status.paused}")
    if (recovery := status.recovery) is not None:
        doing = "Final audit" if status.closing else "Recovering"
        waiting = ", ".join(recovery.waiting_for[:5])
        found.append(f"**{doing}:** {recovery.reason.rstrip('.')}. Waiting for {waiting}.")
    if status.notices:
        first, more = status.notices[0], status.notices_in_all - 1
        rest = f"; and {counted(more, 'more notice')}" if more else ""
        when = f"{first.until:%Y-%m-%d %H:%M:%S} UTC"
        found.append(f"**Announced by the cloud:** {first.kind.noun} of `{first.slice_id}` at {when}{rest}.")
    return [line for notice in found for line in (notice, "")]


def _row(group: GroupStatus) -> str:
    ready = group.slices.get(SliceState.READY, 0)
    coming = sum(count for state, count in group.slices.items() if state.in_flight)
    leaving = sum(group.slices.values()) - ready - coming
    until = f" until {group.until:%Y-%m-%d %H:%M:%S} UTC" if group.until else ""
    name = group.name if group.configured else f"{group.name} (no longer configured)"
    return markdown_tables.row((name, ready, coming, leaving, group.max_slices, f"{group.availability}{until}"))


def _demand(status: ClusterStatus) -> str:
    count = sum(source.tasks for source in status.demand.values())
    tasks = f"{counted(count, 'task')} {'is' if count == 1 else 'are'} waiting or placed"
    if status.evaluated_at is None:
        return f"{tasks}; not evaluated yet."
    if status.outdated:
        tasks += "; changes since the last evaluation are not evaluated; at that time"
    if not status.unmet:
        return f"{tasks}; none is unmet."
    unmet = ", ".join(f"{count} {code}" for code, count in sorted(status.unmet.items()))
    return f"{tasks}; unmet: {unmet}."
