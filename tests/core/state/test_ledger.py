"""The ledger follows its slices."""

from datetime import datetime

from penstock.contract.orders import Launch, Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    ConfigApplied,
    Decided,
    DemandSnapshot,
    DrainOrdered,
    LaunchesDropped,
    Paused,
    RecoveryBegan,
    ReportsCollected,
    Resumed,
    SlicesStarted,
    UsageReported,
)
from penstock.core.state.specs import ADOPTED, NOBODYS, initial_lifecycle, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.building import build_demand
from penstock.model.demand import Task
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, audited, cluster, config, later, ordered, orphans, ready, report, states, told

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)
TERMS = DrainTerms(cause="operator")


def launch(slice_id: str, group: str = "g") -> Launch:
    return Launch(slice_id=slice_id, group=group, cause="demand")


def test_what_is_decided_enters_the_ledger_and_is_to_be_started() -> None:
    orders = Orders(at=NOW, config_revision=1, launches=(launch("a"), launch("b")))
    state = apply(cluster(), Decided(at=NOW, orders=orders))
    assert states(state) == {"a": SliceState.REQUESTING, "b": SliceState.REQUESTING}
    assert state.starting == ("a", "b")
    assert [(item.group, item.slices) for item in state.launched] == [("g", 2)]
    assert state.orders is not None
    assert state.orders.launches == ()
    lifecycle = initial_lifecycle(state, "a", NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.created, lifecycle.spec.cause) == (SliceState.REQUESTING, False, "demand")
    assert apply(state, SlicesStarted(at=NOW, slice_ids=("a", "b"))).starting == ()


def test_orders_decided_before_a_pause_a_recovery_or_a_new_configuration_are_dropped() -> None:
    decided = Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, launches=(launch("a"),)))
    begun = RecoveryBegan(at=NOW, id="r1", reason="reset")
    for event in (Paused(at=NOW, reason="repair"), begun, ConfigApplied(at=NOW, config=config()), Closed(at=NOW)):
        state = replay([event, decided], cluster())
        assert state.slices == ()
        assert state.evaluations == 1


def test_a_late_report_does_not_undo_a_newer_one() -> None:
    state = told(ready(cluster()), report("a", SliceState.BOOTING, 2))
    assert states(state) == {"a": SliceState.READY}


def test_an_ended_slice_leaves_the_ledger_with_all_that_concerns_it() -> None:
    state = replay([UsageReported(at=NOW, usage={"a": BUSY}), DrainOrdered(at=NOW, slice_id="a", terms=TERMS)], ready(cluster()))
    state = told(state, report("a", SliceState.TERMINATED, 9))
    assert (state.slices, state.usage, state.drains, state.outbox) == ((), {}, {}, ())


def test_a_running_slice_that_nobody_knew_enters_the_ledger_and_one_that_ended_does_not() -> None:
    state = told(cluster(), report("x", SliceState.READY, 4), report("y", SliceState.FAILED, 7))
    assert states(state) == {"x": SliceState.READY}


def test_boot_steps_ask_for_no_decision_but_arrivals_failures_and_ends_do() -> None:
    state = ordered(cluster(), "a")
    booting = told(state, report("a", SliceState.BOOTING, 1))
    assert booting.input_version == state.input_version
    arrived = told(booting, report("a", SliceState.READY, 3))
    assert arrived.input_version > booting.input_version
    failure = Failure(kind=FailureKind.PREEMPTED)
    assert told(arrived, report("a", SliceState.DELETING, 4, failure=failure)).input_version > arrived.input_version


def test_a_failure_is_told_once() -> None:
    failure = Failure(kind=FailureKind.STOCKOUT, message="none left")
    state = told(ordered(cluster(), "a"), report("a", SliceState.DELETING, 1, failure=failure))
    state = told(state, report("a", SliceState.FAILED, 2, failure=failure))
    assert [(trouble.slice_id, trouble.failure.message) for trouble in state.recent_failures] == [("a", "none left")]


def test_a_slice_that_nobody_knew_is_where_it_says_unless_its_group_is_there() -> None:
    here, there = "sim/us-west4-a", "sim/us-east1-b"
    assert [piece.location for piece in told(cluster(), report("a", SliceState.READY, 3, location=here)).slices] == [None]
    state = told(cluster(), report("a", SliceState.READY, 3, location=there))
    moved = apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "zone": "us-west4-c"})))
    assert [piece.location for piece in moved.slices] == [there]


def test_a_slice_found_in_another_project_of_its_zone_is_looked_after_there() -> None:
    state = cluster({"name": "g", "provider": {"kind": "gce", "project": "new"}})
    found = orphans("a", provider="gce", account="gce:old", settings={"project": "old"})
    lifecycle = initial_lifecycle(audited(state, account="gce:old", orphans=(found,)), "a", NOW)
    assert lifecycle is not None
    assert lifecycle.spec.settings == {"project": "old"}


def test_what_runs_on_slices_that_are_not_found_yet_is_kept_until_they_are() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="it was reset")
    state = replay([began, UsageReported(at=NOW, usage={"a": IDLE, "b": IDLE})], cluster())
    state = told(state, report("a", SliceState.READY, 3))
    state = audited(apply(state, ReportsCollected(at=NOW, id="r")), asked="r")
    assert state.recovery is None
    assert state.usage == {"a": IDLE}


def test_the_clock_of_a_worker_that_looks_moves_no_time() -> None:
    assert audited(cluster(), at=later(4 * 3600)).now == NOW


def test_a_slice_whose_workflow_died_gets_a_new_one_in_the_state_it_had() -> None:
    state = audited(ready(cluster()), orphans=(orphans("a"),))
    assert state.starting == ("a",)
    lifecycle = initial_lifecycle(state, "a", NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.created, lifecycle.sequence) == (SliceState.READY, True, 3)


def test_a_resource_of_a_configured_group_that_nobody_knows_is_adopted() -> None:
    state = audited(cluster(), orphans=(orphans("x", phase=Phase.BOOTING),))
    assert states(state) == {"x": SliceState.BOOTING}
    lifecycle = initial_lifecycle(state, "x", NOW)
    assert lifecycle is not None
    assert (lifecycle.created, lifecycle.spec.cause) == (True, ADOPTED)
    assert state.input_version > cluster().input_version


def test_how_an_adopted_slice_is_reached_is_carried_only_where_the_configuration_does_not_say_it() -> None:
    provider = {"kind": "sim", "url": "http://here"}
    found = orphans("a", account="sim", settings={"url": "http://here"})
    state = audited(cluster({"name": "g", "provider": provider}), orphans=(found,))
    assert state.adopted["a"].settings == {}
    lifecycle = initial_lifecycle(state, "a", NOW)
    assert lifecycle is not None
    assert lifecycle.spec.settings == {"url": "http://here"}

    state = apply(state, ConfigApplied(at=NOW, config=config({"name": "h", "zone": "us-east1-b"})))
    lifecycle = initial_lifecycle(state, "a", NOW)
    assert lifecycle is not None
    assert lifecycle.spec.settings == {"url": "http://here"}


def test_a_resource_of_an_unknown_group_is_deleted_after_the_grace() -> None:
    young = audited(cluster(), orphans=(orphans("x", group="old"),), at=later(10))
    assert young.slices == ()
    state = audited(cluster(), orphans=(orphans("x", group="old"),), at=later(301))
    assert states(state) == {"x": SliceState.DELETING}
    lifecycle = initial_lifecycle(state, "x", NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.cause, lifecycle.spec.hosts, lifecycle.spec.location) == (
        SliceState.DELETING,
        NOBODYS,
        2,
        "us-west4-a",
    )


def test_what_is_being_deleted_already_needs_nobody() -> None:
    assert audited(cluster(), orphans=(orphans("x", phase=Phase.DELETING),)).slices == ()


def test_a_slice_that_neither_cloud_nor_workflow_knows_leaves_the_ledger() -> None:
    state = ordered(cluster(), "a", "b")
    assert states(audited(state, missing=("a", "x"))) == {"b": SliceState.REQUESTING}


def test_a_slice_whose_workflow_is_still_to_be_started_is_neither_missing_nor_nobodys() -> None:
    state = apply(cluster(), Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, launches=(launch("a"),))))
    assert audited(state, missing=("a",)).slices == state.slices
    assert audited(state, orphans=(orphans("a"),)).starting == ("a",)


def test_recovery_is_over_when_the_roll_is_called_and_every_location_was_audited_for_it() -> None:
    groups = ({"name": "g"}, {"name": "h", "zone": "us-east1-b"})
    state = apply(cluster(*groups), RecoveryBegan(at=NOW, id="r1", reason="empty", run_id="run"))
    assert state.recovery is not None
    assert state.recovery.waiting == ("sim/us-east1-b", "sim/us-west4-a")
    assert state.recovered_in == "run"
    state = apply(state, ReportsCollected(at=NOW, id="r1"))
    state = audited(state, asked="r1")
    state = audited(state, asked="r0", location="us-east1-b")
    state = audited(state, asked="r1", location="us-east1-b", complete=False)
    assert state.recovery is not None
    before = state.input_version
    state = audited(state, asked="r1", location="us-east1-b")
    assert state.recovery is None
    assert state.input_version > before


def test_a_pause_stands_until_it_is_resumed() -> None:
    paused = apply(cluster(), Paused(at=NOW, reason="repair"))
    assert paused.paused == "repair"
    resumed = apply(paused, Resumed(at=NOW))
    assert resumed.paused is None
    assert resumed.input_version > paused.input_version


def test_every_location_is_a_place_once() -> None:
    groups = (
        {"name": "a"},
        {"name": "b"},
        {"name": "c", "provider": {"kind": "gce", "project": "p"}},
        {"name": "d", "zone": None},
    )
    assert [location.key for location in locations_of(config(*groups))] == ["gce:p/us-west4-a", "sim/anywhere", "sim/us-west4-a"]


def queued(state: AutoscalerState, *slice_ids: str) -> AutoscalerState:
    return told(ordered(state, *slice_ids), *(report(each, SliceState.REQUESTING, 1, queued=True) for each in slice_ids))


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


def test_before_a_cluster_ends_what_turns_up_is_deleted_however_young_it_is() -> None:
    closing = apply(cluster(), Closed(at=NOW))
    assert audited(closing, orphans=(orphans("x"),)).slices == (), "an audit that nobody asked for leaves it its grace"
    state = replay([RecoveryBegan(at=NOW, id="c1", reason="last look", closing=True), ReportsCollected(at=NOW, id="c1")], closing)
    state = audited(state, orphans=(orphans("x"),))
    assert states(state) == {"x": SliceState.DELETING}
    state = told(apply(state, SlicesStarted(at=NOW, slice_ids=("x",))), report("x", SliceState.TERMINATED, 1))
    assert (state.recovery is not None, state.verified) == (True, False)
    state = audited(state, asked="c1")
    assert (state.recovery, state.verified) == (None, True)


def test_a_cluster_to_which_something_came_during_its_last_look_is_looked_at_again() -> None:
    look: list[AnyEvent] = [RecoveryBegan(at=NOW, id="c1", reason="last look", closing=True), ReportsCollected(at=NOW, id="c1")]
    state = told(replay([Closed(at=NOW), *look], cluster()), report("x", SliceState.READY, 4))
    state = audited(state, asked="c1")
    assert (state.recovery, state.verified) == (None, False)


def test_orders_that_were_not_started_are_dropped_when_the_cluster_is_given_up() -> None:
    state = apply(cluster(), Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, launches=(launch("a"), launch("b")))))
    state = replay([SlicesStarted(at=NOW, slice_ids=("a",)), Closed(at=NOW), LaunchesDropped(at=NOW, slice_ids=("b",))], state)
    assert states(state) == {"a": SliceState.REQUESTING}
    assert (state.starting, set(state.drains), [command.slice_id for command in state.outbox]) == ((), {"a"}, ["a"])


def test_a_slice_found_where_its_group_no_longer_is_is_looked_after_there() -> None:
    state = audited(cluster({"name": "g", "zone": "us-east1-b"}), orphans=(orphans("x"),))
    lifecycle = initial_lifecycle(state, "x", NOW)
    assert lifecycle is not None
    assert lifecycle.spec.location == "us-west4-a"


def test_a_recovery_waits_for_the_locations_that_are_configured_now() -> None:
    state = apply(cluster({"name": "g", "zone": "us-typo"}), RecoveryBegan(at=NOW, id="r1", reason="empty"))
    state = apply(state, ReportsCollected(at=NOW, id="r1"))
    state = apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "zone": "us-west4-a"})))
    assert state.recovery is not None
    assert state.recovery.waiting == ("sim/us-west4-a",)
    assert audited(state, asked="r1").recovery is None


def test_reports_count_one_by_one_whether_they_come_alone_or_together() -> None:
    state = ordered(cluster(), "a", "b", "c")
    reports = [report(each, SliceState.READY, 3) for each in ("a", "b", "c")]
    alone = told(told(told(state, reports[0]), reports[1]), reports[2])
    together = told(state, *reports)
    assert (alone.input_version, alone.slices) == (together.input_version, together.slices)
    assert alone.version == together.version
