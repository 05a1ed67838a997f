"""`explain`: what becomes of one task, in a short paragraph and as data, in the same words everywhere."""

from difflib import get_close_matches
from enum import StrEnum
from itertools import islice

from pydantic import Field

from penstock.core.answers.remedy import EFFORT, Remedy, remedy_for
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.match import exclusion
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import Placement
from penstock.model.decision import Code, Decision, GroupDecision, Placed, Span, Tier, Unmet
from penstock.model.demand import Entry
from penstock.model.shape import Shape
from penstock.model.slices import Slice
from penstock.model.units import format_seconds
from penstock.model.value import Value
from penstock.wording import listed

_SAME = 2
_COMPARED = 5000
"""Tasks with which an unknown id is compared, those that begin with the same commands: comparing costs 20 µs each."""


class Status(StrEnum):
    """What becomes of a task."""

    RUNNING = "running"
    PLACED = "placed"
    WAITING = "waiting"
    UNMET = "unmet"
    UNKNOWN = "unknown"


class Explanation(Value):
    """The answer to "why is my task pending": a paragraph, and what it is made of."""

    task_id: str
    status: Status
    text: str
    group: str | None = None
    tier: Tier | None = None
    code: Code | None = None
    groups: dict[str, str] = Field(default_factory=dict)
    remedy: Remedy | None = None


def explain(
    state: AutoscalerState, task_id: str, *, made: tuple[SnapshotWithIds, Decision] | None = None, effort: int = EFFORT
) -> Explanation:
    """What becomes of the task, what was considered, and what excluded each group.

    `made` is the decision on the state, if it has been made already; `effort` bounds the search for a remedy.
    """
    for slice_id, usage in sorted(state.usage.items()):
        if any(task_id in host.tasks for host in usage):
            text = f"Task {task_id} is running on slice {slice_id}; it is not demand."
            return Explanation(task_id=task_id, status=Status.RUNNING, text=text)
    view = snapshot_of(state) if made is None else made[0]
    entry = view.demand.find(task_id)
    if entry is None:
        return _unknown(view, task_id)
    decision = decide(view.snapshot) if made is None else made[1]
    for placed in decision.placed:
        if _covers(placed.span, entry):
            return _placed(view, decision, entry, placed, task_id)
    unmet = next(item for item in decision.unmet if any(_covers(span, entry) for span in item.spans))
    remedy = remedy_for(view.snapshot, decision, unmet, effort=effort)
    return _unmet(view, unmet, entry, task_id, remedy)


def _covers(span: Span, entry: Entry) -> bool:
    return span.run == entry.run and span.first <= entry.position < span.first + span.entries


def _unknown(view: SnapshotWithIds, task_id: str) -> Explanation:
    similar = islice((known for known in view.demand.task_ids if known[:_SAME] == task_id[:_SAME]), _COMPARED)
    close = get_close_matches(task_id, list(similar), n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    text = f"No task {task_id} is waiting or running.{hint}"
    return Explanation(task_id=task_id, status=Status.UNKNOWN, text=text)


def _unmet(view: SnapshotWithIds, unmet: Unmet, entry: Entry, task_id: str, remedy: Remedy | None) -> Explanation:
    text = sentence(f"{_subject(view, entry, task_id)} cannot be placed ({unmet.code}): {unmet.message}")
    if remedy is not None:
        text += f" Remedy: {remedy.message}."
    groups = {name: str(code) for name, code in unmet.groups.items()}
    return Explanation(task_id=task_id, status=Status.UNMET, text=text, code=unmet.code, groups=groups, remedy=remedy)


def _placed(view: SnapshotWithIds, decision: Decision, entry: Entry, placed: Placed, task_id: str) -> Explanation:
    shape = view.snapshot.workload.shapes[view.snapshot.workload.runs[entry.run].shape]
    chosen = next(group for group in decision.groups if group.name == placed.group)
    others = _others(view, decision, shape, placed)
    text = f"{_subject(view, entry, task_id)} {_how(view, decision, placed, shape, chosen)}."
    if others:
        text += f" Also considered: {listed(f'{name} ({why})' for name, why in others.items())}."
    status = Status.PLACED if placed.tier is Tier.READY else Status.WAITING
    return Explanation(task_id=task_id, status=status, text=text, group=placed.group, tier=placed.tier, groups=others)


def _subject(view: SnapshotWithIds, entry: Entry, task_id: str) -> str:
    run = view.snapshot.workload.runs[entry.run]
    gang = f" of gang {entry.gang_id}" if entry.gang_id else ""
    return f"Task {task_id}{gang} ({view.snapshot.workload.shapes[run.shape]})"


def _how(view: SnapshotWithIds, decision: Decision, placed: Placed, shape: Shape, group: GroupDecision) -> str:
    """What the task waits for, if anything."""
    if placed.tier is Tier.READY:
        return f"fits on READY slices of {group.name}, so nothing is launched for it; the controller may start it now"
    if placed.tier is Tier.NEW:
        by_priority = decision.placement is Placement.PRIORITY
        why = "the first matching group that can add one" if by_priority else f"the best buy for {decision.placement}"
        what = "new slices" if shape.gang else "a new slice"
        return f"gets {what} of {group.name}, {why}{_held_back(decision, group)}"
    if placed.opened:
        return f"shares a new slice of {group.name} that this decision opens{_held_back(decision, group)}"
    arriving = [_state(view, piece) for piece in Fleet(view.snapshot).arriving() if piece.group == group.name]
    return f"waits for a slice of {group.name} on its way: {listed(arriving)}"


def _state(view: SnapshotWithIds, piece: Slice) -> str:
    age = f" for {format_seconds((view.snapshot.now - piece.since).total_seconds())}" if piece.since else ""
    return f"{piece.id} {piece.state}{age}"


def _held_back(decision: Decision, group: GroupDecision) -> str:
    held = [item.message for item in decision.deferred if item.group == group.name]
    return f"; {group.name} has slices deferred ({group.deferred}): {listed(held)}" if held else ""


def sentence(words: str) -> str:
    """The words with a full stop, unless they end in a mark of their own."""
    return words if words[-1] in ".?!…" else f"{words}."


def _others(view: SnapshotWithIds, decision: Decision, shape: Shape, placed: Placed) -> dict[str, str]:
    """Every other group with what excluded it, or that it was not needed."""
    found = {}
    for described in decision.groups:
        group = view.snapshot.config.group(described.name)
        if described.name == placed.group or group is None:
            continue
        excluded = exclusion(shape, group)
        if excluded is not None:
            found[group.name] = str(excluded)
        elif placed.tier is Tier.NEW and described.availability != "available":
            found[group.name] = str(described.availability)
        else:
            found[group.name] = "not needed"
    return found
