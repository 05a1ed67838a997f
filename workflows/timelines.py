"""A slice as the Temporal UI shows it: what it is, and a line for every move."""

from penstock.contract.lives import SliceLife
from workflows import tables

_COLUMNS: tables.Columns = {"UTC": "left", "state": "left", "why": "left"}
_LONGEST_CELL = 200


def timeline(life: SliceLife) -> str:
    """The life in Markdown."""
    spec = life.spec
    kind = " ".join(filter(None, (spec.variant, "preemptible" if spec.preemptible else "")))
    facts = [
        f"**{life.state}**{' (queued)' if life.queued else ''}{f': {_cell(life.cause)}' if life.cause else ''}",
        "",
        f"group `{spec.group}` · {spec.provider} in `{spec.location}` · {spec.hosts} host{'s' if spec.hosts > 1 else ''}"
        f"{f' · {kind}' if kind else ''} · ordered {life.ordered_at:%Y-%m-%d %H:%M:%S} for {_cell(spec.cause) or 'demand'}",
    ]
    if life.failure is not None:
        facts += ["", f"Failure: {life.failure.kind}: {_cell(life.failure.message)}"]
    rows = [tables.row((f"{move.at:%H:%M:%S}", move.state, _cell(move.why))) for move in life.moves]
    table = ["", *tables.head(_COLUMNS), *rows] if rows else []
    return "\n".join([*facts, *table])


def _cell(text: str) -> str:
    """Words from outside, cut."""
    return tables.cell(text)[:_LONGEST_CELL]
