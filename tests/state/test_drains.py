"""Slices are told to go: drains, their ends, and letters that say so."""

from penstock.contract.lives import CancelDrainLetter, DeleteLetter, DrainLetter, DrainTerms, EmptyLetter
from penstock.core.apply import apply, replay
from penstock.core.drains import CLOSING, TO_CLOSE
from penstock.core.events import (
    AnyEvent,
    Closed,
    DrainCancelled,
    DrainOrdered,
    DrainsConfirmed,
    LettersSent,
    UsageReported,
)
from penstock.core.specs import life_of
from penstock.core.status import status_of
from penstock.core.view import view_of
from penstock.model.slices import HostState, HostUsage, SliceState
from tests.state.ledgers import NOW, audited, cluster, ordered, ready, report, told, unowned

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)
TERMS = DrainTerms(cause="operator")


def test_a_drain_takes_the_capacity_away_at_once_and_tells_the_slice() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    assert state.letters == (DrainLetter(slice_id="a", terms=TERMS),)
    assert [piece.state for piece in view_of(state).snapshot.slices] == [SliceState.DRAINING]
    assert apply(state, LettersSent(at=NOW, letters=state.letters)).letters == ()


def test_letters_written_while_others_are_delivered_are_kept() -> None:
    state = apply(ready(ready(cluster()), "b"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    sent = state.letters
    state = apply(state, DrainOrdered(at=NOW, slice_id="b", terms=TERMS))
    state = told(state, report("a", SliceState.TERMINATED, 9))
    assert apply(state, LettersSent(at=NOW, letters=sent)).letters == (DrainLetter(slice_id="b", terms=TERMS),)


def test_a_drain_of_a_slice_that_nobody_knows_is_nothing() -> None:
    assert apply(cluster(), DrainOrdered(at=NOW, slice_id="x", terms=TERMS)).letters == ()


def test_a_draining_slice_that_reports_idle_or_is_confirmed_is_told_that_it_is_empty() -> None:
    draining = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    busy = apply(draining, UsageReported(at=NOW, usage={"a": BUSY}))
    assert EmptyLetter(slice_id="a") not in busy.letters
    assert apply(busy, UsageReported(at=NOW, usage={"a": IDLE})).letters[-1] == EmptyLetter(slice_id="a")
    assert apply(busy, DrainsConfirmed(at=NOW, slice_ids=("a", "x"))).letters[-1] == EmptyLetter(slice_id="a")


def test_a_draining_slice_is_told_once_that_it_is_empty_and_not_any_more_when_it_is_being_deleted() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    empty: list[AnyEvent] = [UsageReported(at=NOW, usage={"a": IDLE}), DrainsConfirmed(at=NOW, slice_ids=("a", "a"))]
    told_often = replay(empty * 3, state)
    assert told_often.letters == (DrainLetter(slice_id="a", terms=TERMS), EmptyLetter(slice_id="a"))
    deleting = told(apply(told_often, LettersSent(at=NOW, letters=told_often.letters)), report("a", SliceState.DELETING, 5))
    assert replay(empty, deleting).letters == ()


def test_what_was_reported_before_the_drain_does_not_count_as_empty() -> None:
    state = apply(ready(cluster()), UsageReported(at=NOW, usage={"a": IDLE}))
    state = apply(state, DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    assert state.letters == (DrainLetter(slice_id="a", terms=TERMS),)


def test_a_cancelled_drain_makes_the_slice_serve_again() -> None:
    state = replay([DrainOrdered(at=NOW, slice_id="a", terms=TERMS), DrainCancelled(at=NOW, slice_id="a")], ready(cluster()))
    assert state.letters[-1] == CancelDrainLetter(slice_id="a")
    assert [piece.state for piece in view_of(state).snapshot.slices] == [SliceState.READY]


def test_a_drain_that_ended_at_its_deadline_is_over_when_the_slice_says_ready_again() -> None:
    state = apply(ordered(cluster(), "a"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    state = told(state, report("a", SliceState.READY, 4))
    assert "a" in state.drains, "a report from before the drain changes nothing"
    assert told(state, report("a", SliceState.DRAINING, 5), report("a", SliceState.READY, 6)).drains == {}
    assert told(state, report("a", SliceState.READY, 6)).drains == {}, "the report in between may have been skipped"


def test_a_drain_that_a_slice_tells_of_is_shown_on_its_own_terms() -> None:
    forced = DrainTerms(cause="maintenance", force=True)
    state = told(cluster(), report("a", SliceState.DRAINING, 4, drain=forced))
    assert [(drain.slice_id, drain.cause, drain.force) for drain in status_of(state).drains] == [("a", "maintenance", True)]
    assert told(state, report("a", SliceState.READY, 5)).drains == {}


def test_a_drain_ordered_anew_before_the_end_of_the_last_one_was_heard_of_is_not_forgotten() -> None:
    again = DrainTerms(cause="again")
    orders: list[AnyEvent] = [DrainOrdered(at=NOW, slice_id="a", terms=TERMS), DrainCancelled(at=NOW, slice_id="a")]
    state = replay([*orders, DrainOrdered(at=NOW, slice_id="a", terms=again)], ready(cluster()))
    state = told(state, report("a", SliceState.DRAINING, 4, drain=TERMS), report("a", SliceState.READY, 5))
    assert told(state, report("a", SliceState.DRAINING, 6, drain=again)).drains == {"a": again}


def test_a_drain_by_force_stays_one_until_it_is_cancelled() -> None:
    forced = DrainTerms(cause="operator", force=True)
    state = ready(cluster())
    for terms in (forced, TERMS):
        state = apply(state, DrainOrdered(at=NOW, slice_id="a", terms=terms))
    assert state.drains == {"a": forced}
    assert {letter.terms for letter in state.letters if isinstance(letter, DrainLetter)} == {forced}
    state = replay([DrainCancelled(at=NOW, slice_id="a"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS)], state)
    assert state.drains == {"a": TERMS}


def test_closing_drains_every_slice_and_force_deletes_them() -> None:
    state = ready(cluster())
    drained = apply(state, Closed(at=NOW))
    assert drained.letters == (DrainLetter(slice_id="a", terms=DrainTerms(cause=CLOSING, force=True)),)
    assert apply(state, Closed(at=NOW, force=True)).letters == (DeleteLetter(slice_id="a", cause=CLOSING),)


def test_a_slice_that_turns_up_while_the_cluster_is_given_up_is_drained_like_the_others() -> None:
    state = told(apply(cluster(), Closed(at=NOW)), report("x", SliceState.READY, 4))
    assert state.letters == (DrainLetter(slice_id="x", terms=TO_CLOSE),)
    assert state.drains == {"x": TO_CLOSE}


def test_a_slice_whose_workflow_died_while_it_was_to_drain_goes_on_draining() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    life = life_of(audited(state, unowned=(unowned("a"),)), "a", NOW)
    assert life is not None
    assert (life.state, life.drain, life.sequence > life.reported) == (SliceState.DRAINING, TERMS, True)


def test_drains_that_slices_tell_of_are_the_same_whether_they_are_told_alone_or_together() -> None:
    old, new = DrainTerms(cause="old", force=True), DrainTerms(cause="new")
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=old))
    reports = [report("a", SliceState.READY, 5), report("a", SliceState.DRAINING, 6, drain=new)]
    assert told(told(state, reports[0]), reports[1]).drains == told(state, *reports).drains == {"a": new}
