"""Idle slices whose controllers lost some of what they said or began anew: they stay until they are named again."""

from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    CommandsSent,
    Decided,
    DemandDelta,
    DrainOrdered,
    RecoveryBegan,
    TimePassed,
    UsageReported,
)
from penstock.core.state.sources import stale_at
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainTerms
from tests.core.state.ledgers import cluster, drains, later, ready
from tests.core.state.test_sources import IDLE, demand, says, wants

IDLE_TIMEOUT = 600
OPERATOR = DrainTerms(cause="operator")


def drained(state: AutoscalerState, seconds: float) -> set[str]:
    """The slices that an evaluation at a moment drains, once its orders are carried out."""
    orders = evaluate(state, now=later(seconds), chance=lambda: "0badcafe").orders
    return set(drains(apply(state, Decided(at=later(seconds), orders=orders))))


def two(*events: AnyEvent) -> AutoscalerState:
    """Two READY slices that are idle by the first epoch of their source, whose demand fits nowhere, and what happens then."""
    first: list[AnyEvent] = [wants("t", at=1, epoch=1, cpu=99), says(1, epoch=1, a=IDLE, b=IDLE)]
    return replay([*first, *events], ready(ready(cluster(), "a"), "b"))


# --- a controller that restarts ---


def test_nothing_drains_on_the_word_of_an_older_epoch() -> None:
    assert drained(two(), 1 + IDLE_TIMEOUT) == {"a", "b"}
    state = two(wants("t", at=500, epoch=2, cpu=99))
    assert drained(state, 1 + IDLE_TIMEOUT) == set()
    assert drained(apply(state, says(599, epoch=2)), 1 + IDLE_TIMEOUT) == set(), "an empty report names no slice"


def test_a_slice_that_the_new_epoch_names_counts_its_idle_time_from_then_on_and_the_others_stay() -> None:
    state = two(wants("t", at=500, epoch=2, cpu=99), says(600, epoch=2, a=IDLE))
    assert drained(state, 600 + IDLE_TIMEOUT - 1) == set()
    assert drained(state, 600 + IDLE_TIMEOUT) == {"a"}
    state = apply(state, says(700, epoch=2, b=IDLE))
    assert state.by_id["b"].idle_since == later(700)
    assert drained(state, 700 + IDLE_TIMEOUT - 1) == {"a"}
    assert drained(state, 700 + IDLE_TIMEOUT) == {"a", "b"}


def test_the_word_of_a_source_that_did_not_restart_is_not_enough_for_a_slice_that_both_named() -> None:
    other = UsageReported(at=later(2), source="other", usage={"a": IDLE})
    state = two(other, wants("t", at=500, epoch=2, cpu=99))
    assert drained(state, 1 + IDLE_TIMEOUT) == set()


def test_a_heartbeat_of_the_new_epoch_does_not_repeat_to_a_draining_slice_what_the_old_one_said() -> None:
    state = apply(two(wants("t", at=500, epoch=2, cpu=99)), DrainOrdered(at=later(510), slice_id="a", terms=OPERATOR))
    state = apply(state, CommandsSent(at=later(511), commands=state.outbox))
    assert apply(state, says(520, epoch=2)).outbox == ()
    assert apply(state, says(520, epoch=2, a=IDLE)).outbox != ()


# --- lost usage ---


def lost(*events: AnyEvent) -> AutoscalerState:
    """A cluster that was reset, and has recovered its ledger."""
    began = RecoveryBegan(at=later(10), id="r", reason="this run was reset")
    return replay(events, two(began).model_copy(update={"recovery": None}))


def test_nothing_drains_on_what_was_said_before_state_was_lost_and_a_heartbeat_does_not_renew_it() -> None:
    state = lost(says(500, epoch=1))
    assert drained(state, 1 + IDLE_TIMEOUT) == set()
    assert stale_at(state).keys() == {"a", "b"}


def test_idle_time_counts_from_the_resync() -> None:
    state = lost(says(500, epoch=1), says(600, epoch=2, a=IDLE))
    assert drained(state, 600 + IDLE_TIMEOUT - 1) == set()
    assert drained(state, 600 + IDLE_TIMEOUT) == {"a"}


# --- lost demand ---


def test_a_source_whose_demand_needs_a_resync_is_told_to_the_decision_even_without_tasks() -> None:
    gap = DemandDelta(at=later(30), epoch=1, base=7, revision=8, added=demand("u"))
    state = replay([wants(at=20, epoch=1, lease=600), gap], cluster())
    assert state.resync_needed
    terms = snapshot_of(apply(state, TimePassed(at=later(40)))).snapshot.sources["default"]
    assert terms.resync == state.resync_needed["default"]
    assert terms.lease_ends == later(630)
    resynced = apply(state, wants(at=50, epoch=1, revision=9))
    assert snapshot_of(resynced).snapshot.sources == {}


def test_a_source_with_tasks_and_no_gap_needs_no_resync() -> None:
    assert snapshot_of(apply(cluster(), wants("t"))).snapshot.sources["default"].resync is None
