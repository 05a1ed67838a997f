"""`explain`: why a task, a gang or all tasks with a prefix are placed, waiting or unmet, as a paragraph and as data."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from penstock.contract.answers import CHEAPER, Explanation, TaskStatus
from penstock.contract.orders import OnReady
from penstock.core.answers.explain_many import explain_prefix, running_with, waiting_with
from penstock.core.answers.held import held_because
from penstock.core.answers.remedy import EFFORT, Asked, RemedySearch, remedy_for
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import Fleet, unreported_since
from penstock.core.decision.holds import hold_of
from penstock.core.decision.match import exclusion
from penstock.core.decision.reasons import explained_in_full
from penstock.core.state.sources import overdue_on_ready
from penstock.core.state.state import AutoscalerState
from penstock.core.state.usage import usage_now
from penstock.model.cluster import Placement
from penstock.model.decision import Decision, GroupDecision, Placed, Span, Tier, Unmet
from penstock.model.demand import Entry
from penstock.model.shape import Shape
from penstock.model.slices import Slice
from penstock.model.units import format_seconds
from penstock.wording import counted, listed, shortened, similar

_SAME = 2
"""Leading characters that a suggested task id shares with the unknown one."""
NOT_JOINED = "a controller reports usage and names other slices, but not these, so they hold nothing"
NOT_STARTED = "does the controller use these slices?"
WOULD_BE = "What would be decided now: "
"""Precedes an explanation while the cluster orders nothing."""
_SETTLED = (TaskStatus.RUNNING, TaskStatus.UNKNOWN)
"""Not the result of a decision, so true also while the cluster orders nothing."""
_QUOTED = 200
"""Characters of an unknown id that are quoted."""
_COMPARED = 5000
"""Task ids compared with an unknown one: each comparison takes 20 µs."""


def explain(
    state: AutoscalerState,
    asked: str,
    *,
    made: tuple[SnapshotWithIds, Decision] | None = None,
    effort: int = EFFORT,
    now: datetime | None = None,
) -> Explanation:
    """The status of a task, a gang, or all tasks whose ids begin with a text; the groups considered, and what excluded them.

    `made` is the decision on the state, if the caller already has it; `effort` bounds the search for a remedy. Ages count to
    `now`, the time of asking. While the cluster orders nothing, the text says so first.
    """
    now = max(now or state.now, state.now)
    found = _explained(state, asked, now, made=made, effort=effort)
    held = held_because(state, now)
    if held is None:
        return found
    text = found.text if found.status in _SETTLED else f"{WOULD_BE}{found.text}"
    return found.model_copy(update={"held": held, "text": f"{held} {text}"})


def _explained(
    state: AutoscalerState, asked: str, now: datetime, *, made: tuple[SnapshotWithIds, Decision] | None, effort: int
) -> Explanation:
    """The explanation of the first that fits: a running task, a waiting task, a waiting gang, a running gang, a prefix."""
    text = _running(state, asked, gang=False)
    if text is not None:
        return Explanation(task_id=asked, status=TaskStatus.RUNNING, text=text)
    source = snapshot_of(state) if made is None else made[0]
    entry = source.demand.find(asked) or source.demand.find_gang(asked)
    text = _running(state, asked, gang=True)
    if entry is None and text is not None:
        return Explanation(task_id=asked, status=TaskStatus.RUNNING, text=text)
    alike, running = ([], 0) if entry is not None else (waiting_with(source, asked), running_with(state, asked))
    if entry is None and not alike and not running:
        return _unknown(source, asked)
    decision = decide(source.snapshot) if made is None else made[1]
    if entry is None and (len(alike) > 1 or running):
        found = explain_prefix(source, decision, asked, running=running, effort=effort)
    else:
        asked = asked if entry is not None else alike[0]
        found = _decided(state, source, decision, asked, now, effort=effort)
    return found if decision.thorough else found.model_copy(update={"text": f"{found.text} {CHEAPER}"})


def _decided(
    state: AutoscalerState, source: SnapshotWithIds, decision: Decision, asked: str, now: datetime, *, effort: int
) -> Explanation:
    """What the decision says of a waiting task or gang."""
    entry = source.demand.find(asked) or source.demand.find_gang(asked)
    assert entry is not None
    for placed in decision.placed:
        if _covers(placed.span, entry):
            return _placed(source, decision, entry, placed, asked, now, overdue=overdue_on_ready(state, now))
    unmet = next(item for item in decision.unmet if any(_covers(span, entry) for span in item.spans))
    unmet = explained_in_full(source.snapshot, unmet)
    search = remedy_for(source.snapshot, decision, unmet, asked=Asked(entry.run, entry.position), effort=effort)
    return _unmet(source, unmet, entry, asked, search, now)


def _running(state: AutoscalerState, asked: str, *, gang: bool) -> str | None:
    """The slices on which the task or gang runs, as a sentence; None if it does not."""
    on = [
        slice_id
        for slice_id, usage in sorted(usage_now(state).items())
        if any(asked in (host.gangs if gang else host.tasks) for host in usage)
    ]
    if not on:
        return None
    return f"{'Gang' if gang else 'Task'} {asked} is running on slice{'s' if len(on) > 1 else ''} {listed(on)}; it is not demand."


def _covers(span: Span, entry: Entry) -> bool:
    return span.run == entry.run and span.first <= entry.position < span.first + span.entries


def _unknown(source: SnapshotWithIds, task_id: str) -> Explanation:
    compared = islice((known for known in source.demand.task_ids if known[:_SAME] == task_id[:_SAME]), _COMPARED)
    close = similar(task_id, compared)
    hint = f" Did you mean {close[0]}?" if close else ""
    text = f"No task or gang {shortened(task_id, _QUOTED)} is waiting or running, and no task id begins with it.{hint}"
    return Explanation(task_id=task_id, status=TaskStatus.UNKNOWN, text=text, tasks=0)


def _unmet(source: SnapshotWithIds, unmet: Unmet, entry: Entry, task_id: str, search: RemedySearch, now: datetime) -> Explanation:
    text = sentence(f"{_subject(source, entry, task_id)} cannot be placed ({unmet.code}): {unmet.message}")
    text += "".join(_unclaimed(source, group, now) for group in unmet.groups)
    if search.text:
        text += f" Remedy: {search.text}."
    groups = {name: str(code) for name, code in unmet.groups.items()}
    return Explanation(
        task_id=task_id,
        status=TaskStatus.UNMET,
        text=text,
        tasks=len(entry.task_ids) if task_id == entry.gang_id else 1,
        code=unmet.code,
        groups=groups,
        remedy=search.remedy,
        not_tried=search.not_tried,
    )


def _placed(
    source: SnapshotWithIds,
    decision: Decision,
    entry: Entry,
    placed: Placed,
    task_id: str,
    now: datetime,
    *,
    overdue: Sequence[OnReady],
) -> Explanation:
    shape = source.snapshot.workload.shapes[source.snapshot.workload.runs[entry.run].shape]
    chosen = next(group for group in decision.groups if group.name == placed.group)
    others = _others(source, decision, shape, placed)
    how = _how(source, decision, placed, shape, chosen, now)
    text = f"{_subject(source, entry, task_id)} {how}."
    text += _hold(source, entry) + _silence(source, placed, now) + _unclaimed(source, placed.group, now)
    text += _not_started(entry, placed, overdue, now)
    if others:
        text += f" Also considered: {listed(f'{name} ({why})' for name, why in others.items())}."
    status = TaskStatus.PLACED if placed.tier is Tier.READY else TaskStatus.WAITING
    tasks = len(entry.task_ids) if task_id == entry.gang_id else 1
    return Explanation(
        task_id=task_id, status=status, text=text, tasks=tasks, group=placed.group, tier=placed.tier, groups=others
    )


def _subject(source: SnapshotWithIds, entry: Entry, task_id: str) -> str:
    run = source.snapshot.workload.runs[entry.run]
    shape = source.snapshot.workload.shapes[run.shape]
    if task_id == entry.gang_id and task_id not in entry.task_ids:
        return f"Gang {task_id}, {counted(len(entry.task_ids), 'waiting task')} ({shape}),"
    gang = f" of gang {entry.gang_id}" if entry.gang_id else ""
    return f"Task {task_id}{gang} ({shape})"


def _how(source: SnapshotWithIds, decision: Decision, placed: Placed, shape: Shape, group: GroupDecision, now: datetime) -> str:
    """How the task is placed, and the slices it waits for."""
    if placed.tier is Tier.READY:
        return f"fits on READY slices of {group.name}, so nothing is launched for it; the controller may start it now"
    if placed.tier is Tier.NEW:
        by_priority = decision.placement is Placement.PRIORITY
        why = "the first matching group that can add one" if by_priority else f"the best buy for {decision.placement}"
        if _takes_back_all(source, decision, group):
            what = "slices" if shape.gang else "a slice"
            return f"takes {what} of {group.name} back, whose drain is cancelled"
        what = "new slices" if shape.gang else "a new slice"
        return f"gets {what} of {group.name}, {why}{_deferred(decision, group)}"
    if placed.opened:
        return f"shares a new slice of {group.name} that this decision opens{_deferred(decision, group)}"
    arriving = [_state(piece, now) for piece in Fleet(source.snapshot).arriving() if piece.group == group.name]
    return f"waits for a slice of {group.name} in flight: {listed(arriving)}"


def _takes_back_all(source: SnapshotWithIds, decision: Decision, group: GroupDecision) -> bool:
    """Whether every slice that the decision opens in the group is one whose drain it cancels."""
    cancelled = set(decision.cancelled_drains)
    mine = any(piece.id in cancelled and piece.group == group.name for piece in source.snapshot.slices)
    return mine and not group.launch and not group.deferred


def _silence(source: SnapshotWithIds, placed: Placed, now: datetime) -> str:
    """A sentence on READY slices of the group that no usage report has named, if the task may be meant for one of them."""
    snapshot = source.snapshot
    if placed.tier is not Tier.READY:
        return ""
    pieces = (piece for piece in snapshot.slices if piece.group == placed.group)
    silent = [since for piece in pieces if (since := unreported_since(piece, snapshot.usage)) is not None]
    if not silent or (now - min(silent)).total_seconds() < snapshot.config.ready_grace_seconds:
        return ""
    age = format_seconds((now - min(silent)).total_seconds())
    return (
        f" No usage report has named {counted(len(silent), 'slice')} of {placed.group}, READY for up to {age}:"
        " is the controller running?"
    )


def _hold(source: SnapshotWithIds, entry: Entry) -> str:
    """A sentence on why nothing new is bought for the task, if so."""
    snapshot = source.snapshot
    name = snapshot.workload.runs[entry.run].source
    hold = hold_of(name, snapshot.sources[name], snapshot.now) if name in snapshot.sources else None
    return f" {hold.message[0].upper()}{hold.message[1:]}." if hold else ""


def _unclaimed(source: SnapshotWithIds, group: str, now: datetime) -> str:
    """A sentence on READY slices of the group that did not join: they have no room for the task."""
    pieces = [piece for piece in source.snapshot.slices if piece.group == group and piece.is_unclaimed]
    since = [piece.unclaimed for piece in pieces if piece.unclaimed is not None]
    if not since:
        return ""
    have, age = "slice has" if len(since) == 1 else "slices have", format_seconds((now - min(since)).total_seconds())
    return f" {len(since):,} READY {have} not joined ({listed(piece.id for piece in pieces)}), for up to {age}: {NOT_JOINED}."


def _not_started(entry: Entry, placed: Placed, overdue: Sequence[OnReady], now: datetime) -> str:
    """A sentence if the task has been on READY slices for the grace, or others on slices of its group have."""
    if placed.tier is not Tier.READY:
        return ""
    of_group = [item for item in overdue if item.group == placed.group]
    own = [item for item in of_group if item.task_id in entry.task_ids]
    if not of_group:
        return ""
    age = format_seconds((now - min(item.since for item in own or of_group)).total_seconds())
    who = "It has" if own else f"Tasks such as {of_group[0].task_id} have"
    return f" {who} been placed there for {age}, and no report says that {'it runs' if own else 'they run'}: {NOT_STARTED}"


def _state(piece: Slice, now: datetime) -> str:
    age = f" for {format_seconds(max(0.0, (now - piece.since).total_seconds()))}" if piece.since else ""
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
