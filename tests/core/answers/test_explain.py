"""Explanations: the paragraph that answers "why is my task pending", compared word for word."""

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.contract.answers import Explanation, TaskStatus
from penstock.core.answers.explain import explain
from penstock.core.state.apply import replay
from penstock.core.state.events import ConfigApplied, DemandSnapshot, UsageReported
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
    assert (answer.status, answer.text) == (TaskStatus.UNKNOWN, "No task trian/0 is waiting or running. Did you mean train/0?")


def test_an_explanation_survives_json() -> None:
    answer = explain(state([task(name, cpu=4) for name in "abc"], CPU), "c")
    assert Explanation.model_validate_json(answer.model_dump_json()) == answer
