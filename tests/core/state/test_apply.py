"""The events alone determine the state."""

from datetime import UTC, datetime, timedelta

from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    CapacityReleased,
    CapacityRequested,
    ConfigApplied,
    DemandSnapshot,
    TimePassed,
    UsageReported,
)
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.resources import Resources
from penstock.model.runs import HostRef
from penstock.model.shape import Device, DeviceType
from penstock.model.slices import HostUsage, SliceState, StandingRequest
from tests.core.state.ledgers import launched, reported

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def config(**group: object) -> ClusterConfig:
    fields = {"name": "g", "host": {"cpu": 4}, "max_slices": 4} | group
    return ClusterConfig.model_validate({"cluster": "c", "groups": [fields]})


def test_a_slice_is_in_the_ledger_from_its_order_until_it_is_gone() -> None:
    gone = reported("a", SliceState.TERMINATED, 9)
    state = replay([ConfigApplied(at=NOW, config=config()), launched("a", "b"), gone])
    assert [piece.id for piece in state.slices] == ["b"]


def test_an_order_that_is_repeated_counts_once() -> None:
    state = replay([ConfigApplied(at=NOW, config=config()), launched("a", at=NOW), launched("a", "b", at=NOW)])
    assert [piece.id for piece in state.slices] == ["a", "b"]
    assert sum(item.slices for item in state.launched) == 2


def test_a_report_of_an_ended_slice_or_usage_of_an_unknown_one_changes_nothing() -> None:
    state = replay([ConfigApplied(at=NOW, config=config()), launched("a")])
    ended = apply(state, reported("x", SliceState.TERMINATED, 4))
    after = apply(ended, UsageReported(at=NOW, usage={"x": (HostUsage(),)}))
    assert (after.slices, after.usage) == (state.slices, state.usage)


def test_usage_of_a_slice_goes_with_it() -> None:
    used = UsageReported(at=NOW, usage={"a": (HostUsage(),)})
    gone = reported("a", SliceState.TERMINATED, 9)
    assert replay([ConfigApplied(at=NOW, config=config()), launched("a"), used, gone]).usage == {}


def test_launches_are_remembered_for_a_minute() -> None:
    first, second = launched("a", at=NOW), launched("b", at=NOW + timedelta(seconds=30))
    state = replay([ConfigApplied(at=NOW, config=config()), first, second, TimePassed(at=NOW + timedelta(seconds=61))])
    assert [(item.group, item.slices) for item in state.launched] == [("g", 1)]


def test_time_never_goes_back() -> None:
    state = replay([TimePassed(at=NOW), TimePassed(at=NOW - timedelta(hours=1))])
    assert state.now == NOW


def test_owners_do_not_overwrite_each_others_requests() -> None:
    requests = [StandingRequest(owner=name, wants=()) for name in ("a", "b")]
    state = replay([CapacityRequested(at=NOW, request=request) for request in requests])
    assert sorted(state.standing) == ["a", "b"]
    assert sorted(apply(state, CapacityReleased(at=NOW, owner="a")).standing) == ["b"]


def test_a_standing_request_expires() -> None:
    request = StandingRequest(owner="a", wants=(), expires=NOW + timedelta(hours=1))
    state = replay([CapacityRequested(at=NOW, request=request)])
    assert sorted(apply(state, TimePassed(at=NOW + timedelta(minutes=59))).standing) == ["a"]
    assert apply(state, TimePassed(at=NOW + timedelta(hours=1))).standing == {}


def test_a_request_renewed_after_it_expired_stands() -> None:
    first = StandingRequest(owner="a", wants=(), expires=NOW + timedelta(minutes=5))
    again = StandingRequest(owner="a", wants=(), expires=NOW + timedelta(hours=1))
    later = NOW + timedelta(minutes=6)
    state = replay([CapacityRequested(at=NOW, request=first), CapacityRequested(at=later, request=again)])
    assert state.standing == {"a": again}
    assert apply(state, CapacityRequested(at=later, request=first)).standing == {}


def test_slices_of_a_group_that_is_gone_are_charged_to_their_pool_until_they_are_gone_too() -> None:
    def chips(*names: str) -> ClusterConfig:
        groups = [{"name": name, "device": {"type": "tpu", "variant": "v4-8"}, "max_slices": 9, "pool": "p"} for name in names]
        return ClusterConfig.model_validate({"cluster": "c", "pools": [{"name": "p", "chips": 8}], "groups": groups})

    task = Task(id="t", device=Device(type=DeviceType.TPU), resources=Resources(tpu=4))
    events: list[AnyEvent] = [
        ConfigApplied(at=NOW, config=chips("g", "h")),
        launched("a", "b"),
        ConfigApplied(at=NOW, config=chips("h")),
        DemandSnapshot(at=NOW, epoch=0, revision=0, demand=build_demand([task])),
    ]
    decision = decide(snapshot_of(replay(events)).snapshot)
    assert (decision.launched(), decision.pools[0].charged, decision.unmet[0].groups) == ({}, 8, {"h": Code.POOL_EXHAUSTED})
    assert decide(snapshot_of(replay([*events, reported("a", SliceState.TERMINATED, 9)])).snapshot).launched() == {"h": 1}


def test_a_task_that_usage_shows_running_is_not_demand() -> None:
    demand = build_demand([Task(id="a", resources=Resources(cpu=1)), Task(id="b", resources=Resources(cpu=1))])
    state = replay(
        [
            ConfigApplied(at=NOW, config=config()),
            launched("s"),
            UsageReported(at=NOW, usage={"s": (HostUsage(tasks=("a",)),)}),
            DemandSnapshot(at=NOW, epoch=0, revision=0, demand=demand),
        ]
    )
    assert snapshot_of(state).demand.task_ids == ("b",)


def test_a_spread_gang_that_runs_in_part_is_kept_off_its_own_hosts() -> None:
    member = Task.model_validate({"id": "c", "resources": {"cpu": 1}, "gang": {"id": "g1", "size": 3, "placement": "spread"}})
    state = replay(
        [
            ConfigApplied(at=NOW, config=config()),
            *(reported(name, SliceState.READY, 3) for name in "stu"),
            UsageReported(
                at=NOW,
                usage={
                    "s": (HostUsage(reserved=Resources(cpu=1), gangs=("g1",)),),
                    "t": (HostUsage(reserved=Resources(cpu=1), gangs=("g1",)),),
                    "u": (HostUsage(reserved=Resources(cpu=4), gangs=("other",)),),
                },
            ),
            DemandSnapshot(at=NOW, epoch=0, revision=0, demand=build_demand([member])),
        ]
    )
    view = snapshot_of(state)
    assert view.snapshot.workload.runs[0].apart == (HostRef("s", 0), HostRef("t", 0))
    assert decide(view.snapshot).launched() == {"g": 1}


def test_a_gang_runs_in_part_where_usage_shows_its_tasks() -> None:
    members = [
        Task.model_validate({"id": f"c{i}", "resources": {"cpu": 1}, "gang": {"id": "g1", "size": 2, "placement": "spread"}})
        for i in range(2)
    ]
    state = replay(
        [
            ConfigApplied(at=NOW, config=config()),
            reported("s", SliceState.READY, 3),
            UsageReported(at=NOW, usage={"s": (HostUsage(reserved=Resources(cpu=1), tasks=("c0",)),)}),
            DemandSnapshot(at=NOW, epoch=0, revision=0, demand=build_demand(members)),
        ]
    )
    view = snapshot_of(state)
    assert (view.demand.task_ids, view.snapshot.workload.runs[0].apart) == (("c1",), (HostRef("s", 0),))


def test_demand_of_several_sources_is_taken_in_the_order_of_their_names() -> None:
    def of(source: str, name: str) -> DemandSnapshot:
        return DemandSnapshot(at=NOW, source=source, epoch=0, revision=0, demand=build_demand([Task(id=name)]))

    state = replay([ConfigApplied(at=NOW, config=config()), of("b", "second"), of("a", "first")])
    assert snapshot_of(state).demand.task_ids == ("first", "second")


def test_an_empty_state_survives_json() -> None:
    assert AutoscalerState.model_validate_json(AutoscalerState().model_dump_json()) == AutoscalerState()
