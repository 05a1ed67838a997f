"""Drains: how they are ordered, cancelled and confirmed, and the commands that slices receive."""

from penstock.contract.slices import CancelDrainCommand, ConfirmEmptyCommand, DeleteCommand, DrainCommand, IdleCommand
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import status_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.drains import CLOSING
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    CommandsSent,
    DrainCancelled,
    DrainOrdered,
    UsageReported,
)
from penstock.core.state.recovery import without_ledger
from penstock.core.state.specs import initial_lifecycle
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import (
    NOW,
    after_reports,
    audited,
    cluster,
    commands,
    confirmed,
    drains,
    later,
    ordered,
    orphan,
    ready,
    report,
    unnumbered,
)

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)
TERMS = DrainTerms(cause="operator")
TO_CLOSE = DrainTerms(cause=CLOSING, force=True)
DRAINING = SliceState.DRAINING


def test_a_drain_takes_the_capacity_away_at_once_and_tells_the_slice() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    assert commands(state) == (DrainCommand(slice_id="a", terms=TERMS),)
    snapshot = snapshot_of(state).snapshot
    assert drains(state) == {"a": TERMS}
    assert [(group.have, group.leaving) for group in decide(snapshot).groups] == [(0, 1)]
    assert apply(state, CommandsSent(at=NOW, commands=state.outbox)).outbox == ()


def test_commands_added_while_others_are_delivered_are_kept() -> None:
    state = apply(ready(ready(cluster()), "b"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    sent = state.outbox
    state = apply(state, DrainOrdered(at=NOW, slice_id="b", terms=TERMS))
    state = after_reports(state, report("a", SliceState.TERMINATED, 9))
    assert commands(apply(state, CommandsSent(at=NOW, commands=sent))) == (DrainCommand(slice_id="b", terms=TERMS),)


def test_a_drain_of_a_slice_that_nobody_knows_is_nothing() -> None:
    assert apply(cluster(), DrainOrdered(at=NOW, slice_id="x", terms=TERMS)).outbox == ()


def test_a_draining_slice_is_deleted_once_it_is_confirmed_empty_and_an_idle_one_at_its_deadline() -> None:
    draining = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    busy = apply(draining, UsageReported(at=NOW, usage={"a": BUSY}))
    assert commands(busy) == (DrainCommand(slice_id="a", terms=TERMS),)
    idle = apply(busy, UsageReported(at=NOW, usage={"a": IDLE}))
    assert idle.outbox[-1] == IdleCommand(slice_id="a", idle=True, number=1), (
        "it is not deleted yet: its controller may start work there"
    )
    assert apply(idle, UsageReported(at=NOW, usage={"a": BUSY})).outbox[-1] == IdleCommand(slice_id="a", idle=False, number=1)
    assert apply(busy, confirmed("a", "x")).outbox[-1] == ConfirmEmptyCommand(slice_id="a", number=1)


def test_a_heartbeat_after_the_drain_began_repeats_that_the_slice_is_idle() -> None:
    state = apply(ready(cluster()), UsageReported(at=NOW, usage={"a": IDLE}))
    state = apply(state, DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    assert commands(state) == (DrainCommand(slice_id="a", terms=TERMS),), "what was said before does not count"
    assert apply(state, UsageReported(at=NOW, usage={})).outbox[-1] == IdleCommand(slice_id="a", idle=True, number=1)


def test_an_idle_report_is_enough_for_a_forced_drain() -> None:
    forced = DrainTerms(cause="operator", force=True)
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=forced))
    assert apply(state, UsageReported(at=NOW, usage={"a": IDLE})).outbox[-1] == ConfirmEmptyCommand(slice_id="a", number=1)


def test_a_draining_slice_receives_one_confirmation_and_none_while_it_is_being_deleted() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    empty: list[AnyEvent] = [UsageReported(at=NOW, usage={"a": IDLE}), confirmed("a", "a")]
    often = replay(empty * 3, state)
    idle, emptied = IdleCommand(slice_id="a", idle=True), ConfirmEmptyCommand(slice_id="a")
    assert commands(often) == (DrainCommand(slice_id="a", terms=TERMS), idle, emptied)
    deleting = after_reports(apply(often, CommandsSent(at=NOW, commands=often.outbox)), report("a", SliceState.DELETING, 5))
    assert replay(empty, deleting).outbox == ()


def test_a_cancelled_drain_makes_the_slice_serve_again() -> None:
    state = replay([DrainOrdered(at=NOW, slice_id="a", terms=TERMS), DrainCancelled(at=NOW, slice_id="a")], ready(cluster()))
    assert state.outbox[-1] == CancelDrainCommand(slice_id="a", number=1)
    assert [piece.state for piece in snapshot_of(state).snapshot.slices] == [SliceState.READY]
    assert decide(snapshot_of(state).snapshot).groups[0].leaving == 0


def test_a_drain_that_ended_at_its_deadline_is_over_when_the_slice_says_ready_again() -> None:
    state = apply(ordered(cluster(), "a"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    state = after_reports(state, report("a", SliceState.READY, 4))
    assert "a" in drains(state), "a report from before the drain changes nothing"
    assert drains(after_reports(state, report("a", SliceState.DRAINING, 5), report("a", SliceState.READY, 6))) == {}
    skipped = after_reports(state, report("a", SliceState.READY, 6, at=later(9)))
    assert drains(skipped) == {}, "the report in between may have been skipped"


def test_a_ready_slice_that_reports_new_addresses_keeps_its_ordered_drain() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    moved = report("a", SliceState.READY, 4, hosts=(HostAddress(address="10.0.0.9"),))
    assert drains(after_reports(state, moved)) == {"a": TERMS}


def test_a_drain_that_a_slice_tells_of_is_shown_on_its_own_terms() -> None:
    forced = DrainTerms(cause="maintenance", force=True)
    state = after_reports(cluster(), report("a", SliceState.DRAINING, 4, drain=forced))
    assert [(drain.slice_id, drain.cause, drain.force) for drain in status_of(state).drains] == [("a", "maintenance", True)]
    assert drains(after_reports(state, report("a", SliceState.READY, 5))) == {}


def test_a_drain_ordered_anew_before_the_end_of_the_last_one_was_heard_of_is_not_forgotten() -> None:
    again = DrainTerms(cause="again")
    orders: list[AnyEvent] = [DrainOrdered(at=NOW, slice_id="a", terms=TERMS), DrainCancelled(at=NOW, slice_id="a")]
    state = replay([*orders, DrainOrdered(at=NOW, slice_id="a", terms=again)], ready(cluster()))
    state = after_reports(state, report("a", SliceState.DRAINING, 4, drain=TERMS), report("a", SliceState.READY, 5))
    assert drains(after_reports(state, report("a", SliceState.DRAINING, 6, drain=again))) == {"a": again}


def test_a_drain_by_force_stays_one_until_it_is_cancelled() -> None:
    forced = DrainTerms(cause="operator", force=True)
    state = ready(cluster())
    for terms in (forced, TERMS):
        state = apply(state, DrainOrdered(at=NOW, slice_id="a", terms=terms))
    assert drains(state) == {"a": forced}
    assert {command.terms for command in commands(state) if isinstance(command, DrainCommand)} == {forced}
    state = replay([DrainCancelled(at=NOW, slice_id="a"), DrainOrdered(at=NOW, slice_id="a", terms=TERMS)], state)
    assert drains(state) == {"a": TERMS}


def test_closing_drains_every_slice_and_force_deletes_them() -> None:
    state = ready(cluster())
    drained = apply(state, Closed(at=NOW))
    assert commands(drained) == (DrainCommand(slice_id="a", terms=DrainTerms(cause=CLOSING, force=True)),)
    assert apply(state, Closed(at=NOW, force=True)).outbox == (DeleteCommand(slice_id="a", cause=CLOSING),)


def test_what_another_source_says_of_a_slice_counts_while_the_cluster_is_deleted() -> None:
    said = UsageReported(at=NOW, source="first", usage={"a": BUSY})
    state = replay([said, Closed(at=NOW)], ready(cluster()))
    assert state.usage_sources["first"].named == ()
    state = apply(state, UsageReported(at=NOW, source="second", usage={"a": IDLE}))
    assert commands(state)[-1] == ConfirmEmptyCommand(slice_id="a")


def test_a_slice_that_turns_up_while_the_cluster_is_given_up_is_drained_like_the_others() -> None:
    state = after_reports(apply(cluster(), Closed(at=NOW)), report("x", SliceState.READY, 4))
    assert commands(state) == (DrainCommand(slice_id="x", terms=TO_CLOSE),)
    assert drains(state) == {"x": TO_CLOSE}


def test_a_slice_that_turns_up_while_the_cluster_is_deleted_by_force_is_deleted_at_once() -> None:
    """Also in the run that follows one which the server ended before its commands were sent."""
    forced = apply(ready(cluster()), Closed(at=NOW, force=True))
    for closing in (forced, apply(forced, Closed(at=NOW)), without_ledger(forced)):
        state = after_reports(closing, report("x", SliceState.READY, 4))
        assert state.outbox[-1] == DeleteCommand(slice_id="x", cause=CLOSING)
        assert drains(state)["x"] == TO_CLOSE


def test_a_slice_whose_workflow_died_while_it_was_to_drain_goes_on_draining() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    state = audited(state, orphans=(orphan("a"),))
    lifecycle = initial_lifecycle(state, state.by_id["a"], NOW)
    assert lifecycle is not None
    assert lifecycle.drain is not None
    assert (lifecycle.state, unnumbered(lifecycle.drain), lifecycle.sequence > lifecycle.reported) == (DRAINING, TERMS, True)


def test_reported_drains_are_the_same_whether_reports_are_applied_alone_or_in_a_batch() -> None:
    old, new = DrainTerms(cause="old", force=True), DrainTerms(cause="new")
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=old))
    reports = [report("a", SliceState.READY, 5, at=later(9)), report("a", SliceState.DRAINING, 6, drain=new)]
    alone = after_reports(after_reports(state, reports[0]), reports[1])
    assert drains(alone) == drains(after_reports(state, *reports)) == {"a": new}
