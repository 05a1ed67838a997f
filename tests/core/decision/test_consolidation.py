"""Consolidation, rule by rule: which busy slices could be emptied, which keep what they have, and where the work fits."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.core.decision.consolidation import consolidations
from penstock.core.decision.decide import _planner_of
from penstock.core.decision.effort import Effort
from penstock.model.elasticity import Consolidation
from penstock.model.failures import Notice, NoticeKind
from penstock.model.runs import HostRef
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage
from tests.core.decision.consolidating import (
    IDLE,
    READY,
    SETTLE,
    consolidated,
    emptied,
    load,
    received,
    snapshot_of,
    two_slices,
    with_slices,
)
from tests.scenarios.builder import Scenario, scenario
from tests.scenarios.cases import NOW

UNDER_WAY = {"drain": DrainTerms(cause=DrainCause.CONSOLIDATION, number=1)}


# --- what is emptied, and what that saves ---


def test_a_busy_slice_is_emptied_if_its_work_fits_on_another_busy_one() -> None:
    (move,) = consolidated(two_slices()).moves
    assert (move.piece.id, move.hosts, move.saving) == ("new", (HostRef("old", 0),), 2.0)
    assert move.receivers == ("old",)
    assert move.detail == "saves 2.00 an hour: its work fits on old"


def test_without_consolidation_nothing_is_emptied() -> None:
    assert emptied(snapshot_of(two_slices(), settings=None)) == {}


def test_what_saves_nothing_or_too_little_stays() -> None:
    given = two_slices()
    assert emptied(snapshot_of(given, settings=Consolidation(least_saving_per_hour=2))) == {"new": ("old",)}
    assert emptied(snapshot_of(given, settings=Consolidation(least_saving_per_hour=2.01))) == {}
    for priceless in (scenario("free").group("g", price=0), scenario("of unknown price").group("g")):
        given = priceless.slice("a", "g", READY, usage=load(1)).slice("b", "g", READY, usage=load(1))
        assert emptied(given) == {}


def test_the_dearest_goes_first_then_the_least_loaded_then_the_newest() -> None:
    given = scenario("order").group("cheap", price=1, cpu=1).group("dear", price=5).group("full", price=9, cpu=100)
    given = given.slice("c1", "cheap", READY, usage=load(1)).slice("d2", "dear", READY, usage=load(2))
    given = given.slice("d1", "dear", READY, usage=load(1)).slice("d1-newer", "dear", READY, usage=load(1))
    given = given.slice("room", "full", READY, usage=[HostUsage(gangs=("gang",), reserved={"cpu": 50})])
    assert list(emptied(given)) == ["d1-newer", "d1", "d2", "c1"]
    assert list(emptied(consolidated(given, most=2))) == ["d1-newer", "d1"]
    assert list(emptied(consolidated(given, most=0))) == []
    assert list(emptied(consolidated(given, most_of={"dear": 1}))) == ["d1-newer", "c1"]
    assert list(emptied(consolidated(given, most_of={"dear": 0}))) == ["c1"]


def test_work_goes_where_the_least_room_is_left_so_that_another_slice_may_be_emptied_as_well() -> None:
    given = scenario("ten slices that are used by 30 percent").group("g", price=1, cpu=10, max_slices=20)
    given = given.slice("s", "g", READY, usage=load(3), count=10)
    found = emptied(given)
    assert list(found) == [f"s/{n}" for n in (9, 8, 7, 6, 5, 4)]
    assert set(found.values()) == {("s/0",), ("s/1",), ("s/2",)}


def test_slices_that_stay_anyway_receive_before_others() -> None:
    given = scenario("a protected one").group("g", price=2, cpu=8).slice("a", "g", READY, usage=load(3))
    given = given.slice("kept", "g", READY, usage=load(1), kept="1h")
    assert emptied(given.slice("b", "g", READY, usage=load(2))) == {"b": ("kept",), "a": ("kept",)}


def test_cheaper_slices_receive_before_dearer_ones() -> None:
    given = scenario("three prices").group("dear", price=9).group("middle", price=5).group("cheap", price=1)
    given = given.slice("d", "dear", READY, usage=load(1)).slice("m", "middle", READY, usage=load(3))
    assert emptied(given.slice("c", "cheap", READY, usage=load(1))) == {"d": ("c",)}


# --- the load: named, and moved as one block ---


@pytest.mark.parametrize(
    "usage",
    [
        HostUsage(state=HostState.BUSY),
        HostUsage(reserved={"cpu": 1}),
        HostUsage(tasks=("t",)),
        load(1, gangs=("gang",)),
        HostUsage(tasks=("t",), reserved={"cpu": 1}, state=HostState.DEGRADED),
        HostUsage(tasks=("t",), reserved={"cpu": 1}, do_not_disrupt=True),
    ],
    ids=["busy alone", "no tasks", "no reserved resources", "a gang", "degraded", "not to be disrupted"],
)
def test_only_work_that_usage_names_and_that_may_be_moved_is_moved(usage: HostUsage) -> None:
    def beside(second: HostUsage) -> Scenario:
        given = scenario("two hosts").group("g", price=2, hosts=2).slice("old", "g", READY, usage=[load(3), load(3)])
        return given.slice("s", "g", READY, usage=[load(1), second])

    assert emptied(beside(load(1))) == {"s": ("old",)}
    assert "s" not in emptied(beside(usage))


def test_a_slice_with_a_gang_receives_and_is_not_emptied() -> None:
    given = scenario("a gang").group("g", price=2).slice("gang", "g", READY, usage=load(1, gangs=("pretrain",)))
    assert emptied(given.slice("s", "g", READY, usage=load(2))) == {"s": ("gang",)}


def test_the_load_of_a_host_moves_to_one_host_and_is_not_split() -> None:
    def beside_two(work: HostUsage) -> Scenario:
        given = scenario("a core is free on each of two hosts").group("g", price=2).slice("a", "g", READY, usage=load(3))
        return given.slice("b", "g", READY, usage=load(3)).slice("c", "g", READY, usage=work)

    assert emptied(beside_two(load(1))) == {"c": ("a",)}
    assert emptied(beside_two(load(2, tasks=2))) == {}


def test_each_host_of_a_slice_may_move_to_another_slice() -> None:
    given = scenario("two hosts").group("g", price=2).group("pair", price=7, hosts=2)
    given = given.slice("a", "g", READY, usage=load(2)).slice("b", "g", READY, usage=load(3))
    (move,) = consolidated(given.slice("p", "pair", READY, usage=[load(1), load(2)]), most=1).moves
    assert (move.piece.id, move.hosts) == ("p", (HostRef("b", 0), HostRef("a", 0)))
    assert move.detail == "saves 7.00 an hour: its work fits on b, a"


def test_a_slice_is_emptied_whole_or_not_at_all() -> None:
    given = scenario("room for one of two").group("g", price=1).group("pair", price=7, hosts=2)
    given = given.slice("a", "g", READY, usage=load(3)).slice("p", "pair", READY, usage=[load(1), load(1)])
    assert emptied(given) == {"a": ("p",)}


def test_tpu_work_needs_a_whole_host_of_a_busy_slice_and_leaves_nothing_on_it() -> None:
    chips = load(1, tpu=4)
    given = scenario("pairs of tpu hosts").group("g", price=2, tpu=4, cpu=8, hosts=2)
    half = given.slice("a", "g", READY, usage=[chips, IDLE])
    assert emptied(half.slice("b", "g", READY, usage=[IDLE, chips])) == {"b": ("a",)}
    full = scenario("no whole host").group("g", price=2, tpu=4, cpu=8, hosts=2).slice("a", "g", READY, usage=[chips, load(1)])
    assert emptied(full.slice("b", "g", READY, usage=[load(1), chips])) == {}
    third = scenario("work without chips").group("g", price=2, tpu=4, cpu=8).slice("a", "g", READY, usage=chips)
    assert emptied(third.slice("b", "g", READY, usage=load(1))) == {}, "nothing shares a host with work on its chips"


def test_shares_of_gpus_above_one_half_take_a_gpu_each() -> None:
    given = scenario("gpus").group("g", price=2, gpu=4, cpu=32)
    given = given.slice("a", "g", READY, usage=load(1, tasks=2, gpu=2)).slice("b", "g", READY, usage=load(1, tasks=3, gpu=1.8))
    assert emptied(given) == {}, "three tasks of 0.6 take three GPUs"
    given = scenario("gpus").group("g", price=2, gpu=4, cpu=32)
    given = given.slice("a", "g", READY, usage=load(1, tasks=2, gpu=2)).slice("b", "g", READY, usage=load(1, tasks=6, gpu=1.8))
    assert emptied(given) == {"b": ("a",)}, "six of 0.3 fit on two"


# --- receivers ---


def test_an_idle_slice_receives_nothing_for_it_may_go_itself() -> None:
    given = scenario("one busy, one idle").group("g", price=2).slice("idle", "g", READY, usage="idle", idle="1m")
    assert emptied(given.slice("busy", "g", READY, usage=load(1))) == {}


def test_a_slice_that_receives_is_not_emptied_and_one_that_is_emptied_receives_nothing() -> None:
    given = scenario("three").group("g", price=2, cpu=8)
    given = (
        given.slice("a", "g", READY, usage=load(5)).slice("b", "g", READY, usage=load(3)).slice("c", "g", READY, usage=load(1))
    )
    assert emptied(given) == {"c": ("a",)}, "b could go to c, or to what is left on a without c"


@pytest.mark.parametrize(
    ("facts", "change"),
    [
        ({"cordoned": True}, {}),
        ({"stale_in": "0s"}, {}),
        ({"drain": True}, {}),
        ({}, {"returning": True}),
        ({}, {"unclaimed": NOW}),
        ({}, {"notice": Notice(kind=NoticeKind.PREEMPTION, until=NOW)}),
    ],
    ids=["cordoned", "stale", "draining", "returning", "unclaimed", "notice"],
)
def test_a_slice_that_takes_no_work_or_may_leave_neither_receives_nor_is_emptied(
    facts: dict[str, Any], change: dict[str, Any]
) -> None:
    given = scenario("two").group("g", price=2).slice("old", "g", READY, usage=load(1))
    snapshot = with_slices(snapshot_of(given.slice("new", "g", READY, usage=load(1), **facts)), {"new": change})
    assert emptied(snapshot) == {}


def test_a_slice_that_leaves_for_another_reason_neither_receives_nor_is_emptied() -> None:
    assert emptied(consolidated(two_slices(), leaving=["new"])) == {}
    assert emptied(consolidated(two_slices(), leaving=["old"])) == {}


def test_a_degraded_slice_receives_nothing() -> None:
    given = scenario("degraded").group("g", price=2, hosts=2).slice("s", "g", READY, usage=[load(1), IDLE])
    ill = HostUsage(state=HostState.DEGRADED)
    assert emptied(given.slice("ill", "g", READY, usage=[load(1), ill])) == {}


def test_a_slice_that_nobody_has_named_receives_nothing() -> None:
    given = scenario("never reported").group("g", price=2).slice("s", "g", READY, usage=load(1))
    assert emptied(given.slice("new", "g", READY)) == {}


def test_room_that_demand_is_placed_on_is_not_given_twice() -> None:
    assert emptied(two_slices()) == {"new": ("old",)}
    assert emptied(two_slices().wants(1, cpu=1)) == {"new": ("old",)}, "it is placed on old, where one core is left"
    assert emptied(two_slices().wants(1, cpu=1.5)) == {}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"priority": 7, "price": 1, "max_slices": 3, "cpu": 16}, True),
        ({"zone": "us-b"}, False),
        ({"preemptible": True}, False),
        ({"attributes": {"disk": "ssd"}}, False),
        ({"gpu": 1}, False),
    ],
)
def test_work_moves_only_to_groups_on_which_every_constraint_holds_as_it_did(fields: dict[str, Any], fits: bool) -> None:
    given = scenario("another group").group("g", price=2).group("other", **({"price": 1} | fields))
    given = given.slice("s", "g", READY, usage=load(1)).slice("o", "other", READY, usage=load(1))
    assert emptied(given) == ({"s": ("o",)} if fits else {})


# --- what keeps a slice ---


def test_a_protected_slice_is_not_emptied_and_receives() -> None:
    given = scenario("kept").group("g", price=2).slice("a", "g", READY, usage=load(1))
    assert emptied(given.slice("b", "g", READY, usage=load(1), kept="1h")) == {"a": ("b",)}


def test_the_protected_head_is_not_emptied() -> None:
    given = scenario("head").group("g", price=2, protect_first=True).slice("head", "g", READY, usage=load(1), age="2h")
    assert emptied(given.slice("s", "g", READY, usage=load(2), age="1h")) == {"s": ("head",)}


def test_what_received_load_is_not_emptied_until_it_has_settled() -> None:
    snapshot = received(snapshot_of(two_slices()), "new", minutes=10)
    found = consolidated(snapshot)
    assert emptied(found) == {"old": ("new",)}
    both = received(snapshot, "old", minutes=20)
    waits = consolidated(both)
    assert (waits.moves, waits.next_at) == ((), NOW - timedelta(minutes=20) + SETTLE)
    over = consolidated(received(both, "old", minutes=30))
    assert emptied(over) == {"old": ("new",)}


@pytest.mark.parametrize("field", ["since", "unconfirmed_at"])
def test_what_became_ready_or_came_back_from_a_drain_lately_is_not_emptied(field: str) -> None:
    recent = {piece: {field: NOW - timedelta(minutes=5)} for piece in ("old", "new")}
    found = consolidated(with_slices(snapshot_of(two_slices()), recent))
    assert (found.moves, found.next_at) == ((), NOW - timedelta(minutes=5) + SETTLE)


def test_a_slice_that_holds_demand_is_not_emptied() -> None:
    given = (
        scenario("demand on both").group("g", price=2).slice("a", "g", READY, usage=load(1)).slice("b", "g", READY, usage=load(1))
    )
    assert emptied(given.wants(2, cpu=1.6)) == {}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"min_slices": 2}, 2),
        ({"min_slices": 1}, 1),
        ({"warm_slices": 1, "max_slices": 2}, 2),
        ({"watermark": 100}, 1),
    ],
)
def test_no_group_falls_below_its_floors(fields: dict[str, Any], left: int) -> None:
    given = scenario("floors").group("g", **({"price": 2} | fields))
    given = given.slice("a", "g", READY, usage=load(1)).slice("b", "g", READY, usage=load(1))
    assert 2 - len(consolidated(given).moves) == left


def test_an_idle_slice_that_leaves_in_this_decision_no_longer_holds_up_the_minimum() -> None:
    given = two_slices().group("other").slice("idle", "g", READY, usage="idle", idle="1h")
    snapshot = snapshot_of(given)
    groups = [g.model_copy(update={"min_slices": 2}) if g.name == "g" else g for g in snapshot.config.groups]
    snapshot = snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"groups": tuple(groups)})})
    assert emptied(consolidated(snapshot)) == {"new": ("old",)}
    assert emptied(consolidated(snapshot, leaving=["idle"])) == {}


def test_slices_that_standing_requests_need_stay() -> None:
    assert emptied(two_slices().standing("team", 1, cpu=4)) == {"new": ("old",)}
    assert emptied(two_slices().standing("team", 2, cpu=4)) == {}
    refused = two_slices().cluster(max_slices=2).standing("team", 3, cpu=4)
    assert emptied(refused) == {}, "a refused request may be met once there is room"


def test_a_group_that_launches_empties_none() -> None:
    assert emptied(two_slices().wants(1, cpu=4)) == {}


def test_a_slice_stays_while_demand_waits_that_its_group_could_take() -> None:
    full = two_slices().cluster(max_slices=2).wants(1, cpu=4)
    assert emptied(full) == {}
    elsewhere = two_slices().group("gpu", gpu=1, max_slices=0, price=1).wants(1, gpu=1)
    assert emptied(elsewhere) == {"new": ("old",)}
    lapsed = two_slices().cluster(max_slices=2).source("gone", lease_ends="-5m").wants(1, cpu=4, source="gone")
    assert emptied(lapsed) == {"new": ("old",)}


def test_nothing_is_emptied_while_demand_is_lost() -> None:
    found = consolidated(two_slices().source("early", lease_ends="5m", resync="lost"))
    assert (found.moves, found.next_at) == ((), NOW + timedelta(minutes=5))
    assert emptied(two_slices().source("early", lease_ends="-5m", resync="lost")) == {"new": ("old",)}


def test_a_slice_of_a_group_that_was_out_of_stock_stays_as_an_idle_one_would() -> None:
    given = scenario("stockout").group("g", price=2, hold_after_stockout="1h").stockout("g", ago="20m")
    given = given.slice("a", "g", READY, usage=load(1)).slice("b", "g", READY, usage=load(1))
    found = consolidated(given)
    assert (found.moves, found.next_at) == ((), NOW + timedelta(minutes=40))


def test_groups_that_pressure_drives_and_removed_groups_are_left_alone() -> None:
    driven = scenario("driven").group("g", price=2, drive="pressure", slots=1).slice("a", "g", READY, usage=load(1))
    assert emptied(driven.slice("b", "g", READY, usage=load(1))) == {}
    removed = scenario("removed").group("g", price=2).retired("gone").slice("a", "gone", READY, usage=load(1))
    assert emptied(removed.slice("b", "g", READY, usage=load(1))) == {}


def test_the_word_on_slices_that_may_give_or_receive_names_the_moment_at_which_it_is_stale() -> None:
    given = scenario("heard").group("g", price=2).slice("a", "g", READY, usage=load(1), stale_in="9m")
    found = consolidated(given.slice("b", "g", READY, usage=load(1), stale_in="8m"))
    assert (emptied(found), found.next_at) == ({"b": ("a",)}, NOW + timedelta(minutes=8))
    nothing_to_move = scenario("heard").group("g", price=2).slice("a", "g", READY, usage="busy", stale_in="9m")
    assert consolidated(nothing_to_move).next_at is None


# --- under way ---


def under_way() -> Scenario:
    """`a` is being emptied, and `b` has room for it."""
    given = scenario("one under way").group("g", price=2).slice("a", "g", READY, usage=load(2))
    return given.slice("b", "g", READY, usage=load(2))


def test_a_slice_under_way_keeps_its_room_until_its_work_has_moved() -> None:
    given = under_way().slice("gang", "g", READY, usage=load(2, gangs=("gang",)))
    snapshot = snapshot_of(given.slice("e", "g", READY, usage=load(2)))
    assert emptied(snapshot) == {"e": ("gang",), "b": ("a",)}
    moving = with_slices(snapshot, {"a": UNDER_WAY})
    assert emptied(moving) == {"e": ("b",)}, "the work of a goes to the slice with the gang"
    moved = moving.model_copy(update={"usage": moving.usage | {"a": (IDLE,), "gang": (load(4, gangs=("gang",)),)}})
    assert emptied(moved) == {"e": ("b",)}


def test_what_receives_the_work_of_a_slice_under_way_is_not_emptied() -> None:
    snapshot = snapshot_of(under_way().slice("d", "g", READY, usage=load(1.5)))
    assert emptied(snapshot) == {"d": ("a",)}
    assert emptied(with_slices(snapshot, {"a": UNDER_WAY})) == {}, "b receives it, could move to d, and has no room for d"


def test_a_slice_under_way_whose_work_fits_nowhere_any_more_is_named_and_nothing_else_begins() -> None:
    snapshot = with_slices(snapshot_of(under_way().wants(1, cpu=2)), {"a": UNDER_WAY})
    found = consolidated(snapshot)
    assert ([piece.id for piece in found.outgrown], found.moves) == (["a"], ())
    forced = with_slices(snapshot, {"a": {"drain": DrainTerms(cause="operator", force=True)}})
    assert consolidated(forced).outgrown == ()
    confirmed = with_slices(snapshot, {"a": {"confirmed_empty": True}})
    assert consolidated(confirmed).outgrown == ()


def test_a_slice_under_way_stays_so_if_more_would_serve_than_a_maximum_allows() -> None:
    given = under_way().cluster(max_slices=1).wants(1, cpu=2)
    assert consolidated(with_slices(snapshot_of(given), {"a": UNDER_WAY})).outgrown == ()


def test_a_receiver_that_became_idle_meanwhile_still_receives_what_is_under_way() -> None:
    snapshot = with_slices(snapshot_of(under_way()), {"a": UNDER_WAY})
    idle = snapshot.model_copy(update={"usage": snapshot.usage | {"b": (IDLE,)}})
    assert [piece.id for piece in consolidated(idle).outgrown] == ["a"]
    assert consolidated(received(idle, "b", minutes=3)).outgrown == ()


# --- the work of it ---


def test_the_search_is_bounded_and_a_decision_whose_work_is_used_up_empties_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert emptied(consolidated(two_slices(), effort=Effort(most=0))) == {}
    monkeypatch.setattr("penstock.core.decision.consolidation.SEARCH_STEPS", 0)
    assert emptied(two_slices()) == {}


def test_five_thousand_slices_take_a_bounded_number_of_steps() -> None:
    given = scenario("many").group("g", price=2, max_slices=5000)
    snapshot = snapshot_of(
        given.slice("s", "g", READY, usage=load(2.5), count=4000).slice("t", "g", READY, usage=load(1), count=1000)
    )
    effort = Effort()
    plan, standing = _planner_of(snapshot, effort)[0].plan()
    before = effort.spent
    found = consolidations(plan, standing, leaving=(), most=5000)
    assert len(found.moves) == 1000
    assert effort.spent - before < 400_000, "a tenth of a second"
