"""Audits reconcile the ledger with the cloud, and a recovery waits for all of them."""

from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    ConfigApplied,
    RecoveryBegan,
    ReportsCollected,
    SlicesStarted,
    UsageReported,
)
from penstock.core.state.specs import ADOPTED, UNWANTED, initial_lifecycle
from penstock.model.failures import Phase
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import (
    NOW,
    after_reports,
    audited,
    cluster,
    config,
    later,
    launched,
    location,
    ordered,
    orphan,
    ready,
    report,
    states,
    unstarted,
)

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)
TERMS = DrainTerms(cause="operator")


def test_a_slice_found_in_another_project_of_its_zone_is_looked_after_there() -> None:
    state = cluster({"name": "g", "provider": {"kind": "gce", "project": "new"}})
    there = location(account="gce:old", project="old")
    state = audited(state, where=there, orphans=(orphan("a"),))
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert lifecycle.spec.location == there


def test_what_runs_on_slices_that_are_not_found_yet_is_kept_until_they_are() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="it was reset")
    state = replay([began, UsageReported(at=NOW, usage={"a": IDLE, "b": IDLE})], cluster())
    state = after_reports(state, report("a", SliceState.READY, 3))
    state = audited(apply(state, ReportsCollected(at=NOW, id="r")), asked="r")
    assert state.recovery is None
    assert state.usage == {"a": IDLE}


def test_the_clock_of_a_worker_that_looks_moves_no_time() -> None:
    assert audited(cluster(), at=later(4 * 3600)).now == NOW


def test_a_slice_whose_workflow_died_gets_a_new_one_in_the_state_it_had() -> None:
    state = audited(ready(cluster()), orphans=(orphan("a"),))
    assert unstarted(state) == ["a"]
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.create_accepted, lifecycle.sequence) == (SliceState.READY, True, 3)


def test_a_resource_of_a_configured_group_that_nobody_knows_is_adopted() -> None:
    state = audited(cluster(), orphans=(orphan("x", phase=Phase.BOOTING),))
    assert states(state) == {"x": SliceState.BOOTING}
    lifecycle = initial_lifecycle(state, state.by_id["x"], NOW)
    assert lifecycle is not None
    assert (lifecycle.create_accepted, lifecycle.spec.cause) == (True, ADOPTED)
    assert state.input_version > cluster().input_version


def test_the_ledger_holds_the_location_of_an_adopted_slice_only_if_its_group_is_configured_elsewhere() -> None:
    provider = {"kind": "sim", "url": "http://here"}
    here = location(url="http://here")
    state = audited(cluster({"name": "g", "provider": provider}), where=here, orphans=(orphan("a"),))
    assert state.by_id["a"].location is None
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert lifecycle.spec.location == here

    state = apply(state, ConfigApplied(at=NOW, config=config({"name": "h", "zone": "us-east1-b"})))
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert lifecycle.spec.location == here


def test_a_resource_of_an_unknown_group_is_deleted_after_the_grace() -> None:
    young = audited(cluster(), orphans=(orphan("x", group="old"),), at=later(10))
    assert young.slices == ()
    state = audited(cluster(), orphans=(orphan("x", group="old"),), at=later(301))
    assert states(state) == {"x": SliceState.DELETING}
    lifecycle = initial_lifecycle(state, state.by_id["x"], NOW)
    assert lifecycle is not None
    assert (lifecycle.state, lifecycle.cause, lifecycle.spec.hosts, lifecycle.spec.location) == (
        SliceState.DELETING,
        UNWANTED,
        2,
        location(),
    )


def test_what_is_being_deleted_already_needs_nobody() -> None:
    assert audited(cluster(), orphans=(orphan("x", phase=Phase.DELETING),)).slices == ()


def test_a_slice_that_neither_cloud_nor_workflow_knows_leaves_the_ledger() -> None:
    state = ordered(cluster(), "a", "b")
    assert states(audited(state, missing=("a", "x"))) == {"b": SliceState.REQUESTING}


def test_a_slice_whose_workflow_is_still_to_be_started_is_neither_missing_nor_orphaned() -> None:
    state = apply(cluster(), launched("a"))
    assert audited(state, missing=("a",)).slices == state.slices
    assert [piece.adopted for piece in audited(state, orphans=(orphan("a"),)).unstarted] == [False]


def test_recovery_is_over_when_all_slices_have_reported_and_every_location_was_audited_for_it() -> None:
    groups = ({"name": "g"}, {"name": "h", "zone": "us-east1-b"})
    state = apply(cluster(*groups), RecoveryBegan(at=NOW, id="r1", reason="empty", run_id="run"))
    assert state.recovery is not None
    assert state.recovery.waiting == ("sim/us-east1-b", "sim/us-west4-a")
    assert state.recovered_in == "run"
    state = apply(state, ReportsCollected(at=NOW, id="r1"))
    state = audited(state, asked="r1")
    state = audited(state, asked="r0", where=location("us-east1-b"))
    state = audited(state, asked="r1", where=location("us-east1-b"), complete=False)
    assert state.recovery is not None
    before = state.input_version
    state = audited(state, asked="r1", where=location("us-east1-b"))
    assert state.recovery is None
    assert state.input_version > before


def test_before_a_cluster_ends_what_turns_up_is_deleted_however_young_it_is() -> None:
    closing = apply(cluster(), Closed(at=NOW))
    assert audited(closing, orphans=(orphan("x"),)).slices == (), "an audit that nobody asked for leaves it its grace"
    state = replay([RecoveryBegan(at=NOW, id="c1", reason="last look", closing=True), ReportsCollected(at=NOW, id="c1")], closing)
    state = audited(state, orphans=(orphan("x"),))
    assert states(state) == {"x": SliceState.DELETING}
    state = after_reports(apply(state, SlicesStarted(at=NOW, slice_ids=("x",))), report("x", SliceState.TERMINATED, 1))
    assert (state.recovery is not None, state.verified) == (True, False)
    state = audited(state, asked="c1")
    assert (state.recovery, state.verified) == (None, True)


def test_a_cluster_to_which_something_came_during_its_last_look_is_looked_at_again() -> None:
    look: list[AnyEvent] = [RecoveryBegan(at=NOW, id="c1", reason="last look", closing=True), ReportsCollected(at=NOW, id="c1")]
    state = after_reports(replay([Closed(at=NOW), *look], cluster()), report("x", SliceState.READY, 4))
    state = audited(state, asked="c1")
    assert (state.recovery, state.verified) == (None, False)


def test_a_slice_found_where_its_group_no_longer_is_is_looked_after_there() -> None:
    state = audited(cluster({"name": "g", "zone": "us-east1-b"}), orphans=(orphan("x"),))
    lifecycle = initial_lifecycle(state, state.by_id["x"], NOW)
    assert lifecycle is not None
    assert lifecycle.spec.location == location()


def test_a_recovery_waits_for_the_locations_that_are_configured_now() -> None:
    state = apply(cluster({"name": "g", "zone": "us-typo"}), RecoveryBegan(at=NOW, id="r1", reason="empty"))
    state = apply(state, ReportsCollected(at=NOW, id="r1"))
    state = apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "zone": "us-west4-a"})))
    assert state.recovery is not None
    assert state.recovery.waiting == ("sim/us-west4-a",)
    assert audited(state, asked="r1").recovery is None
