"""Commands about drains, in any order and as often as the server delivers them: each is about the drain that it numbers."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    DrainCommand,
    DrainEnding,
    EndedDrain,
    IdleCommand,
    SliceLifecycle,
)
from penstock.core.slices.lifecycle import CommandReceived, LifecycleEvent, Overdue, advance, deadline_seconds, report_of
from penstock.model.slices import DrainCause, DrainTerms
from tests.core.slices.test_lifecycle import DELETING, DRAINING, HEALTHY, ID, NOW, READY, after, commanded, created


def drain(number: int, *, seconds: float = 600, at: float = 0, cause: str = "idle", force: bool = False) -> CommandReceived:
    """A drain that is ordered at a moment and ends so many seconds later."""
    moment = NOW + timedelta(seconds=at)
    terms = DrainTerms(cause=cause, force=force, number=number, deadline=moment + timedelta(seconds=seconds))
    return CommandReceived(moment, DrainCommand(slice_id=ID, terms=terms))


def cancel(number: int) -> CommandReceived:
    return commanded(CancelDrainCommand(slice_id=ID, number=number))


def empty(number: int) -> CommandReceived:
    return commanded(ConfirmEmptyCommand(slice_id=ID, number=number))


def idle(number: int, *, idle: bool = True) -> CommandReceived:
    return commanded(IdleCommand(slice_id=ID, idle=idle, number=number))


def overdue(at: float) -> Overdue:
    return Overdue(NOW + timedelta(seconds=at), DRAINING)


def serving(*events: LifecycleEvent) -> SliceLifecycle:
    """A READY slice, and what happens to it then."""
    return after(created(), HEALTHY, *events)


def number_of(lifecycle: SliceLifecycle) -> int | None:
    return None if lifecycle.drain is None else lifecycle.drain.number


def test_a_confirmation_of_an_older_drain_deletes_nothing() -> None:
    assert serving(drain(3), cancel(3), drain(5), empty(3)).state is DRAINING
    assert serving(drain(3), cancel(3), drain(5), empty(5)).state is DELETING


def test_an_idle_word_about_an_older_drain_does_not_count_at_the_deadline_of_a_newer_one() -> None:
    assert serving(drain(3), cancel(3), drain(5), idle(3), overdue(600)).state is READY
    assert serving(drain(3), cancel(3), drain(5), idle(5), overdue(600)).state is DELETING


def test_the_end_of_an_older_drain_does_not_end_a_newer_one() -> None:
    assert number_of(serving(drain(3), drain(5), cancel(3))) == 5
    assert serving(drain(3), drain(5), cancel(5)).state is READY


def test_commands_without_a_number_are_about_the_drain_under_way() -> None:
    """A worker of an earlier version sends them."""
    assert serving(drain(3), commanded(ConfirmEmptyCommand(slice_id=ID))).state is DELETING
    assert serving(drain(3), commanded(CancelDrainCommand(slice_id=ID))).state is READY


def test_a_drain_that_is_delivered_again_after_its_end_does_not_begin_again() -> None:
    ended = serving(drain(3), cancel(3))
    again = advance(ended, drain(3))
    assert (again.state, again.transitions[-1].why) == (READY, "drain 3 is over already")
    assert again.sequence == ended.sequence + 1, "the ledger hears so"
    assert serving(drain(3), overdue(600), drain(3)).state is READY
    assert serving(drain(3), cancel(3), drain(4)).state is DRAINING


def test_a_drain_that_is_cancelled_before_its_order_arrives_never_begins() -> None:
    lifecycle = serving(cancel(3), drain(3))
    assert (lifecycle.state, lifecycle.ended_drain) == (READY, EndedDrain(number=3, how=DrainEnding.CANCELLED))
    assert serving(cancel(3), cancel(3)).sequence == serving(cancel(3)).sequence


def test_a_report_tells_which_drain_ended_and_how() -> None:
    assert report_of(serving(drain(3))).ended_drain is None
    cancelled, expired = report_of(serving(drain(3), cancel(3))), report_of(serving(drain(4), overdue(600)))
    assert cancelled.ended_drain == EndedDrain(number=3, how=DrainEnding.CANCELLED)
    assert expired.ended_drain == EndedDrain(number=4, how=DrainEnding.EXPIRED)
    assert report_of(serving(drain(3), cancel(3), drain(5))).ended_drain == cancelled.ended_drain


def test_a_newer_drain_replaces_the_one_under_way_with_a_deadline_of_its_own() -> None:
    lifecycle = serving(drain(3, seconds=600), drain(5, seconds=600, at=300, cause="operator"))
    assert (number_of(lifecycle), lifecycle.cause, lifecycle.since) == (5, "operator", NOW + timedelta(seconds=300))
    assert deadline_seconds(lifecycle) == 600
    assert report_of(lifecycle).sequence == report_of(serving(drain(3))).sequence + 1


def test_idle_time_of_a_replaced_drain_does_not_count_for_the_new_one() -> None:
    assert serving(drain(3), idle(3), drain(5, at=300), overdue(900)).state is READY


def test_a_forced_drain_stays_forced_and_can_be_ordered_anew() -> None:
    forced = serving(drain(3, force=True), drain(5, at=300))
    assert (number_of(forced), forced.drain is not None and forced.drain.force) == (3, True)
    assert number_of(serving(drain(3, force=True), drain(5, at=300, force=True))) == 5


def test_a_slice_that_was_called_off_on_its_way_and_is_ready_serves() -> None:
    assert serving(drain(3, cause=DrainCause.NOT_NEEDED)).state is READY
    assert after(created(), drain(3, cause=DrainCause.NOT_NEEDED)).state is DELETING


COMMANDS = [
    made(number)
    for number in (1, 2, 3)
    for made in (drain, lambda number: drain(number, force=True), cancel, empty, idle, lambda number: idle(number, idle=False))
]


@given(st.lists(st.sampled_from([*COMMANDS, overdue(600)]), max_size=20))
def test_no_drain_begins_again_after_it_ended_and_none_gives_way_to_an_older_one(events: list[LifecycleEvent]) -> None:
    lifecycle = serving()
    for event in events:
        before, lifecycle = lifecycle, advance(lifecycle, event)
        if lifecycle.state is not DRAINING:
            continue
        number, ended = number_of(lifecycle), lifecycle.ended_drain
        assert number is not None
        assert ended is None or number > ended.number
        if before.drain is not None and not (lifecycle.drain and lifecycle.drain.force and not before.drain.force):
            assert number >= before.drain.number
    assert lifecycle.state in (READY, DRAINING, DELETING)
