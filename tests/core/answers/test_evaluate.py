"""The pure evaluation: slice ids, the limit of launches, the next evaluation, and drains."""

from datetime import timedelta
from itertools import count

import pytest

from penstock.contract.orders import Orders
from penstock.contract.slices import DrainCommand
from penstock.core import apply, evaluate
from penstock.core.answers import evaluate as module
from penstock.core.answers.evaluate import Evaluation
from penstock.core.answers.explain import explain
from penstock.core.answers.on_ready import WATCHED_OF_GROUP
from penstock.core.answers.status import status_of
from penstock.core.decision import effort
from penstock.core.state.apply import replay
from penstock.core.state.events import CapacityRequested, Decided, DemandSnapshot
from penstock.core.state.state import AutoscalerState, Changes
from penstock.model.decision import Drain
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import DrainTerms, StandingItem, StandingRequest
from tests.core.state.ledgers import NOW, cluster, commands, drains, later, ready
from tests.core.state.test_sources import IDLE, running, says, wants


def evaluated(state: AutoscalerState, seconds: float = 0) -> Evaluation:
    """An evaluation with sequential slice ids."""
    numbers = count()
    return evaluate(state, now=later(seconds), chance=lambda: f"{next(numbers):08x}")


def wanting(slices: int, **group: object) -> AutoscalerState:
    """A cluster with a standing request for that many slices."""
    request = StandingRequest(owner="a", wants=(StandingItem.model_validate({"resources": {"cpu": 4}, "count": slices}),))
    return apply(cluster({"name": "g", "max_slices": 9000} | group), CapacityRequested(at=NOW, request=request))


def test_the_same_state_time_and_chance_give_the_same_orders() -> None:
    state = wanting(2)

    assert evaluated(state) == evaluated(state)
    assert [launch.slice_id for launch in evaluated(state).orders.launches] == [
        "g-260101-000000-00000000",
        "g-260101-000000-00000001",
    ]


def test_an_evaluation_orders_as_many_slices_as_one_message_holds_and_the_next_is_due_immediately() -> None:
    state = wanting(module.MOST_LAUNCHES + 5)
    first = evaluated(state)
    after = apply(state, Decided(at=NOW, orders=first.orders))
    second = evaluated(after)

    assert (len(first.orders.launches), first.orders.next_change_at) == (module.MOST_LAUNCHES, NOW)
    assert len(second.orders.launches) == 5


def test_the_next_evaluation_is_due_at_the_end_of_patience_of_the_launched_slices() -> None:
    state = wanting(1, patience="90s")
    orders = evaluated(state).orders
    after = apply(state, Decided(at=NOW, orders=orders))

    assert orders.next_change_at == NOW + timedelta(seconds=90)
    assert not evaluated(after, 89).orders.launches
    assert evaluated(after, 90).orders.launches


def test_drains_are_carried_out_as_ordered() -> None:
    state = ready(cluster(), "a")
    orders = Orders(
        at=NOW,
        input_version=state.input_version,
        config_revision=state.config_revision,
        drains=(Drain(slice_id="a", cause="idle"), Drain(slice_id="unknown", cause="idle")),
    )
    after = apply(state, Decided(at=NOW, orders=orders))

    assert drains(after) == {"a": DrainTerms(cause="idle")}
    assert commands(after) == (DrainCommand(slice_id="a", terms=DrainTerms(cause="idle")),)


def test_changes_name_every_field_of_the_state_and_no_other() -> None:
    assert Changes.__annotations__.keys() - {"matters"} == AutoscalerState.model_fields.keys()


def demanded(state: AutoscalerState, revision: int, *, source: str = "default", epoch: int = 1) -> AutoscalerState:
    demand = build_demand([Task.model_validate({"id": f"{source}-{revision}", "resources": {"cpu": 1}})])
    return apply(state, DemandSnapshot(at=later(1), source=source, epoch=epoch, revision=revision, demand=demand))


def decided(state: AutoscalerState) -> AutoscalerState:
    return apply(state, Decided(at=later(1), orders=evaluated(state, 3).orders))


def test_the_status_says_on_which_demand_its_figures_were_decided_and_what_waits() -> None:
    state = decided(demanded(cluster({"name": "g", "max_slices": 9}), 41))
    assert (status_of(state).outdated, status_of(state).behind) == (False, None)

    newer = demanded(demanded(state, 43), 44)
    assert (status_of(newer).outdated, status_of(newer).behind) == (
        True,
        "decided at 00:00:03Z on revision 41 of default; revision 44 of default waits for the next evaluation",
    )
    others = demanded(demanded(newer, 0, source="ray"), 1, source="default", epoch=2)
    assert status_of(others).behind == (
        "decided at 00:00:03Z on epoch 1 revision 41 of default;"
        " epoch 2 revision 1 of default, the first demand of ray wait for the next evaluation"
    )
    resized = apply(state, CapacityRequested(at=NOW, request=StandingRequest(owner="a", wants=())))
    assert status_of(resized).behind == "decided at 00:00:03Z; what was reported since waits for the next evaluation"
    assert status_of(decided(others)).behind is None


def test_the_status_says_whether_the_last_evaluation_used_cheaper_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    state = demanded(cluster({"name": "g", "max_slices": 9}), 1)
    assert status_of(decided(state)).thorough
    monkeypatch.setattr(effort, "MOST_STEPS", 0)
    assert not status_of(decided(state)).thorough


def placed_on_ready(*names: str, at: float = 0, revision: int = 1) -> AutoscalerState:
    """Tasks that fit on a READY slice."""
    return apply(ready(cluster(), "a"), wants(*names, at=at, revision=revision, cpu=1))


def watched(evaluation: Evaluation) -> dict[str, float]:
    """Since which second each watched task has been on READY slices."""
    return {item.task_id: (item.since - NOW).total_seconds() for item in evaluation.orders.on_ready}


def test_orders_remember_since_when_some_tasks_have_been_on_ready_slices() -> None:
    first = evaluated(placed_on_ready("t", "u"), 5)
    assert watched(first) == {"t": 5, "u": 5}
    later_on = apply(placed_on_ready("new", "u"), Decided(at=later(5), orders=first.orders))
    assert watched(evaluated(later_on, 60)) == {"u": 5, "new": 60}


def test_a_few_tasks_of_each_group_are_watched_and_those_that_are_never_started_stay_among_them() -> None:
    state = apply(ready(cluster(), "a"), wants("stuck", cpu=0))
    state = apply(state, Decided(at=NOW, orders=evaluated(state).orders))
    for second in range(1, 30):
        busy = (f"done-{second}-{i}" for i in range(50))
        state = apply(state, wants(*busy, "stuck", at=second, revision=second + 1, cpu=0))
        found = evaluated(state, second)
        state = apply(state, Decided(at=later(second), orders=found.orders))
        assert watched(found)["stuck"] == 0
        assert len(watched(found)) == WATCHED_OF_GROUP


def test_tasks_that_nobody_starts_for_the_grace_are_an_alert_also_on_reported_slices() -> None:
    for report in (says(1), says(1, a=IDLE)):
        state = replay([wants("t"), report], ready(cluster(), "a"))
        state = apply(state, Decided(at=NOW, orders=evaluated(state, 10).orders))
        assert status_of(state, now=later(129)).groups[0].not_started == ()
        group = status_of(state, now=later(130)).groups[0]
        assert (group.not_started, group.not_started_since) == (("t",), later(10))
        text = explain(state, "t", now=later(610)).text
        assert "It has been placed there for 10m, and no report says that it runs: does the controller use these slices?" in text


def test_a_task_that_runs_is_no_alert() -> None:
    state = replay([wants("t"), says(1, a=IDLE)], ready(cluster(), "a"))
    state = apply(state, Decided(at=NOW, orders=evaluated(state, 10).orders))
    state = apply(state, says(20, a=running("t")))
    state = apply(state, Decided(at=NOW, orders=evaluated(state, 20).orders))
    assert status_of(state, now=later(1000)).groups[0].not_started == ()
