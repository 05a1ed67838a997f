"""The details of a slice in the Temporal UI: group, location, failure, notice, and a row for every transition."""

from penstock.contract.slices import SliceLifecycle
from penstock.wording import counted
from workflows.ui import markdown_tables

_COLUMNS: markdown_tables.Columns = {"UTC": "left", "state": "left", "why": "left"}
_LONGEST_CELL = 200


def slice_timeline(lifecycle: SliceLifecycle) -> str:
    """The lifecycle in Markdown."""
    spec = lifecycle.spec
    kind = " ".join(filter(None, (spec.variant, "preemptible" if spec.preemptible else "")))
    facts = [
        f"**{lifecycle.state}**{' (queued)' if lifecycle.queued else ''}"
        f"{f': {_cell(lifecycle.cause)}' if lifecycle.cause else ''}",
        "",
        f"group `{spec.group}` · {spec.location.provider} in `{spec.location.name}` · {counted(spec.hosts, 'host')}"
        f"{f' · {kind}' if kind else ''} · ordered {lifecycle.ordered_at:%Y-%m-%d %H:%M:%S} for {_cell(spec.cause) or 'demand'}",
    ]
    if lifecycle.failure is not None:
        facts += ["", f"Failure: {lifecycle.failure.kind}: {_cell(lifecycle.failure.message)}"]
    if lifecycle.notice is not None:
        facts += ["", f"Notice: {lifecycle.notice.kind.noun} announced for {lifecycle.notice.until:%Y-%m-%d %H:%M:%S} UTC"]
    rows = [markdown_tables.row((f"{move.at:%H:%M:%S}", move.state, _cell(move.why))) for move in lifecycle.transitions]
    table = ["", *markdown_tables.head(_COLUMNS), *rows] if rows else []
    return "\n".join([*facts, *table])


def _cell(text: str) -> str:
    """Text from outside, escaped and cut."""
    return markdown_tables.cell(text)[:_LONGEST_CELL]
