"""Remedies: one change to the configuration that meets unmet demand, and is checked by deciding again."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.answers.remedy import remedies_for, with_setting
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.snapshot import Snapshot

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def snapshot(config: dict[str, Any], tasks: list[dict[str, Any]]) -> Snapshot:
    demand = build_demand([Task.model_validate(task | {"id": f"t{i}"}) for i, task in enumerate(tasks)])
    return Snapshot(config=ClusterConfig.model_validate({"cluster": "c"} | config), now=NOW, workload=demand.workload)


def group(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "host": {"cpu": 4}, "max_slices": 1} | fields


def messages(given_snapshot: Snapshot) -> list[str]:
    decision = decide(given_snapshot)
    return [remedy.message for remedy in remedies_for(given_snapshot, decision).values()]


WHOLE_HOST: dict[str, Any] = {"resources": {"cpu": 4}}
CHIPS: dict[str, Any] = {"resources": {"tpu": 4}}
TPU = {"device": {"type": "tpu", "variant": "v4-8"}, "max_slices": 9, "pool": "p"}


@pytest.mark.parametrize(
    ("config", "tasks", "remedies"),
    [
        ({"groups": [group("a")]}, [WHOLE_HOST] * 3, ["raise max_slices of a from 1 to 3"]),
        (
            {"groups": [group("a", max_slices=9)], "max_slices": 1},
            [WHOLE_HOST] * 3,
            ["raise max_slices of the cluster from 1 to 3"],
        ),
        (
            {"groups": [group("a", **TPU)], "pools": [{"name": "p", "chips": 8, "system": 2}]},
            [CHIPS] * 3,
            ["raise chips of pool p from 8 to 14"],
        ),
        ({"groups": [group("a")], "max_slices": 1}, [WHOLE_HOST] * 3, []),
        ({"groups": [group("a"), group("b", priority=1)]}, [WHOLE_HOST] * 4, ["raise max_slices of b from 1 to 3"]),
        ({"groups": [group("a")]}, [{"resources": {"cpu": 5}}], []),
    ],
)
def test_a_remedy_names_the_one_setting_to_raise(
    config: dict[str, Any], tasks: list[dict[str, Any]], remedies: list[str]
) -> None:
    assert messages(snapshot(config, tasks)) == remedies


def test_a_remedy_raises_the_setting_only_as_far_as_needed() -> None:
    tasks: list[dict[str, Any]] = [WHOLE_HOST, {"resources": {"cpu": 3}}, WHOLE_HOST | {"preemptible": False}]
    before = snapshot({"groups": [group("a")]}, tasks)
    found = remedies_for(before, decide(before))
    assert [found[i].after for i in sorted(found)] == [2, 3]


def test_a_remedy_never_makes_other_demand_unmet() -> None:
    groups = [group("big", max_slices=0, host={"cpu": 64}), group("small", max_slices=5, host={"cpu": 16})]
    big, small = {"resources": {"cpu": 60}}, {"resources": {"cpu": 16}}
    assert messages(snapshot({"groups": groups, "max_slices": 2}, [big, small, small])) == ["raise max_slices of big from 0 to 2"]


configs = st.fixed_dictionaries(
    {
        "placement": st.sampled_from(["priority", "packing", "cost"]),
        "max_slices": st.none() | st.integers(1, 6),
        "pools": st.just([{"name": "p", "chips": 12, "system": 1}]),
        "groups": st.tuples(
            st.builds(lambda n: group("a", max_slices=n, price_per_hour=2.0), st.integers(0, 3)),
            st.builds(
                lambda n: group("b", max_slices=n, price_per_hour=1.0, host={"cpu": 2}, hosts_per_slice=2), st.integers(0, 3)
            ),
            st.builds(lambda n: group("t", **TPU | {"max_slices": n, "price_per_hour": 5.0}), st.integers(0, 3)),
        ),
    }
)
shapes = st.sampled_from(
    [WHOLE_HOST, CHIPS, {"resources": {"cpu": 1}}, {"resources": {"cpu": 2}}, {"resources": {"cpu": 2}, "preemptible": True}]
)


@settings(max_examples=150, deadline=None)
@given(configs, st.lists(shapes, max_size=10))
def test_the_configuration_with_the_remedy_meets_the_demand(config: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
    before = snapshot(config, tasks)
    decision = decide(before)
    for i, remedy in remedies_for(before, decision).items():
        mended = before.model_copy(update={"config": with_setting(before.config, remedy.setting, remedy.after)})
        assert remedy.after > remedy.before
        left = {item.shape: item.entries for item in decide(mended).unmet}
        assert decision.unmet[i].shape not in left
        assert all(count <= {item.shape: item.entries for item in decision.unmet}.get(shape, 0) for shape, count in left.items())
