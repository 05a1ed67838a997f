"""Since when slices are idle or not needed, and what becomes of drains whose slices are not what the decision saw."""

from datetime import datetime

import pytest

from penstock.contract.orders import Orders
from penstock.core.answers.evaluate import evaluate
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, Decided, DemandSnapshot, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Drain
from penstock.model.demand_builder import DemandBuilder
from penstock.model.resources import Resources
from penstock.model.shape import Shape
from penstock.model.slices import DrainCause, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, confirmed, drains, later, ordered, ready, report, states

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
IDLE_TIMEOUT, CANCEL_AFTER, DRAIN = 600, 60, 600
"""The defaults of a group, in seconds."""


def used(state: AutoscalerState, moment: datetime = NOW, /, **words: tuple[HostUsage, ...]) -> AutoscalerState:
    return apply(state, UsageReported(at=moment, usage=dict(words)))


def decided(state: AutoscalerState, at: datetime) -> AutoscalerState:
    """The state after an evaluation at a moment, carried out."""
    return apply(state, Decided(at=at, orders=evaluate(state, now=at, chance=lambda: "0badcafe").orders))


def wanting(state: AutoscalerState, tasks: int, *, revision: int, cpu: int = 4) -> AutoscalerState:
    builder = DemandBuilder()
    if tasks:
        builder.add(Shape(resources=Resources(cpu=cpu)), [f"t{n}" for n in range(tasks)], entries=tasks)
    return apply(state, DemandSnapshot(at=state.now, epoch=1, revision=revision, demand=builder.build()))


def test_idle_time_counts_from_the_first_idle_report_after_ready() -> None:
    state = used(ordered(cluster(), "a"), a=IDLE)
    assert state.by_id["a"].idle_since is None, "it is not READY"
    state = after_reports(state, report("a", SliceState.READY, 3, at=later(10)), at=later(10))
    assert state.by_id["a"].idle_since is None
    state = used(used(state, later(20), a=IDLE), later(30), a=IDLE)
    assert state.by_id["a"].idle_since == later(20)
    assert used(state, later(40), a=BUSY).by_id["a"].idle_since is None


def test_a_heartbeat_repeats_what_the_source_said_of_a_slice_that_became_ready_since() -> None:
    state = used(ordered(cluster(), "a"), a=IDLE)
    state = after_reports(state, report("a", SliceState.READY, 3, at=later(10)), at=later(10))
    assert used(state, later(20)).by_id["a"].idle_since == later(20)


def test_a_slice_idle_for_longer_than_the_timeout_drains_and_the_evaluation_wakes_for_it() -> None:
    state = used(ready(cluster()), a=IDLE)
    orders = evaluate(state, now=later(1), chance=lambda: "0badcafe").orders
    assert orders.next_change_at == later(IDLE_TIMEOUT)
    assert drains(decided(state, later(IDLE_TIMEOUT - 1))) == {}
    state = decided(state, later(IDLE_TIMEOUT))
    terms = state.by_id["a"].drain
    assert terms is not None
    assert (terms.cause, terms.number, terms.deadline) == (DrainCause.IDLE, 1, later(IDLE_TIMEOUT + DRAIN))


def test_the_longest_idle_slice_goes_first_and_the_minimum_stays() -> None:
    state = cluster({"name": "g", "min_slices": 1})
    for number, slice_id in enumerate("abc"):
        state = used(ready(state, slice_id), later(10 * (3 - number)), **{slice_id: IDLE})
    assert set(drains(decided(state, later(2 * IDLE_TIMEOUT)))) == {"c", "b"}
    assert set(drains(decided(state, later(IDLE_TIMEOUT + 15)))) == {"c"}


def test_nothing_drains_on_the_word_of_a_silent_source_and_idle_time_counts_anew_when_it_is_heard_again() -> None:
    state = used(ready(cluster(usage_stale_after="20m")), a=IDLE)
    state = used(state, later(300), a=IDLE)
    assert drains(decided(state, later(300 + 1200))) == {}, "the source is stale"
    assert "a" in drains(decided(state, later(300 + 1199)))
    back = used(state, later(3000))
    assert back.by_id["a"].idle_since == later(3000)
    assert drains(decided(back, later(3000 + IDLE_TIMEOUT - 1))) == {}
    assert "a" in drains(decided(back, later(3000 + IDLE_TIMEOUT)))


def test_a_slice_that_no_report_named_and_a_busy_one_stay() -> None:
    state = used(ready(ready(cluster(), "a"), "b"), b=BUSY)
    assert drains(decided(state, later(100 * IDLE_TIMEOUT))) == {}


def test_the_oldest_slice_is_the_last_to_go_if_it_is_protected() -> None:
    state = cluster({"name": "g", "protect_first": True, "min_slices": 1})
    for slice_id in "ab":
        state = used(ready(state, slice_id), **{slice_id: IDLE})
    assert set(drains(decided(state, later(IDLE_TIMEOUT)))) == {"b"}
    to_zero = ConfigApplied(at=NOW, config=config({"name": "g", "protect_first": True}))
    assert set(drains(decided(apply(state, to_zero), later(IDLE_TIMEOUT)))) == {"a", "b"}


def test_a_lowered_maximum_takes_idle_slices_at_once_and_busy_ones_once_they_are_idle() -> None:
    state = cluster()
    for slice_id, usage in zip("abc", (BUSY, IDLE, IDLE), strict=True):
        state = used(ready(state, slice_id), **{slice_id: usage})
    state = decided(apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "max_slices": 0}))), later(1))
    assert {slice_id: terms.cause for slice_id, terms in drains(state).items()} == dict.fromkeys("bc", DrainCause.ABOVE_MAXIMUM)
    assert "a" in drains(decided(used(state, later(2), a=IDLE), later(2)))


def test_a_maximum_that_was_raised_again_takes_its_drains_back() -> None:
    state = used(ready(cluster({"name": "g", "min_slices": 0})), a=IDLE)
    state = decided(apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "max_slices": 0}))), later(1))
    assert "a" in drains(state)
    raised = apply(state, ConfigApplied(at=NOW, config=config({"name": "g", "max_slices": 3, "min_slices": 1})))
    after = decided(raised, later(2))
    assert (drains(after), len(after.slices)) == ({}, 1)


def test_slices_of_a_removed_group_go_by_the_timeout_they_were_made_under() -> None:
    state = used(ready(cluster({"name": "g", "idle_timeout": "2m"})), a=IDLE)
    state = apply(state, ConfigApplied(at=NOW, config=config({"name": "other"})))
    assert drains(decided(state, later(119))) == {}
    assert drains(decided(state, later(120)))["a"].cause == DrainCause.GROUP_REMOVED


def test_a_slice_on_its_way_is_called_off_after_a_while_without_need_and_need_starts_the_count_anew() -> None:
    state = decided(wanting(cluster(), 1, revision=1), NOW)
    (slice_id,) = states(state)
    state = decided(wanting(state, 0, revision=2), later(10))
    assert state.by_id[slice_id].unneeded_since == later(10)
    needed = decided(wanting(state, 1, revision=3), later(20))
    assert (needed.by_id[slice_id].unneeded_since, len(needed.slices)) == (None, 1)
    assert drains(decided(state, later(10 + CANCEL_AFTER - 1))) == {}
    assert drains(decided(state, later(10 + CANCEL_AFTER)))[slice_id].cause == DrainCause.NOT_NEEDED


def test_demand_takes_a_draining_slice_back_before_it_launches_one() -> None:
    state = decided(used(ready(cluster()), a=IDLE), later(IDLE_TIMEOUT))
    assert "a" in drains(state)
    state = after_reports(state, report("a", SliceState.DRAINING, 4, at=later(IDLE_TIMEOUT)), at=later(IDLE_TIMEOUT))
    state = decided(wanting(state, 1, revision=1), later(IDLE_TIMEOUT + 1))
    assert (drains(state), list(states(state))) == ({}, ["a"])
    assert list(states(decided(state, later(IDLE_TIMEOUT + 2)))) == ["a"], "it counts although it has not reported READY yet"
    late = after_reports(state, report("a", SliceState.DRAINING, 5, drain=None), at=later(IDLE_TIMEOUT + 3))
    assert list(states(decided(late, later(IDLE_TIMEOUT + 3)))) == ["a"]


def test_a_drain_that_was_confirmed_or_that_an_operator_ordered_is_not_taken_back() -> None:
    state = decided(used(ready(cluster()), a=IDLE), later(IDLE_TIMEOUT))
    emptied = apply(state, confirmed("a", at=later(IDLE_TIMEOUT)))
    after = decided(wanting(emptied, 1, revision=1), later(IDLE_TIMEOUT + 1))
    assert "a" in drains(after)
    assert len(after.slices) == 2


@pytest.mark.parametrize("words", [(BUSY,), (BUSY, IDLE)])
def test_a_drain_is_dropped_if_the_slice_was_used_since_the_decision(words: tuple[tuple[HostUsage, ...], ...]) -> None:
    state = used(ready(cluster()), a=IDLE)
    drain = Drain(slice_id="a", cause=DrainCause.IDLE, idle_since=state.by_id["a"].idle_since)
    orders = Orders(at=later(5), config_revision=state.config_revision, drains=(drain,))
    used_since = replay([UsageReported(at=later(5), usage={"a": word}) for word in words], state)
    assert drains(apply(used_since, Decided(at=later(6), orders=orders))) == {}
    assert set(drains(apply(state, Decided(at=later(6), orders=orders)))) == {"a"}


def test_observing_decides_drains_and_orders_none() -> None:
    state = used(ready(cluster(scale_down="observe")), a=IDLE)
    evaluation = evaluate(state, now=later(IDLE_TIMEOUT), chance=lambda: "0badcafe")
    assert [drain.slice_id for drain in evaluation.decision.drains] == ["a"]
    assert evaluation.orders.drains == ()
