"""Orders to drain slices for notices of their cloud: their deadlines, and which of them are carried out."""

from datetime import datetime
from typing import Any

from penstock.contract.orders import Orders
from penstock.contract.slices import ConfirmEmptyCommand, DrainCommand
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import Decided, DrainOrdered, SliceKept, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Drain
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, confirmed, later, ready, report

HOUR, TWO_HOURS = later(3600), later(7200)
IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)


def announced(until: datetime | None = HOUR, *, state: AutoscalerState | None = None, sequence: int = 4) -> AutoscalerState:
    """A READY slice, and what the cloud announces for it; None takes it back."""
    known = state or ready(cluster())
    notice = None if until is None else Notice(kind=NoticeKind.MAINTENANCE, until=until)
    piece = known.by_id.get("a")
    told = DrainTerms(cause=piece.drain.cause, number=piece.drain.number) if piece and piece.drain else None
    phase = SliceState.READY if told is None else SliceState.DRAINING
    return after_reports(known, report("a", phase, sequence, notice=notice, drain=told))


def decided(state: AutoscalerState, *, at: datetime = NOW, **drain: Any) -> AutoscalerState:
    """The state after a decision that drains the slice for its notice, or for something else."""
    given = {"slice_id": "a", "cause": DrainCause.NOTICE, "detail": "maintenance", "deadline": HOUR} | drain
    orders = Orders(at=at, config_revision=state.config_revision, drains=(Drain.model_validate(given),))
    return apply(state, Decided(at=at, orders=orders))


def idle() -> AutoscalerState:
    """A slice for which the cloud announces maintenance, and on which nothing runs."""
    return apply(announced(), UsageReported(at=NOW, usage={"a": IDLE}))


def terms(state: AutoscalerState) -> DrainTerms | None:
    return state.by_id["a"].drain


def test_a_notice_brings_its_own_deadline() -> None:
    state = decided(announced())
    found = DrainTerms(cause="notice", detail="maintenance", force=True, number=1, deadline=HOUR)
    assert terms(state) == found
    assert state.outbox == (DrainCommand(slice_id="a", terms=found),)
    (shown,) = status_of(state).drains
    assert (shown.cause, shown.force, shown.deadline) == ("notice", True, HOUR)


def test_a_deadline_is_never_earlier_than_the_order() -> None:
    late = decided(announced(), at=later(4000))
    assert terms(late) == DrainTerms(cause="notice", detail="maintenance", number=1, deadline=later(4000))


def test_other_drains_end_by_the_timeout_of_the_group() -> None:
    state = decided(idle(), cause=DrainCause.EXPIRY, deadline=None)
    assert terms(state) == DrainTerms(cause="expiry", detail="maintenance", number=1, deadline=later(600))


def test_a_notice_that_was_taken_back_since_the_decision_drains_nothing() -> None:
    assert terms(decided(announced(None, state=announced(), sequence=5))) is None
    assert terms(decided(ready(cluster()))) is None


def test_neither_an_operator_who_keeps_a_slice_nor_its_controller_holds_up_a_notice() -> None:
    kept = apply(announced(), SliceKept(at=NOW, slice_id="a", until=TWO_HOURS))
    undisturbed = apply(announced(), UsageReported(at=NOW, usage={"a": (HostUsage(do_not_disrupt=True),)}))
    for state in (kept, undisturbed):
        assert terms(decided(state)) is not None
        assert terms(decided(state, cause=DrainCause.EXPIRY, deadline=None)) is None


def test_a_notice_tightens_a_drain_that_is_under_way_for_less() -> None:
    for cause in (DrainCause.IDLE, DrainCause.EXPIRY, DrainCause.PRESSURE):
        draining = announced(later(60), state=decided(idle(), cause=cause, deadline=None), sequence=6)
        state = decided(draining, deadline=later(60))
        assert terms(state) == DrainTerms(cause="notice", detail="maintenance", number=2, deadline=later(60))
        assert isinstance(state.outbox[-1], DrainCommand)
    by_hand = apply(announced(), DrainOrdered(at=NOW, slice_id="a", terms=DrainTerms(cause="noisy fan")))
    assert terms(decided(by_hand)) == DrainTerms(cause="notice", detail="maintenance", number=2, deadline=HOUR)


def test_a_forced_drain_and_one_that_is_confirmed_empty_are_left_as_they_are() -> None:
    forced = apply(announced(), DrainOrdered(at=NOW, slice_id="a", terms=DrainTerms(cause="noisy fan", force=True)))
    assert terms(decided(forced)) == terms(forced)
    empty = apply(decided(announced(), cause=DrainCause.IDLE, deadline=None), confirmed("a"))
    assert decided(empty).outbox == empty.outbox


def test_no_drain_under_way_gives_way_to_another_cause() -> None:
    state = decided(announced())
    for cause in (DrainCause.IDLE, DrainCause.EXPIRY):
        assert terms(decided(state, cause=cause, deadline=None)) == terms(state)


def test_an_order_for_a_notice_that_drains_the_slice_already_is_carried_out_once() -> None:
    state = decided(announced())
    assert decided(state, at=later(1)).outbox == state.outbox
    late = decided(announced(), at=later(4000))
    for seconds in (4001, 9000):
        assert decided(late, at=later(seconds)).outbox == late.outbox, "its moment has passed, and it drains since"


def test_a_drain_follows_a_notice_that_is_moved_either_way() -> None:
    for until in (later(60), TWO_HOURS):
        moved = announced(until, state=decided(announced()), sequence=6)
        state = decided(moved, at=later(1), deadline=until)
        assert terms(state) == DrainTerms(cause="notice", detail="maintenance", number=2, deadline=until)
        assert decided(state, at=later(2), deadline=until).outbox == state.outbox


def test_a_slice_that_is_deleted_is_not_drained_for_a_notice() -> None:
    deleting = after_reports(announced(), report("a", SliceState.DELETING, 5, notice=announced().by_id["a"].notice))
    assert terms(decided(deleting)) is None


def test_an_operators_drain_does_not_loosen_one_for_a_notice() -> None:
    state = decided(announced())
    assert terms(apply(state, DrainOrdered(at=NOW, slice_id="a", terms=DrainTerms(cause="noisy fan")))) == terms(state)


def test_a_slice_that_drains_for_a_notice_goes_with_the_first_idle_report() -> None:
    state = apply(decided(announced()), UsageReported(at=NOW, usage={"a": BUSY}))
    assert not state.by_id["a"].confirmed_empty
    state = apply(state, UsageReported(at=later(1), usage={"a": IDLE}))
    assert state.by_id["a"].confirmed_empty
    assert state.outbox[-1] == ConfirmEmptyCommand(slice_id="a", number=1)


def test_the_status_lists_notices_the_soonest_first_and_none_of_slices_that_are_deleted() -> None:
    state = replay([], announced())
    for name, until in (("b", later(60)), ("c", later(60)), ("d", TWO_HOURS)):
        notice = Notice(kind=NoticeKind.PREEMPTION, until=until)
        phase = SliceState.DELETING if name == "c" else SliceState.READY
        state = after_reports(ready(state, name), report(name, phase, 4, notice=notice))
    status = status_of(state)
    assert [(notice.slice_id, notice.kind, notice.until) for notice in status.notices] == [
        ("b", NoticeKind.PREEMPTION, later(60)),
        ("a", NoticeKind.MAINTENANCE, HOUR),
        ("d", NoticeKind.PREEMPTION, TWO_HOURS),
    ]
    assert status.notices_in_all == 3
