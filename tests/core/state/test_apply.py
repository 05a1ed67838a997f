"""Whoever has the events has the state."""

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
    HealthChanged,
    SliceGone,
    SliceMoved,
    SlicesOrdered,
    TimePassed,
    UsageReported,
)
from penstock.core.state.state import AutoscalerState
from penstock.model.building import build_demand
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code
from penstock.model.demand import Task
from penstock.model.resources import Resources
from penstock.model.runs import HostRef
from penstock.model.shape import Device, DeviceType
from penstock.model.slices import Availability, Health, HostUsage, Slice, SliceState, StandingRequest

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def config(**group: object) -> ClusterConfig:
    fields = {"name": "g", "host": {"cpu": 4}, "max_slices": 4} | group
    return ClusterConfig.model_validate({"cluster": "c", "groups": [fields]})


def ordered(*names: str, at: datetime = NOW) -> SlicesOrdered:
    slices = tuple(Slice(id=name, group="g", state=SliceState.REQUESTING, since=at) for name in names)
    return SlicesOrdered(at=at, slices=slices)


def test_a_slice_is_in_the_ledger_from_its_order_until_it_is_gone() -> None:
    state = replay([ConfigApplied(at=NOW, config=config()), ordered("a", "b"), SliceGone(at=NOW, slice_id="a")])
    assert [piece.id for piece in state.slices] == ["b"]


def test_an_order_that_is_repeated_counts_once() -> None:
    state = replay([ordered("a"), ordered("a", "b")])
    assert [piece.id for piece in state.slices] == ["a", "b"]
    assert [piece.id for piece in replay([ordered("a", "a")]).slices] == ["a"]
    assert sum(item.slices for item in state.launched) == 2


def test_a_slice_that_moves_is_in_its_state_since_then() -> None:
    later = NOW + timedelta(minutes=5)
    state = replay([ordered("a"), SliceMoved(at=later, slice_id="a", state=SliceState.BOOTING)])
    assert (state.slices[0].state, state.slices[0].since) == (SliceState.BOOTING, later)
    queued = apply(replay([ordered("a")]), SliceMoved(at=later, slice_id="a", state=SliceState.REQUESTING, queued=True))
    assert (queued.slices[0].queued, queued.slices[0].since) == (True, NOW)


def test_an_event_about_a_slice_nobody_knows_changes_nothing() -> None:
    state = replay([ordered("a")])
    moved = apply(state, SliceMoved(at=NOW, slice_id="x", state=SliceState.READY))
    reported = apply(moved, UsageReported(at=NOW, usage={"x": (HostUsage(),)}))
    assert (reported.slices, reported.usage) == (state.slices, state.usage)


def test_usage_of_a_slice_goes_with_it() -> None:
    state = replay([ordered("a"), UsageReported(at=NOW, usage={"a": (HostUsage(),)}), SliceGone(at=NOW, slice_id="a")])
    assert state.usage == {}


def test_launches_are_remembered_for_a_minute() -> None:
    state = replay([ordered("a"), ordered("b", at=NOW + timedelta(seconds=30)), TimePassed(at=NOW + timedelta(seconds=61))])
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


def test_health_that_is_available_again_is_forgotten() -> None:
    blocked = HealthChanged(at=NOW, group="g", health=Health(availability=Availability.BACKOFF))
    state = replay([blocked])
    assert list(state.health) == ["g"]
    assert apply(state, HealthChanged(at=NOW, group="g", health=Health())).health == {}


def test_a_disabled_group_may_be_asked_again_once_its_configuration_changed() -> None:
    disabled = HealthChanged(at=NOW, group="g", health=Health(availability=Availability.DISABLED))
    state = replay([ConfigApplied(at=NOW, config=config()), disabled])
    assert list(apply(state, ConfigApplied(at=NOW, config=config())).health) == ["g"]
    assert apply(state, ConfigApplied(at=NOW, config=config(max_slices=5))).health == {}
    assert apply(state, ConfigApplied(at=NOW, config=config())).config_revision == 2


def test_slices_of_a_group_that_is_gone_are_charged_to_their_pool_until_they_are_gone_too() -> None:
    def chips(*names: str) -> ClusterConfig:
        groups = [{"name": name, "device": {"type": "tpu", "variant": "v4-8"}, "max_slices": 9, "pool": "p"} for name in names]
        return ClusterConfig.model_validate({"cluster": "c", "pools": [{"name": "p", "chips": 8}], "groups": groups})

    task = Task(id="t", device=Device(type=DeviceType.TPU), resources=Resources(tpu=4))
    events: list[AnyEvent] = [
        ConfigApplied(at=NOW, config=chips("g", "h")),
        ordered("a", "b"),
        ConfigApplied(at=NOW, config=chips("h")),
        DemandSnapshot(at=NOW, epoch=0, revision=0, demand=build_demand([task])),
    ]
    decision = decide(snapshot_of(replay(events)).snapshot)
    assert (decision.launched(), decision.pools[0].charged, decision.unmet[0].groups) == ({}, 8, {"h": Code.POOL_EXHAUSTED})
    assert decide(snapshot_of(replay([*events, SliceGone(at=NOW, slice_id="a")])).snapshot).launched() == {"h": 1}


def test_a_task_that_usage_shows_running_is_not_demand() -> None:
    demand = build_demand([Task(id="a", resources=Resources(cpu=1)), Task(id="b", resources=Resources(cpu=1))])
    state = replay(
        [
            ConfigApplied(at=NOW, config=config()),
            ordered("s"),
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
            ordered("s", "t", "u"),
            *(SliceMoved(at=NOW, slice_id=name, state=SliceState.READY) for name in "stu"),
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
            ordered("s"),
            SliceMoved(at=NOW, slice_id="s", state=SliceState.READY),
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
