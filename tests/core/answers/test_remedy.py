"""Remedies: one change to the configuration that meets unmet demand, and is checked by deciding again."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.answers import Setting
from penstock.core.answers import remedy as search
from penstock.core.answers.remedy import Asked, remedies_for, remedy_for, with_setting
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code, Unmet
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.snapshot import Snapshot
from tests.core.decision.test_laws import law

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def snapshot(config: dict[str, Any], tasks: list[dict[str, Any]]) -> Snapshot:
    demand = build_demand([Task.model_validate(task | {"id": f"t{i}"}) for i, task in enumerate(tasks)])
    return Snapshot(config=ClusterConfig.model_validate({"cluster": "c"} | config), now=NOW, workload=demand.workload)


def group(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "host": {"cpu": 4}, "max_slices": 1} | fields


def messages(given_snapshot: Snapshot) -> list[str]:
    decision = decide(given_snapshot)
    return [search.text for search in remedies_for(given_snapshot, decision).values() if search.text]


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
    assert [found[i].text for i in sorted(found)] == [f"raise max_slices of a from 1 to {most}" for most in (2, 3)]


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


@law
@given(configs, st.lists(shapes, max_size=10))
def test_the_configuration_with_the_remedy_meets_the_demand(config: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
    before = snapshot(config, tasks)
    decision = decide(before)
    found = {i: search.remedy for i, search in remedies_for(before, decision).items()}
    for i, remedy in ((i, remedy) for i, remedy in found.items() if remedy is not None):
        mended = before.model_copy(update={"config": with_setting(before.config, remedy.setting, remedy.after)})
        assert remedy.after > remedy.before
        left = {item.shape: item.entries for item in decide(mended).unmet}
        assert decision.unmet[i].shape not in left
        assert all(count <= {item.shape: item.entries for item in decision.unmet}.get(shape, 0) for shape, count in left.items())


def least_by_trying(before: Snapshot, unmet: Unmet, asked: Asked) -> int | None:
    """The least number of steps by which some setting that limits the shape meets the entry: every value, one by one."""
    earlier = {item.shape: item.entries for item in decide(before).unmet}
    for step in range(1, 20):
        for setting, value in limiting(before, unmet):
            after = decide(before.model_copy(update={"config": with_setting(before.config, setting, value + step)}))
            left = {item.shape: item.entries for item in after.unmet}
            spans = [span for item in after.unmet for span in item.spans if span.run == asked.run]
            met = not any(span.first <= asked.position < span.first + span.entries for span in spans)
            if met and all(count <= earlier.get(shape, 0) for shape, count in left.items()):
                return step
    return None


def limiting(before: Snapshot, unmet: Unmet) -> list[tuple[Setting, int]]:
    """Maximums of groups and of the cluster that the reasons name."""
    groups = [each for each in before.config.groups if unmet.groups.get(each.name) is Code.AT_MAX]
    found = [(Setting("group", each.name, "max_slices"), each.max_slices) for each in groups]
    if before.config.max_slices is not None and Code.CLUSTER_AT_MAX in unmet.groups.values():
        found.append((Setting("cluster", "", "max_slices"), before.config.max_slices))
    return found


crowds = st.fixed_dictionaries(
    {
        "placement": st.sampled_from(["priority", "packing", "cost"]),
        "max_slices": st.none() | st.integers(1, 5),
        "groups": st.tuples(
            st.builds(
                lambda n, p: group("a", max_slices=n, priority=p, price_per_hour=2.0), st.integers(0, 2), st.integers(0, 2)
            ),
            st.builds(
                lambda n, p: group("b", max_slices=n, priority=p, price_per_hour=1.0, host={"cpu": 6}, hosts_per_slice=2),
                st.integers(0, 2),
                st.integers(0, 2),
            ),
            st.builds(
                lambda n: group("c", max_slices=n, price_per_hour=5.0, host={"cpu": 3}, preemptible=True), st.integers(0, 2)
            ),
        ),
    }
)
gangs = st.builds(
    lambda size, placement, cpu: {"resources": {"cpu": cpu}, "gang": {"id": "g", "size": size, "placement": placement}},
    st.integers(2, 3),
    st.sampled_from(["spread", "pack"]),
    st.integers(1, 3),
)
crowd_tasks = st.lists(
    st.one_of(st.builds(lambda cpu: {"resources": {"cpu": cpu}}, st.integers(1, 6)), shapes, gangs), min_size=1, max_size=7
)


def with_gangs_whole(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every gang with all its members, under an id of its own."""
    whole: list[dict[str, Any]] = []
    for number, task in enumerate(tasks):
        gang = task.get("gang")
        whole += [task | {"gang": gang | {"id": f"g{number}"}}] * gang["size"] if gang else [task]
    return whole


@law
@given(crowds, crowd_tasks)
def test_no_smaller_change_meets_the_asked_entry_and_none_is_missed(config: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
    before = snapshot(config, with_gangs_whole(tasks))
    decision = decide(before)
    for item in (item for item in decision.unmet if item.code is Code.NO_CAPACITY):
        asked = Asked(item.spans[0].run, item.spans[0].first)
        found = remedy_for(before, decision, item, asked=asked)
        least = least_by_trying(before, item, asked)
        assert found.not_tried == ""
        assert (found.remedy.after - found.remedy.before if found.remedy else None) == least


def test_what_the_effort_did_not_cover_is_said() -> None:
    before = snapshot({"groups": [group("a")]}, [WHOLE_HOST] * 300)
    decision = decide(before)
    brief = remedy_for(before, decision, decision.unmet[0], effort=25_000)
    assert brief.text == "raise max_slices of a from 1 to 300 (not all values from 5 to 299 were tried)"
    whole = remedy_for(before, decision, decision.unmet[0])
    assert whole.text == "raise max_slices of a from 1 to 300"
    none = remedy_for(before, decision, decision.unmet[0], effort=0)
    assert none.text == "none found; 1 other setting not tried"


def test_a_plan_that_the_effort_cannot_pay_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of 100,000 tasks once spent a second on a plan that it then gave up."""
    before = snapshot({"groups": [group("a")]}, [WHOLE_HOST, {"resources": {"cpu": 3}}] * 100)
    decision = decide(before)
    monkeypatch.setattr(search, "plan_figures", lambda *_: pytest.fail("a plan was begun"))
    least = search.SNAPSHOT_STEPS + search.RUN_STEPS * 200
    assert remedy_for(before, decision, decision.unmet[0], effort=least - 1).text == "none found; 1 other setting not tried"
    with pytest.raises(pytest.fail.Exception, match="a plan was begun"):
        remedy_for(before, decision, decision.unmet[0], effort=least)


def test_the_asked_entry_alone_decides_the_remedy_for_its_asker() -> None:
    before = snapshot({"groups": [group("a")]}, [WHOLE_HOST] * 30)
    decision = decide(before)
    first = remedy_for(before, decision, decision.unmet[0], asked=Asked(0, 1))
    last = remedy_for(before, decision, decision.unmet[0], asked=Asked(0, 29))
    assert (first.text, last.text) == ("raise max_slices of a from 1 to 2", "raise max_slices of a from 1 to 30")
