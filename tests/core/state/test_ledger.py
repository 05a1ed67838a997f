"""The ledger follows its slices."""

from datetime import datetime

from penstock.contract.orders import Launch, Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    Closed,
    ConfigApplied,
    Decided,
    DemandSnapshot,
    DrainOrdered,
    LaunchesDropped,
    Paused,
    RecoveryBegan,
    Resumed,
    SlicesStarted,
    UsageReported,
)
from penstock.core.state.specs import initial_lifecycle, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import (
    NOW,
    after_reports,
    cluster,
    config,
    drains,
    later,
    location,
    ordered,
    ready,
    report,
    states,
    unstarted,
)

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)
TERMS = DrainTerms(cause="operator")


def launch(slice_id: str, group: str = "g") -> Launch:
    return Launch(slice_id=slice_id, group=group, cause="demand")


def test_what_is_decided_enters_the_ledger_and_is_to_be_started() -> None:
    orders = Orders(at=NOW, config_revision=1, launches=(launch("a"), launch("b")))
    state = apply(cluster(), Decided(at=NOW, orders=orders))
    assert states(state) == {"a": SliceState.REQUESTING, "b": SliceState.REQUESTING}
    assert unstarted(state) == ["a", "b"]
    assert [(item.group, item.slices) for item in state.launched] == [("g", 2)]
    assert state.orders is not None
    assert state.orders.launches == ()
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.create_accepted, lifecycle.spec.cause) == (SliceState.REQUESTING, False, "demand")
    assert unstarted(apply(state, SlicesStarted(at=NOW, slice_ids=("a", "b")))) == []


def test_orders_decided_before_a_pause_a_recovery_or_a_new_configuration_are_dropped() -> None:
    decided = Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, launches=(launch("a"),)))
    begun = RecoveryBegan(at=NOW, id="r1", reason="reset")
    for event in (Paused(at=NOW, reason="repair"), begun, ConfigApplied(at=NOW, config=config()), Closed(at=NOW)):
        state = replay([event, decided], cluster())
        assert state.slices == ()
        assert state.evaluations == 1


def test_a_late_report_does_not_undo_a_newer_one() -> None:
    state = after_reports(ready(cluster()), report("a", SliceState.BOOTING, 2))
    assert states(state) == {"a": SliceState.READY}


def test_an_ended_slice_leaves_the_ledger_with_all_that_concerns_it() -> None:
    state = replay([UsageReported(at=NOW, usage={"a": BUSY}), DrainOrdered(at=NOW, slice_id="a", terms=TERMS)], ready(cluster()))
    state = after_reports(state, report("a", SliceState.TERMINATED, 9))
    assert (state.slices, state.usage, state.outbox) == ((), {}, ())


def test_a_late_report_of_a_deletion_does_not_bring_an_ended_slice_back() -> None:
    state = after_reports(ready(cluster()), report("a", SliceState.TERMINATED, 9), report("a", SliceState.DELETING, 8))
    assert states(state) == {}
    recovering = apply(cluster(), RecoveryBegan(at=NOW, id="r1", reason="reset"))
    assert states(after_reports(recovering, report("a", SliceState.DELETING, 8))) == {"a": SliceState.DELETING}


def test_a_running_slice_that_nobody_knew_enters_the_ledger_and_one_that_ended_does_not() -> None:
    state = after_reports(cluster(), report("x", SliceState.READY, 4), report("y", SliceState.FAILED, 7))
    assert states(state) == {"x": SliceState.READY}


def test_boot_steps_ask_for_no_decision_but_arrivals_failures_and_ends_do() -> None:
    state = ordered(cluster(), "a")
    booting = after_reports(state, report("a", SliceState.BOOTING, 1))
    assert booting.input_version == state.input_version
    arrived = after_reports(booting, report("a", SliceState.READY, 3))
    assert arrived.input_version > booting.input_version
    failure = Failure(kind=FailureKind.PREEMPTED)
    assert after_reports(arrived, report("a", SliceState.DELETING, 4, failure=failure)).input_version > arrived.input_version


def test_a_failure_is_shown_once() -> None:
    failure = Failure(kind=FailureKind.STOCKOUT, message="none left")
    state = after_reports(ordered(cluster(), "a"), report("a", SliceState.DELETING, 1, failure=failure))
    state = after_reports(state, report("a", SliceState.FAILED, 2, failure=failure))
    assert [(recent.slice_id, recent.failure.message) for recent in state.recent_failures] == [("a", "none left")]


def test_a_slice_that_nobody_knew_is_where_it_says_unless_its_group_is_there() -> None:
    here, there = location(), location("us-east1-b")
    assert [piece.location for piece in after_reports(cluster(), report("a", SliceState.READY, 3, location=here)).slices] == [
        None
    ]
    state = after_reports(cluster(), report("a", SliceState.READY, 3, location=there))
    moved = apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "zone": "us-west4-c"})))
    assert [piece.location for piece in moved.slices] == [there]


def test_a_pause_stands_until_it_is_resumed() -> None:
    paused = apply(cluster(), Paused(at=NOW, reason="repair"))
    assert paused.paused == "repair"
    resumed = apply(paused, Resumed(at=NOW))
    assert resumed.paused is None
    assert resumed.input_version > paused.input_version


def test_every_location_is_watched_once() -> None:
    groups = (
        {"name": "a"},
        {"name": "b"},
        {"name": "c", "provider": {"kind": "gce", "project": "p"}},
        {"name": "d", "zone": None},
    )
    assert [location.key for location in locations_of(config(*groups))] == ["gce:p/us-west4-a", "sim/anywhere", "sim/us-west4-a"]


def queued(state: AutoscalerState, *slice_ids: str) -> AutoscalerState:
    return after_reports(ordered(state, *slice_ids), *(report(each, SliceState.REQUESTING, 1, queued=True) for each in slice_ids))


def with_demand(state: AutoscalerState, tasks: int, at: datetime) -> AutoscalerState:
    demand = build_demand([Task.model_validate({"id": f"t{i}", "resources": {"cpu": 4}}) for i in range(tasks)])
    return apply(state, DemandSnapshot(at=at, epoch=1, revision=1, demand=demand))


def test_a_slice_in_the_clouds_queue_is_waited_for_as_long_as_patience_lasts() -> None:
    decision = decide(snapshot_of(with_demand(queued(cluster(patience="10m"), "a"), 1, later(60))).snapshot)
    assert decision.launched() == {}
    assert decision.next_change_at == later(600)


def test_beyond_patience_its_demand_is_served_elsewhere() -> None:
    groups = ({"name": "g", "priority": 1}, {"name": "h", "priority": 2})
    decision = decide(snapshot_of(with_demand(queued(cluster(*groups), "a"), 1, later(601))).snapshot)
    assert decision.launched() == {"h": 1}


def test_a_group_whose_orders_wait_in_the_clouds_queue_is_asked_for_no_more() -> None:
    decision = decide(snapshot_of(with_demand(queued(cluster(), "a", "b"), 2, later(601))).snapshot)
    assert decision.launched() == {}
    assert "2 of its slices wait in the cloud's queue" in decision.unmet[0].message


def test_orders_that_were_not_started_are_dropped_when_the_cluster_is_given_up() -> None:
    state = apply(cluster(), Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, launches=(launch("a"), launch("b")))))
    state = replay([SlicesStarted(at=NOW, slice_ids=("a",)), Closed(at=NOW), LaunchesDropped(at=NOW, slice_ids=("b",))], state)
    assert states(state) == {"a": SliceState.REQUESTING}
    assert (unstarted(state), set(drains(state)), [command.slice_id for command in state.outbox]) == ([], {"a"}, ["a"])


def test_reports_count_one_by_one_whether_they_come_alone_or_together() -> None:
    state = ordered(cluster(), "a", "b", "c")
    reports = [report(each, SliceState.READY, 3) for each in ("a", "b", "c")]
    alone = after_reports(after_reports(after_reports(state, reports[0]), reports[1]), reports[2])
    together = after_reports(state, *reports)
    assert (alone.input_version, alone.slices) == (together.input_version, together.slices)
    assert alone.version == together.version
