"""`explain`: why one task is placed, waiting or unmet, as a short paragraph and as data."""

from itertools import islice

from penstock.contract.answers import Explanation, Remedy, TaskStatus
from penstock.core.answers.remedy import EFFORT, remedy_for
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.match import exclusion
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import Placement
from penstock.model.decision import Decision, GroupDecision, Placed, Span, Tier, Unmet
from penstock.model.demand import Entry
from penstock.model.shape import Shape
from penstock.model.slices import Slice
from penstock.model.units import format_seconds
from penstock.wording import listed, similar

_SAME = 2
"""Leading characters that a suggested task id shares with the unknown one."""
_COMPARED = 5000
"""Task ids compared with an unknown one: each comparison takes 20 µs."""


def explain(
    state: AutoscalerState, task_id: str, *, made: tuple[SnapshotWithIds, Decision] | None = None, effort: int = EFFORT
) -> Explanation:
    """The status of the task, the groups considered, and what excluded each of them.

    `made` is the decision on the state, if the caller already has it; `effort` bounds the search for a remedy.
    """
    for slice_id, usage in sorted(state.usage.items()):
        if any(task_id in host.tasks for host in usage):
            text = f"Task {task_id} is running on slice {slice_id}; it is not demand."
            return Explanation(task_id=task_id, status=TaskStatus.RUNNING, text=text)
    source = snapshot_of(state) if made is None else made[0]
    entry = source.demand.find(task_id)
    if entry is None:
        return _unknown(source, task_id)
    decision = decide(source.snapshot) if made is None else made[1]
    for placed in decision.placed:
        if _covers(placed.span, entry):
            return _placed(source, decision, entry, placed, task_id)
    unmet = next(item for item in decision.unmet if any(_covers(span, entry) for span in item.spans))
    remedy = remedy_for(source.snapshot, decision, unmet, effort=effort)
    return _unmet(source, unmet, entry, task_id, remedy)


def _covers(span: Span, entry: Entry) -> bool:
    return span.run == entry.run and span.first <= entry.position < span.first + span.entries


def _unknown(source: SnapshotWithIds, task_id: str) -> Explanation:
    compared = islice((known for known in source.demand.task_ids if known[:_SAME] == task_id[:_SAME]), _COMPARED)
    close = similar(task_id, compared)
    hint = f" Did you mean {close[0]}?" if close else ""
    text = f"No task {task_id} is waiting or running.{hint}"
    return Explanation(task_id=task_id, status=TaskStatus.UNKNOWN, text=text)


def _unmet(source: SnapshotWithIds, unmet: Unmet, entry: Entry, task_id: str, remedy: Remedy | None) -> Explanation:
    text = sentence(f"{_subject(source, entry, task_id)} cannot be placed ({unmet.code}): {unmet.message}")
    if remedy is not None:
        text += f" Remedy: {remedy.message}."
    groups = {name: str(code) for name, code in unmet.groups.items()}
    return Explanation(task_id=task_id, status=TaskStatus.UNMET, text=text, code=unmet.code, groups=groups, remedy=remedy)


def _placed(source: SnapshotWithIds, decision: Decision, entry: Entry, placed: Placed, task_id: str) -> Explanation:
    shape = source.snapshot.workload.shapes[source.snapshot.workload.runs[entry.run].shape]
    chosen = next(group for group in decision.groups if group.name == placed.group)
    others = _others(source, decision, shape, placed)
    text = f"{_subject(source, entry, task_id)} {_how(source, decision, placed, shape, chosen)}."
    if others:
        text += f" Also considered: {listed(f'{name} ({why})' for name, why in others.items())}."
    status = TaskStatus.PLACED if placed.tier is Tier.READY else TaskStatus.WAITING
    return Explanation(task_id=task_id, status=status, text=text, group=placed.group, tier=placed.tier, groups=others)


def _subject(source: SnapshotWithIds, entry: Entry, task_id: str) -> str:
    run = source.snapshot.workload.runs[entry.run]
    gang = f" of gang {entry.gang_id}" if entry.gang_id else ""
    return f"Task {task_id}{gang} ({source.snapshot.workload.shapes[run.shape]})"


def _how(source: SnapshotWithIds, decision: Decision, placed: Placed, shape: Shape, group: GroupDecision) -> str:
    """How the task is placed, and the slices it waits for."""
    if placed.tier is Tier.READY:
        return f"fits on READY slices of {group.name}, so nothing is launched for it; the controller may start it now"
    if placed.tier is Tier.NEW:
        by_priority = decision.placement is Placement.PRIORITY
        why = "the first matching group that can add one" if by_priority else f"the best buy for {decision.placement}"
        what = "new slices" if shape.gang else "a new slice"
        return f"gets {what} of {group.name}, {why}{_deferred(decision, group)}"
    if placed.opened:
        return f"shares a new slice of {group.name} that this decision opens{_deferred(decision, group)}"
    arriving = [_state(source, piece) for piece in Fleet(source.snapshot).arriving() if piece.group == group.name]
    return f"waits for a slice of {group.name} in flight: {listed(arriving)}"


def _state(source: SnapshotWithIds, piece: Slice) -> str:
    age = f" for {format_seconds((source.snapshot.now - piece.since).total_seconds())}" if piece.since else ""
    return f"{piece.id} {piece.state}{age}"


def _deferred(decision: Decision, group: GroupDecision) -> str:
    messages = [item.message for item in decision.deferred if item.group == group.name]
    return f"; {group.name} has slices deferred ({group.deferred}): {listed(messages)}" if messages else ""


def sentence(text: str) -> str:
    """The text with a full stop, unless it already ends in a punctuation mark."""
    return text if text[-1] in ".?!…" else f"{text}."


def _others(source: SnapshotWithIds, decision: Decision, shape: Shape, placed: Placed) -> dict[str, str]:
    """Every other group, with the code that excluded it or `not needed`."""
    found = {}
    for described in decision.groups:
        group = source.snapshot.config.group(described.name)
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
