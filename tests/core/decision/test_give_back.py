"""Giving back where the facts are not those of a snapshot alone: many drains, spent effort, doubt, and what keeps a slice."""

from datetime import timedelta

from penstock.core.decision.decide import decide
from penstock.core.decision.effort import Effort
from penstock.core.decision.give_back import MOST_DRAINS
from penstock.core.decision.held_for_gangs import MOST_WAITING, digest_of
from penstock.model.decision import Code, Decision
from penstock.model.left_behind import LeftBehind
from penstock.model.runs import Fault, FaultCode
from penstock.model.shape import Gang, Shape
from penstock.model.slices import Availability, SliceState
from penstock.model.snapshot import Snapshot
from tests.scenarios.builder import Scenario, scenario
from tests.scenarios.cases import NOW

READY = SliceState.READY


def snapshot_of(given: Scenario) -> Snapshot:
    case = given.expects()
    return case.snapshot(case.demand())


def drained(decision: Decision) -> list[str]:
    return [drain.slice_id for drain in decision.drains]


def one_idle() -> Scenario:
    return scenario("one slice that nothing needs").group("g").slice("s", "g", READY, usage="idle", idle="30m")


def test_one_decision_orders_a_bounded_number_of_drains_and_the_next_one_goes_on_soon() -> None:
    many = MOST_DRAINS + 100
    given = scenario("many").group("g", max_slices=many).slice("s", "g", READY, usage="idle", idle="30m", count=many)
    snapshot = snapshot_of(given)
    first = decide(snapshot)
    assert len(first.drains) == MOST_DRAINS
    assert first.next_change_at == NOW + timedelta(seconds=snapshot.config.evaluation.interval_seconds)
    left = tuple(piece for piece in snapshot.slices if piece.id not in set(drained(first)))
    second = decide(snapshot.model_copy(update={"slices": left}))
    assert len(second.drains) == 100
    assert second.next_change_at is None


def test_an_idle_slice_stays_while_it_is_not_known_whether_demand_fits_on_it() -> None:
    waiting = snapshot_of(one_idle().group("other").slice("o", "other", READY, usage="idle", idle="30m").wants(1, cpu=5))
    assert set(drained(decide(waiting, Effort(most=0)))) == {"s", "o"}, "no group could take it"
    fits = snapshot_of(one_idle().group("small", cpu=1).slice("o", "small", READY, usage="idle", idle="30m").wants(1, cpu=2))
    decision = decide(fits, Effort(most=0))
    assert [unmet.code for unmet in decision.unmet] == [Code.EFFORT_SPENT]
    assert drained(decision) == ["o"]


def test_an_idle_slice_stays_while_a_standing_request_for_it_was_not_tried() -> None:
    requests = one_idle().standing("team", 1, cpu=2)
    snapshot = snapshot_of(requests)
    doubted = snapshot.model_copy(update={"standing": (), "standing_in_doubt": snapshot.standing})
    assert drained(decide(snapshot_of(one_idle()))) == ["s"]
    assert drained(decide(doubted)) == []


def test_an_idle_slice_stays_while_slices_that_are_not_known_yet_may_hold_its_demand() -> None:
    snapshot = snapshot_of(one_idle().wants(1, cpu=2))
    fault = Fault(code=FaultCode.NO_CAPACITY, message="a location was not listed yet")
    runs = tuple(run._replace(fault=fault) for run in snapshot.workload.runs)
    doubted = snapshot.model_copy(update={"workload": snapshot.workload.model_copy(update={"runs": runs})})
    assert drained(decide(doubted)) == []
    wrong = Fault(code=FaultCode.INVALID, message="no such field")
    runs = tuple(run._replace(fault=wrong) for run in snapshot.workload.runs)
    assert drained(decide(snapshot.model_copy(update={"workload": snapshot.workload.model_copy(update={"runs": runs})}))) == ["s"]


def test_since_when_a_gang_waits_goes_from_one_decision_to_the_next_and_ends_once_it_is_placed() -> None:
    gang = Shape(resources={"cpu": 4}, gang=Gang(size=2))
    given = one_idle().health("g", Availability.DISABLED).wants(1, cpu=4, gang=2)
    first = decide(snapshot_of(given))
    assert first.waiting_since == {digest_of(gang): NOW}
    later = NOW + timedelta(minutes=5)
    carried = snapshot_of(given).model_copy(update={"waiting_since": first.waiting_since, "now": later})
    second = decide(carried)
    assert (second.waiting_since, drained(second)) == (first.waiting_since, [])
    over = decide(carried.model_copy(update={"now": NOW + timedelta(minutes=10)}))
    assert (over.waiting_since, drained(over)) == (first.waiting_since, ["s"])
    placed = decide(carried.model_copy(update={"health": {}}))
    assert (placed.waiting_since, drained(placed)) == ({}, [])


def test_slices_are_held_for_a_bounded_number_of_shapes_of_gangs() -> None:
    given = one_idle().health("g", Availability.DISABLED)
    for number in range(MOST_WAITING + 20):
        given = given.wants(1, cpu=1 + number / 1000, gang=2)
    assert len(decide(snapshot_of(given)).waiting_since) == MOST_WAITING


def test_slices_of_a_removed_group_go_by_what_they_were_made_under_the_dearer_first() -> None:
    given = scenario("a group that is gone").group("g").retired("gone")
    given = given.slice("cheap", "gone", READY, usage="idle", idle="3m").slice("dear", "gone", READY, usage="idle", idle="3m")
    given = given.slice("booting", "gone", SliceState.BOOTING, unneeded="3m")
    given = given.slice("queued", "gone", SliceState.REQUESTING, queued=True, unneeded="30m")
    snapshot = snapshot_of(given)
    made_under = LeftBehind(idle_timeout_seconds=120, cancel_after_seconds=240, keep_queued=True, price_per_hour=1.0)
    prices = {"dear": 2.0}
    lefts = {p.id: made_under.model_copy(update={"price_per_hour": prices.get(p.id, 1.0)}) for p in snapshot.slices}
    left = snapshot.model_copy(update={"slices": tuple(p.changed(left=lefts[p.id]) for p in snapshot.slices)})
    decision = decide(left)
    assert drained(decision) == ["dear", "cheap"]
    assert decision.unneeded == ("booting",)
    assert decision.next_change_at == NOW + timedelta(minutes=1)
