"""Answers as of the last evaluation: what was decided, when, and what has changed since."""

from datetime import timedelta

from penstock.contract.answers import TaskStatus
from penstock.contract.orders import Orders
from penstock.core.answers.as_of import QUICK_SECONDS, UNMEASURED, decision_as_of, decision_seconds, explain_as_of, size_of
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import Decided, DemandDelta, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import HostUsage
from tests.core.answers.test_explain import NOW, ready, state, task

LATER = NOW + timedelta(seconds=9)
AS_OF = "the last evaluation at 12:00:00 UTC, 9s ago"


def decided(before: AutoscalerState) -> Evaluation:
    return evaluate(before, now=NOW, chance=lambda: "00000000")


def changed(before: AutoscalerState, *, add: str | None = None, remove: str | None = None) -> AutoscalerState:
    added = build_demand([Task.model_validate(task(add, cpu=1))] if add else [])
    removed = (remove,) if remove else ()
    return replay([DemandDelta(at=LATER, epoch=0, base=0, revision=1, added=added, removed=removed)], before)


def answered(now: AutoscalerState, asked: str, made: Evaluation) -> tuple[TaskStatus, str]:
    found = explain_as_of(now, asked, (made.view, made.decision), input_version=made.orders.input_version, now=LATER)
    return found.status, found.text


START = state([task("a", cpu=1), task("b", cpu=1)], slices=(ready("s"),), usage={"s": (HostUsage(),)})
MADE = decided(START)


def test_an_explanation_says_as_of_when_it_is_and_whether_anything_changed_since() -> None:
    status, text = answered(START, "a", MADE)
    assert status is TaskStatus.PLACED
    assert text.startswith(f"As of {AS_OF}: Task a (cpu 1) fits on READY slices of cpu")
    assert "changed since" not in text
    assert answered(changed(START, remove="b"), "a", MADE)[1].endswith(" What changed since is not decided on yet.")
    assert explain_as_of(START, "a", (MADE.view, MADE.decision), input_version=0, now=LATER).as_of == NOW


def test_a_task_that_came_or_went_since_is_not_said_to_be_unknown_or_placed() -> None:
    assert answered(changed(START, add="new"), "new", MADE) == (
        TaskStatus.WAITING,
        f"Task new was not waiting at {AS_OF}, and is not decided on yet.",
    )
    assert answered(changed(START, remove="b"), "b", MADE) == (
        TaskStatus.UNKNOWN,
        f"Task b is not demand any more; it was at {AS_OF}.",
    )
    assert answered(START, "zzz", MADE)[0] is TaskStatus.UNKNOWN


def test_a_task_that_runs_by_now_runs() -> None:
    runs = apply(START, UsageReported(at=LATER, usage={"s": (HostUsage(tasks=("a",)),)}))
    assert answered(runs, "a", MADE) == (TaskStatus.RUNNING, "Task a is running on slice s; it is not demand.")


def test_a_summary_says_as_of_when_it_is_and_whether_anything_changed_since() -> None:
    made = (MADE.view, MADE.decision)
    same = decision_as_of(START, made, input_version=MADE.orders.input_version, now=LATER)
    other = decision_as_of(changed(START, add="new"), made, input_version=MADE.orders.input_version, now=LATER)
    assert (same.as_of, same.changed_since) == (NOW, False)
    assert (other.as_of, other.changed_since, other.placed) == (NOW, True, same.placed)


def test_the_cost_of_a_decision_is_measured_and_grows_with_the_state() -> None:
    assert decision_seconds(START) == QUICK_SECONDS * size_of(START) / UNMEASURED
    orders = MADE.orders.model_copy(update={"seconds": 0.2})
    measured = apply(START, Decided(at=NOW, orders=orders))
    assert decision_seconds(measured) == 0.2
    assert decision_seconds(apply(START, Decided(at=NOW, orders=Orders(at=NOW, seconds=1.0)))) < QUICK_SECONDS
    slightly = measured.model_copy(update={"slices": tuple(ready(f"s{n}") for n in range(100 * size_of(START)))})
    assert decision_seconds(slightly) == 0.2  # Still small: hundreds of slices are decided on in no time.
    grown = measured.model_copy(update={"slices": (ready("s"),) * (2 * UNMEASURED - 1)})
    assert decision_seconds(grown) == 0.4
