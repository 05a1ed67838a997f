"""Explanations: the paragraph that answers "why is my task pending", compared word for word."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.contract.answers import CHEAPER, Explanation, TaskStatus
from penstock.core.answers.explain import explain
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.summary import summarize
from penstock.core.decision import effort, reasons
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import Closed, ConfigApplied, DemandSnapshot, Paused, RecoveryBegan, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code, Tier
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import HostUsage, Slice, SliceState

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
CPU: dict[str, Any] = {"name": "cpu", "host": {"cpu": 4}, "max_slices": 2, "zone": "us-west4-a"}
TPU: dict[str, Any] = {
    "name": "tpu",
    "device": {"type": "tpu", "variant": "v5litepod-16"},
    "host": {"cpu": 8},
    "max_slices": 1,
    "zone": "us-west4-a",
}


def state(
    tasks: list[dict[str, Any]],
    *groups: dict[str, Any],
    slices: tuple[Slice, ...] = (),
    usage: dict[str, tuple[HostUsage, ...]] | None = None,
    **config: Any,
) -> AutoscalerState:
    cluster = ClusterConfig.model_validate({"cluster": "c", "groups": groups or (CPU, TPU)} | config)
    demand = build_demand([Task.model_validate(task) for task in tasks])
    start = AutoscalerState(slices=slices, usage=usage or {})
    return replay([ConfigApplied(at=NOW, config=cluster), DemandSnapshot(at=NOW, epoch=0, revision=0, demand=demand)], start)


def task(name: str, **resources: Any) -> dict[str, Any]:
    return {"id": name, "resources": resources}


def ready(name: str, group: str = "cpu") -> Slice:
    return Slice(id=name, group=group, state=SliceState.READY, since=NOW - timedelta(hours=1))


def test_a_task_that_fits_on_a_ready_slice() -> None:
    answer = explain(state([task("t", cpu=1)], slices=(ready("s"),), usage={"s": (HostUsage(),)}), "t")
    assert (answer.status, answer.group, answer.tier) == (TaskStatus.PLACED, "cpu", Tier.READY)
    assert answer.text == (
        "Task t (cpu 1) fits on READY slices of cpu, so nothing is launched for it; the controller may start it now."
        " Also considered: tpu (not needed)."
    )


def test_a_task_placed_on_slices_that_no_usage_report_names_asks_for_the_controller_once_their_grace_is_over() -> None:
    silent = state([task("t", cpu=1)], slices=(ready("s"), ready("s2")), usage={"s2": (HostUsage(),)}, ready_grace="1h")
    assert explain(silent, "t").text == (
        "Task t (cpu 1) fits on READY slices of cpu, so nothing is launched for it; the controller may start it now."
        " No usage report has named 1 slice of cpu, READY for up to 1h: is the controller running?"
        " Also considered: tpu (not needed)."
    )
    patient = state([task("t", cpu=1)], slices=(ready("s"),), ready_grace="2h")
    assert "No usage report" not in explain(patient, "t").text


def test_a_task_that_waits_for_a_slice_in_flight() -> None:
    booting = Slice(id="s", group="cpu", state=SliceState.BOOTING, since=NOW - timedelta(minutes=3))
    answer = explain(state([task("t", cpu=1)], slices=(booting,)), "t")
    assert (answer.status, answer.tier) == (TaskStatus.WAITING, Tier.IN_FLIGHT)
    assert answer.text.startswith("Task t (cpu 1) waits for a slice of cpu in flight: s BOOTING for 3m.")


def test_a_task_does_not_wait_for_a_stalled_slice() -> None:
    stalled = Slice(id="s", group="cpu", state=SliceState.REQUESTING, since=NOW - timedelta(minutes=30))
    answer = explain(state([task("a", cpu=1), task("b", cpu=2)], slices=(stalled,)), "b")
    assert answer.text.startswith("Task b (cpu 2) shares a new slice of cpu that this decision opens.")


def test_a_task_that_gets_a_new_slice_with_the_codes_of_the_other_groups() -> None:
    answer = explain(state([task("t", tpu=4)]), "t")
    assert (answer.status, answer.tier, answer.groups) == (TaskStatus.WAITING, Tier.NEW, {"cpu": "device_mismatch"})
    assert answer.text == (
        "Task t (tpu 4) gets a new slice of tpu, the first matching group that can add one."
        " Also considered: cpu (device_mismatch)."
    )


def test_a_task_that_shares_a_new_slice() -> None:
    answer = explain(state([task("a", cpu=1), task("b", cpu=2)]), "b")
    assert answer.text.startswith("Task b (cpu 2) shares a new slice of cpu that this decision opens.")


def test_the_explanation_of_a_deferred_slice_names_the_limit() -> None:
    answer = explain(state([task("a", cpu=4), task("b", cpu=4)], limits={"in_flight": 1}), "b")
    assert "cpu has slices deferred (1): the cluster limits in_flight to 1" in answer.text


def test_an_unmet_task_with_a_remedy_that_was_checked() -> None:
    answer = explain(state([task(name, cpu=4) for name in "abc"], CPU), "c")
    assert (answer.status, answer.code, answer.groups) == (TaskStatus.UNMET, Code.NO_CAPACITY, {"cpu": "at_max"})
    assert answer.text == (
        "Task c (cpu 4) cannot be placed (no_capacity): no matching group can take it now: cpu=at_max."
        " Remedy: raise max_slices of cpu from 2 to 3."
    )


def test_an_unmet_task_with_a_misspelt_zone() -> None:
    constraint = {"attribute": "zone", "op": "eq", "value": "us-west4a"}
    answer = explain(state([task("t", cpu=1) | {"constraints": [constraint]}]), "t")
    assert answer.text == (
        "Task t (cpu 1, zone = us-west4a) cannot be placed (no_matching_group): no group satisfies zone = us-west4a;"
        " did you mean us-west4-a?"
    )


def test_a_gang_is_explained_by_any_of_its_tasks() -> None:
    members = [task(f"t{i}", tpu=4) | {"gang": {"id": "g", "size": 3}} for i in range(3)]
    answer = explain(state(members), "t2")
    assert answer.code is Code.GANG_SIZE_MISMATCH
    assert answer.text.startswith("Task t2 of gang g (tpu 4, gang of 3, whole_slices) cannot be placed (gang_size_mismatch):")


def test_a_running_task_is_not_demand() -> None:
    answer = explain(
        replay(
            [UsageReported(at=NOW, usage={"s": (HostUsage(tasks=("t",)),)})],
            state([]).model_copy(update={"slices": (ready("s"),)}),
        ),
        "t",
    )
    assert (answer.status, answer.text) == (TaskStatus.RUNNING, "Task t is running on slice s; it is not demand.")


def test_an_unknown_task_id_gets_a_suggestion() -> None:
    answer = explain(state([task("train/0", cpu=1)]), "trian/0")
    assert (answer.status, answer.text) == (
        TaskStatus.UNKNOWN,
        "No task or gang trian/0 is waiting or running, and no task id begins with it. Did you mean train/0?",
    )


def test_an_explanation_survives_json() -> None:
    answer = explain(state([task(name, cpu=4) for name in "abc"], CPU), "c")
    assert Explanation.model_validate_json(answer.model_dump_json()) == answer


def gang(name: str, size: int = 2) -> list[dict[str, Any]]:
    member = {"id": name, "size": size, "placement": "spread"}
    return [{"id": f"{name}/{i}", "resources": {"cpu": 4}, "gang": member} for i in range(size)]


def test_a_gang_is_explained_by_its_id() -> None:
    answer = explain(state(gang("train"), CPU), "train")
    assert (answer.status, answer.tasks, answer.group) == (TaskStatus.WAITING, 2, "cpu")
    assert answer.text.startswith("Gang train, 2 waiting tasks (cpu 4, gang of 2, spread), gets new slices of cpu")


def test_a_gang_that_runs_is_found_on_its_slices() -> None:
    usage: dict[str, tuple[HostUsage, ...]] = {
        name: (HostUsage(tasks=(f"train/{i}",), gangs=("train",)),) for i, name in enumerate(("s", "t"))
    }
    answer = explain(state([], CPU, slices=(ready("s"), ready("t")), usage=usage), "train")
    assert (answer.status, answer.text) == (TaskStatus.RUNNING, "Gang train is running on slices s, t; it is not demand.")


def test_a_prefix_is_explained_by_outcomes_with_the_unmet_tasks_first() -> None:
    tasks = [*gang("job/a"), *gang("job/b"), task("job/c", gpu=1), task("other", cpu=1)]
    usage: dict[str, tuple[HostUsage, ...]] = {"s": (HostUsage(tasks=("job/0",)),)}
    answer = explain(state(tasks, {**CPU, "max_slices": 3}, slices=(ready("s"),), usage=usage), "job/")
    assert (answer.status, answer.tasks, answer.code) == (TaskStatus.UNMET, 6, Code.NO_CAPACITY)
    assert answer.text.startswith("6 tasks begin with job/. 2 tasks in 1 gang cannot be placed (no_capacity): ")
    assert "1 task cannot be placed (no_matching_group): " in answer.text
    assert "2 tasks in 1 gang get new slices of cpu. 1 task runs already." in answer.text
    assert answer.text.endswith("Remedy: raise max_slices of cpu from 3 to 5.")


def test_a_prefix_of_one_task_is_explained_as_that_task() -> None:
    assert explain(state([task("train/0", cpu=1)]), "tra").text.startswith("Task train/0 (cpu 1) gets a new slice of cpu")


def test_a_paused_cluster_says_so_before_it_says_what_would_be_decided() -> None:
    paused = apply(state([task("t", cpu=1)]), Paused(at=NOW, reason="maintenance"))
    answer = explain(paused, "t")
    assert answer.held == "The cluster is paused (maintenance): nothing is launched or drained until it is resumed."
    assert answer.text.startswith(f"{answer.held} What would be decided now: Task t (cpu 1) gets a new slice of cpu")


def test_a_recovering_cluster_says_for_how_long_and_what_it_waits_for() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="new")
    answer = explain(apply(state([task("t", cpu=1)]), began), "t", now=NOW + timedelta(minutes=4))
    assert answer.text.startswith("The cluster has been recovering its ledger for 4m: nothing is launched or drained until then,")
    assert "it waits for slice workflows, sim/us-west4-a." in answer.text


def test_a_cluster_that_is_being_deleted_launches_nothing_for_minimum_or_demand() -> None:
    closing = apply(state([task("t", cpu=1)], {**CPU, "min_slices": 2, "warm_slices": 1}), Closed(at=NOW, force=False))
    answer = explain(closing, "t")
    assert answer.text.startswith(
        "The cluster is being deleted: its demand is dropped, and nothing is launched any more. No task"
    )
    assert decide(snapshot_of(closing).snapshot).launches == ()


def test_ages_count_to_the_time_of_asking() -> None:
    booting = Slice(id="s", group="cpu", state=SliceState.BOOTING, since=NOW - timedelta(minutes=3))
    answer = explain(state([task("t", cpu=1)], slices=(booting,)), "t", now=NOW + timedelta(minutes=2))
    assert "s BOOTING for 5m." in answer.text


def test_a_decision_by_cheaper_methods_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    packing = state([task("t", cpu=1)], placement="packing")
    assert CHEAPER not in explain(packing, "t").text
    monkeypatch.setattr(effort, "SHORT_FROM", 0)
    assert explain(packing, "t").text.endswith(CHEAPER)
    view = snapshot_of(packing)
    assert not summarize(decide(view.snapshot), view.demand, {}).thorough


def test_a_task_that_the_decision_explained_in_brief_is_explained_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task("t", cpu=1) | {"constraints": [{"attribute": "zone", "op": "eq", "value": "us-west4-b"}]}, task("big", cpu=9)]
    full = {name: explain(state(tasks), name).text for name in ("t", "big")}
    assert "did you mean us-west4-a?" in full["t"]
    made = state(tasks)
    monkeypatch.setattr(reasons, "EXPLAINING_STEPS", 0)
    view = snapshot_of(made)
    decision = decide(view.snapshot)
    assert all("ask penstock explain" in unmet.message for unmet in decision.unmet)
    assert {name: explain(made, name, made=(view, decision)).text for name in ("t", "big")} == full


def test_a_task_that_was_not_tried_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "MOST_STEPS", 0)
    answer = explain(state([task("t", cpu=1)]), "t")
    assert (answer.status, answer.code) == (TaskStatus.UNMET, Code.EFFORT_SPENT)
    assert answer.text.startswith(
        "Task t (cpu 1) cannot be placed (effort_spent): the evaluation did as much work as one may do before it came to this"
        " entry; send fewer distinct shapes or gangs."
    )
