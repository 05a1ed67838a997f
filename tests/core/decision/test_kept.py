"""Why slices stay: every reason, when they go if nothing changes, and that saying so is cheap."""

from datetime import timedelta
from time import process_time
from typing import Any

import pytest

from penstock.core.decision.decide import decide
from penstock.core.decision.give_back import MOST_DRAINS
from penstock.core.decision.keeping import kept_of
from penstock.model.cluster import ScaleDown
from penstock.model.decision import Kept, KeptCode
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState
from penstock.model.snapshot import Snapshot, SourceTerms
from tests.core.decision.test_give_back import one_idle, snapshot_of
from tests.scenarios.builder import Scenario, scenario
from tests.scenarios.cases import NOW

READY, BOOTING, REQUESTING = SliceState.READY, SliceState.BOOTING, SliceState.REQUESTING


def kept(snapshot: Snapshot) -> dict[str, Kept]:
    return {each.slice_id: each for each in kept_of(snapshot, decide(snapshot))}


def codes(given: Scenario | Snapshot) -> dict[str, list[KeptCode]]:
    snapshot = given if isinstance(given, Snapshot) else snapshot_of(given)
    return {slice_id: [reason.code for reason in each.reasons] for slice_id, each in kept(snapshot).items()}


def group(name: str = "g", **settings: Any) -> Scenario:
    return scenario("why slices stay").group(name, **settings)


def text_of(snapshot: Snapshot, slice_id: str = "s") -> str:
    return "; ".join(reason.text for reason in kept(snapshot)[slice_id].reasons)


def test_a_slice_that_drains_or_leaves_is_not_kept() -> None:
    assert codes(one_idle()) == {}
    leaving = snapshot_of(one_idle())
    piece = leaving.slices[0].changed(drain=DrainTerms(cause=DrainCause.DRIFT))
    assert codes(leaving.model_copy(update={"slices": (piece,)})) == {}


def test_a_slice_of_a_removed_group_that_serves_again_in_a_moment_is_not_said_to_go() -> None:
    left = snapshot_of(group().retired("old").slice("s", "old", SliceState.DRAINING, usage="idle", idle="1h"))
    returning = left.model_copy(update={"slices": (left.slices[0].changed(returning=True),)})
    assert codes(returning) == {"s": [KeptCode.TAKEN_BACK]}
    assert kept(returning)["s"].until is None


def test_a_slice_whose_notice_was_taken_back_says_so() -> None:
    withdrawn = snapshot_of(group().slice("s", "g", SliceState.DRAINING, usage="busy", drain="notice"))
    assert text_of(withdrawn) == "its drain is cancelled, because the cloud has taken its notice back"


def test_observed_drains_keep_their_slices() -> None:
    snapshot = snapshot_of(one_idle())
    config = snapshot.config.model_copy(update={"scale_down": ScaleDown.OBSERVE})
    observed = snapshot.model_copy(update={"config": config})
    assert codes(observed) == {"s": [KeptCode.OBSERVE]}
    assert text_of(observed) == "scale_down is observe: it would drain (idle) otherwise"


def test_a_busy_slice_says_what_runs_on_it() -> None:
    snapshot = snapshot_of(one_idle())
    usage = (HostUsage(state=HostState.BUSY, tasks=("a", "b"), gangs=("g1",)),)
    busy = snapshot.model_copy(update={"usage": {"s": usage}})
    assert text_of(busy) == "it is busy with 2 tasks (a, b) of 1 gang (g1)"
    silent = snapshot.model_copy(update={"usage": {"s": (HostUsage(state=HostState.BUSY),)}})
    assert text_of(silent) == "it is busy by its last usage report"
    degraded = snapshot.model_copy(update={"usage": {"s": (HostUsage(state=HostState.DEGRADED),)}})
    assert text_of(degraded) == "1 of its hosts is degraded"


def test_a_slice_says_how_much_demand_is_placed_on_it() -> None:
    assert text_of(snapshot_of(one_idle().wants(2, cpu=1))) == "2 waiting tasks are placed on it"
    assert text_of(snapshot_of(one_idle().wants(1, cpu=4, gang=1))) == "a waiting gang is placed on it"


def test_every_part_of_a_target_that_alone_keeps_an_idle_slice_is_named() -> None:
    given = group(min_slices=2, warm_slices=1).slice("s", "g", READY, usage="idle", idle="30m", count=4)
    found = codes(given)
    assert len(found) == 2
    assert sorted(found.values(), key=len) == [[KeptCode.MINIMUM], [KeptCode.MINIMUM, KeptCode.WARM]]


def test_standing_requests_are_named_by_their_owners() -> None:
    snapshot = snapshot_of(one_idle().standing("team", 1, cpu=2))
    assert codes(snapshot) == {"s": [KeptCode.STANDING]}
    assert text_of(snapshot) == "standing requests of team need 1 slice of its group"


def test_a_watermark_keeps_spare_slices() -> None:
    given = group(watermark=50).slice("s", "g", READY, usage="idle", idle="30m").slice("b", "g", READY, usage="busy")
    assert codes(given) == {"s": [KeptCode.WATERMARK], "b": [KeptCode.BUSY]}


def test_an_idle_slice_goes_once_it_is_idle_for_long_enough_and_not_on_stale_news() -> None:
    young = snapshot_of(group().slice("s", "g", READY, usage="idle", idle="4m"))
    assert codes(young) == {"s": [KeptCode.IDLE_TIMEOUT]}
    assert kept(young)["s"].until == NOW + timedelta(minutes=6)
    assert text_of(young) == "nothing needs it; it has been idle since 2026-08-24 11:56:00Z, less than 10m"
    soon = young.model_copy(update={"stale_at": {"s": NOW + timedelta(minutes=5)}})
    assert (codes(soon), kept(soon)["s"].until) == ({"s": [KeptCode.STALE]}, None)
    now = young.model_copy(update={"stale_at": {"s": NOW}})
    assert text_of(now) == "what is known of its usage is stale since 2026-08-24 12:00:00Z"


def test_a_slice_that_no_report_has_named_says_so() -> None:
    assert codes(group().slice("s", "g", READY)) == {"s": [KeptCode.NEVER_REPORTED]}


def test_a_slice_on_its_way_is_called_off_unless_something_needs_it() -> None:
    arriving = group().slice("s", "g", BOOTING)
    assert codes(arriving) == {"s": [KeptCode.CANCEL_AFTER]}
    assert kept(snapshot_of(arriving))["s"].until == NOW + timedelta(minutes=1)
    assert codes(group(min_slices=1).slice("s", "g", BOOTING)) == {"s": [KeptCode.MINIMUM]}
    assert codes(group().slice("s", "g", BOOTING).wants(1, cpu=1)) == {"s": [KeptCode.DEMAND]}
    queued = group(keep_queued=True).slice("s", "g", REQUESTING, queued=True)
    assert codes(queued) == {"s": [KeptCode.QUEUED]}


def test_the_head_of_a_group_is_named() -> None:
    given = group(protect_first=True).slice("a", "g", READY, usage="idle", idle="40m").slice("b", "g", READY, usage="busy")
    assert codes(given) == {"a": [KeptCode.HEAD], "b": [KeptCode.BUSY]}


def test_lost_demand_keeps_slices_until_its_lease_lapses() -> None:
    lost = SourceTerms(resync="lost", lease_ends=NOW + timedelta(minutes=5))
    snapshot = snapshot_of(one_idle()).model_copy(update={"sources": {"jobs": lost}})
    assert codes(snapshot) == {"s": [KeptCode.RESYNC]}
    assert kept(snapshot)["s"].until == NOW + timedelta(minutes=5)
    assert text_of(snapshot).startswith("demand of jobs is lost")


def test_a_group_that_launches_gives_nothing_back() -> None:
    given = group(cpu=4).slice("s", "g", READY, usage="idle", idle="30m").wants(1, cpu=4, gang=2)
    assert KeptCode.DEMAND in codes(given)["s"]
    given = group(cpu=4).slice("s", "g", READY, usage="idle", idle="30m", count=1).standing("t", 2, cpu=4)
    assert codes(given)["s"] == [KeptCode.STANDING, KeptCode.LAUNCHING]


def test_what_is_due_beyond_the_drains_of_one_decision_goes_later() -> None:
    many = MOST_DRAINS + 3
    found = codes(group(max_slices=many).slice("s", "g", READY, usage="idle", idle="30m", count=many))
    assert list(found.values()) == [[KeptCode.LATER]] * 3


def test_slices_of_removed_groups_say_when_they_go() -> None:
    snapshot = snapshot_of(group().slice("s", "g", READY, usage="idle", idle="4m"))
    gone = snapshot.model_copy(update={"slices": tuple(piece.changed() for piece in snapshot.slices)})
    config = gone.config.model_copy(update={"groups": ()})
    removed = gone.model_copy(update={"config": config})
    assert codes(removed) == {"s": [KeptCode.IDLE_TIMEOUT]}


def test_operators_and_controllers_keep_slices_beside_other_reasons() -> None:
    snapshot = snapshot_of(group(min_slices=1).slice("s", "g", READY, usage="idle", idle="30m"))
    piece = snapshot.slices[0].changed(kept_until=NOW + timedelta(hours=1))
    usage = {"s": (HostUsage(state=HostState.IDLE, do_not_disrupt=True),)}
    found = snapshot.model_copy(update={"slices": (piece,), "usage": usage})
    assert codes(found)["s"] == [KeptCode.PROTECTED, KeptCode.DO_NOT_DISRUPT, KeptCode.MINIMUM]
    alone = snapshot_of(one_idle())
    kept_alone = alone.model_copy(update={"slices": (alone.slices[0].changed(kept_until=NOW + timedelta(hours=1)),)})
    assert (codes(kept_alone), kept(kept_alone)["s"].until) == ({"s": [KeptCode.PROTECTED]}, NOW + timedelta(hours=1))
    assert text_of(kept_alone) == "an operator keeps it until 2026-08-24 13:00:00Z"
    cordoned = alone.model_copy(update={"slices": (alone.slices[0].changed(cordoned=True),)})
    assert codes(cordoned) == {"s": [KeptCode.CORDONED]}


@pytest.mark.parametrize("idle", ["4m", "30m"])
def test_reasons_for_thousands_of_slices_cost_little(idle: str) -> None:
    many = 5000
    given = group(max_slices=many, min_slices=1000).slice("s", "g", READY, usage="idle", idle=idle, count=many)
    snapshot = snapshot_of(given)
    decision = decide(snapshot)
    took = []
    for _ in range(3):
        began = process_time()
        found = kept_of(snapshot, decision)
        took.append(process_time() - began)
    assert len(found) == many - len(decision.drains)
    assert min(took) < 0.25
