"""Answers as of the last evaluation, for clusters on which a decision takes too long to be made anew for a query."""

from datetime import datetime

from penstock.contract.answers import DecisionSummary, Explanation, TaskStatus
from penstock.contract.slice_answers import SliceExplanation
from penstock.core.answers.explain import explain
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.held import held_because
from penstock.core.answers.remedy import BRIEF_EFFORT, remedies_for
from penstock.core.answers.snapshot import SnapshotWithIds
from penstock.core.answers.summary import summarize
from penstock.core.decision.keeping import kept_of
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision
from penstock.model.units import format_seconds

QUICK_SECONDS = 0.25
"""A query decides anew if that takes no longer: an eighth of the two seconds that Temporal gives, for a busy worker."""
UNMEASURED = 10_000
"""Runs and slices on which a query decides before an evaluation has measured how long that takes: mostly a tenth of a second."""
QUERY_STEPS = 1_500_000
"""Steps of a decision in a query, a quarter to half a second. A decision that turns out to take longer is stopped there."""


def size_of(state: AutoscalerState) -> int:
    """Runs and slices of a state: what a decision on it mostly costs."""
    runs = sum(len(source.base.workload.runs) + len(source.added.workload.runs) for source in state.demand.values())
    return runs + len(state.slices)


def decision_seconds(state: AutoscalerState) -> float:
    """How long a decision on the state takes: as long as the last one did, or longer if the state has grown since.

    Growth counts only beyond a size at which it could matter: a few runs that order hundreds of slices are decided in no time.
    """
    size, orders = size_of(state), state.orders
    if orders is None or not orders.decided_on:
        return QUICK_SECONDS * size / UNMEASURED
    return orders.seconds * max(1.0, size / max(orders.decided_on, UNMEASURED))


def decision_as_of(
    state: AutoscalerState, made: tuple[SnapshotWithIds, Decision], *, input_version: int, now: datetime
) -> DecisionSummary:
    """The summary of the last evaluation's decision, which was made on the inputs of that version."""
    view, decision = made
    remedies = remedies_for(view.snapshot, decision, effort=BRIEF_EFFORT)
    kept = kept_of(view.snapshot, decision)
    summary = summarize(decision, view.demand, remedies, kept=kept, held=held_because(state, now))
    return summary.model_copy(update={"as_of": decision.now, "changed_since": _has_changed(state, decision, input_version, now)})


def explain_as_of(
    state: AutoscalerState, asked: str, made: tuple[SnapshotWithIds, Decision], *, input_version: int, now: datetime
) -> Explanation:
    """The explanation by the last evaluation's decision. What runs, and what is demand at all, is said as of now."""
    view, decision = made
    found = explain(state, asked, made=made, effort=BRIEF_EFFORT, now=now)
    if found.status is TaskStatus.RUNNING:
        return found
    ago = format_seconds(max(0.0, (now - decision.now).total_seconds()))
    then = f"the last evaluation at {decision.now:%H:%M:%S} UTC, {ago} ago"
    text = f"As of {then}: {found.text}"
    status = found.status
    is_demand = any(source.has(asked) for source in state.demand.values())
    if asked in view.demand.members and not is_demand:
        status, text = TaskStatus.UNKNOWN, f"Task {asked} is not demand any more; it was at {then}."
    elif is_demand and asked not in view.demand.members:
        status, text = TaskStatus.WAITING, f"Task {asked} was not waiting at {then}, and is not decided on yet."
    elif _has_changed(state, decision, input_version, now):
        text += " What changed since is not decided on yet."
    return found.model_copy(update={"as_of": decision.now, "status": status, "text": text})


def explain_slice_as_of(
    state: AutoscalerState, slice_id: str, made: tuple[SnapshotWithIds, Decision], *, input_version: int, now: datetime
) -> SliceExplanation:
    """Why a slice is kept by the last evaluation's decision. Whether it is going or gone is said as of now."""
    decision = made[1]
    found = explain_slice(state, slice_id, made=made, now=now)
    if not found.reasons:
        return found
    ago = format_seconds(max(0.0, (now - decision.now).total_seconds()))
    text = f"As of the last evaluation at {decision.now:%H:%M:%S} UTC, {ago} ago: {found.text}"
    if _has_changed(state, decision, input_version, now):
        text += " What changed since is not decided on yet."
    return found.model_copy(update={"as_of": decision.now, "text": text})


def _has_changed(state: AutoscalerState, decision: Decision, input_version: int, now: datetime) -> bool:
    """Whether a decision made now could differ."""
    is_over = decision.next_change_at is not None and decision.next_change_at <= now
    return is_over or state.input_version != input_version
