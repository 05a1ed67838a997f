"""Numbers of drains: none is used twice, and what is said about one drain does not count for another."""

import json
from datetime import timedelta
from typing import Any

from penstock.contract.orders import Orders
from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    DrainCommand,
    DrainEnding,
    EndedDrain,
    IdleCommand,
    SliceReport,
)
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.status import status_of
from penstock.core.slices.lifecycle import CommandReceived, advance, report_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    ConfigApplied,
    Decided,
    DrainCancelled,
    DrainOrdered,
    RecoveryBegan,
    UsageReported,
)
from penstock.core.state.inbox import Received, fold
from penstock.core.state.specs import initial_lifecycle
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Drain
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, confirmed, drains, later, ready, report

TERMS = DrainTerms(cause="operator")
FORCED = DrainTerms(cause="operator", force=True)
IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
IDLE_TIMEOUT, DRAIN = 600, 600
"""The defaults of a group, in seconds."""


def number(state: AutoscalerState, slice_id: str = "a") -> int:
    """The number of the next drain that an operator orders."""
    terms = apply(state, DrainOrdered(at=state.now, slice_id=slice_id, terms=TERMS)).by_id[slice_id].drain
    assert terms is not None
    return terms.number


def test_drains_are_numbered_from_one_in_the_order_in_which_they_are_ordered() -> None:
    state = ready(ready(cluster(), "a"), "b")
    assert number(state) == 1
    assert number(apply(state, DrainOrdered(at=NOW, slice_id="a", terms=TERMS)), "b") == 2


def test_a_slice_that_tells_of_its_drain_raises_the_next_number() -> None:
    terms = DrainTerms(cause="operator", number=7)
    state = after_reports(ready(cluster()), report("b", SliceState.DRAINING, 4, drain=terms))
    assert number(state) == 8


def test_the_first_start_of_a_cluster_numbers_its_drains_from_one() -> None:
    state = apply(cluster(), RecoveryBegan(at=NOW, id="start-1", reason="first start"))
    assert number(ready(state.model_copy(update={"recovery": None}))) == 1


def test_after_a_reset_no_number_of_the_lost_time_is_used_again() -> None:
    state = ready(cluster())
    lost = replay([DrainOrdered(at=later(n), slice_id="a", terms=TERMS) for n in range(500)], state)
    reset = apply(state, RecoveryBegan(at=later(500), id="reset-1", reason="reset", run_id="run"))
    assert number(reset) > lost.drains_ordered
    again = apply(reset, RecoveryBegan(at=later(501), id="reset-2", reason="reset", run_id="run"))
    assert number(again) > number(reset)


def test_an_autoscaler_that_finds_slices_of_another_uses_none_of_its_numbers() -> None:
    state = apply(cluster(), RecoveryBegan(at=NOW, id="start-1", reason="first start"))
    found = after_reports(state, report("a", SliceState.READY, 4))
    assert number(found) > 1_000_000


# --- confirmations ---


def confirming(state: AutoscalerState, number: int | None) -> AutoscalerState:
    """The controller confirms a drain, by its number or without."""
    message = "a" if number is None else {"slice_id": "a", "number": number}
    return fold(state, [Received("confirm_drain", json.dumps(message).encode(), state.now)])


def drained_twice() -> AutoscalerState:
    """The first drain was cancelled, the second is under way."""
    orders: list[AnyEvent] = [DrainOrdered(at=NOW, slice_id="a", terms=TERMS), DrainCancelled(at=NOW, slice_id="a")]
    return replay([*orders, DrainOrdered(at=NOW, slice_id="a", terms=TERMS)], ready(cluster()))


def test_a_late_confirmation_of_an_older_drain_is_refused_and_the_slice_goes_on_draining() -> None:
    state = confirming(drained_twice(), 1)
    assert not state.by_id["a"].confirmed_empty
    assert not any(isinstance(command, ConfirmEmptyCommand) for command in state.outbox)
    assert "drain 1 of 'a' is over, and drain 2 is under way" in state.rejected[-1].problem


def test_a_confirmation_by_the_number_of_the_drain_under_way_counts_and_so_does_one_without_a_number() -> None:
    for number in (2, None):
        state = confirming(drained_twice(), number)
        assert state.outbox[-1] == ConfirmEmptyCommand(slice_id="a", number=2)
        assert state.rejected == ()


def test_the_status_gives_the_number_that_confirms_a_drain() -> None:
    state = drained_twice()
    (shown,) = status_of(state).drains
    assert (shown.number, shown.cause, shown.deadline) == (2, "operator", NOW + timedelta(seconds=DRAIN))
    assert confirming(state, shown.number).by_id["a"].confirmed_empty


def test_confirmations_of_one_batch_count_each_for_their_drain() -> None:
    state = apply(ready(drained_twice(), "b"), DrainOrdered(at=NOW, slice_id="b", terms=TERMS))
    messages = [{"slice_id": "a", "number": 1}, {"slice_id": "b", "number": 3}, {"slice_id": "a", "number": 2}]
    state = fold(state, [Received("confirm_drain", json.dumps(each).encode(), NOW) for each in messages])
    assert [piece.id for piece in state.slices if piece.confirmed_empty] == ["a", "b"]
    assert state.rejected_in_all == 1


# --- a drain over another ---


def idle_drain() -> AutoscalerState:
    """A slice that a decision drains for idleness."""
    state = apply(ready(cluster()), UsageReported(at=NOW, usage={"a": IDLE}))
    orders = evaluate(state, now=later(IDLE_TIMEOUT), chance=str).orders
    return apply(state, Decided(at=later(IDLE_TIMEOUT), orders=orders))


def test_an_operators_drain_over_another_gives_ledger_and_slice_the_same_terms() -> None:
    for terms in (TERMS, FORCED):
        state = idle_drain()
        lifecycle = initial_lifecycle(state, state.by_id["a"], later(IDLE_TIMEOUT))
        assert lifecycle is not None
        at = later(IDLE_TIMEOUT + 300)
        state = apply(state, DrainOrdered(at=at, slice_id="a", terms=terms))
        for command in state.outbox:
            lifecycle = advance(lifecycle, CommandReceived(at, command))
        known = state.by_id["a"].drain
        assert known is not None
        assert (known.number, known.deadline) == (2, at + timedelta(seconds=DRAIN))
        assert lifecycle.drain == known
        state = after_reports(state, report_of(lifecycle))
        assert state.by_id["a"].drain == known


def test_idle_words_count_for_the_newest_drain_only() -> None:
    state = apply(idle_drain(), UsageReported(at=later(IDLE_TIMEOUT + 1), usage={}))
    assert state.outbox[-1] == IdleCommand(slice_id="a", idle=True, number=1)
    state = apply(state, DrainOrdered(at=later(IDLE_TIMEOUT + 2), slice_id="a", terms=TERMS))
    state = apply(state, UsageReported(at=later(IDLE_TIMEOUT + 3), usage={}))
    assert state.outbox[-1] == IdleCommand(slice_id="a", idle=True, number=2)


def test_every_way_to_take_a_drain_back_names_it() -> None:
    removed = apply(idle_drain(), ConfigApplied(at=later(IDLE_TIMEOUT + 1), config=config({"name": "g", "min_slices": 1})))
    orders = evaluate(removed, now=later(IDLE_TIMEOUT + 2), chance=str).orders
    for event in (Decided(at=later(IDLE_TIMEOUT + 2), orders=orders), DrainCancelled(at=later(IDLE_TIMEOUT + 2), slice_id="a")):
        assert apply(removed, event).outbox[-1] == CancelDrainCommand(slice_id="a", number=1)


def test_drains_of_a_deleted_cluster_are_numbered_too_and_have_deadlines() -> None:
    state = apply(ready(idle_drain(), "b"), Closed(at=later(IDLE_TIMEOUT + 5)))
    end = later(IDLE_TIMEOUT + 5 + DRAIN)
    assert [(drain.number, drain.deadline) for drain in status_of(state).drains] == [(2, end), (3, end)]
    assert confirming(state, 2).by_id["a"].confirmed_empty
    found = after_reports(state, report("c", SliceState.READY, 4), at=later(IDLE_TIMEOUT + 6))
    assert found.by_id["c"].drain == DrainTerms(
        cause="the cluster is deleted", force=True, number=4, deadline=later(IDLE_TIMEOUT + 6 + DRAIN)
    )
    again = after_reports(
        apply(cluster(), Closed(at=NOW)), report("c", SliceState.DRAINING, 4, drain=found.by_id["c"].drain), at=later(900)
    )
    assert again.by_id["c"].drain == found.by_id["c"].drain, "a deadline that a slice has already is not put off"


def test_deleting_a_cluster_once_more_puts_no_deadline_off() -> None:
    state = apply(ready(cluster()), Closed(at=NOW))
    again = apply(state, Closed(at=later(300)))
    assert again.by_id["a"].drain == state.by_id["a"].drain
    assert again.outbox[-1] == DrainCommand(slice_id="a", terms=state.by_id["a"].drain)


def test_what_a_decision_says_beside_the_cause_of_a_drain_is_kept_with_it() -> None:
    state = ready(cluster())
    drain = Drain(slice_id="a", cause=DrainCause.CONSOLIDATION, detail="saves 4.00 an hour")
    orders = Orders(at=NOW, config_revision=state.config_revision, drains=(drain,))
    terms = apply(state, Decided(at=NOW, orders=orders)).by_id["a"].drain
    assert terms is not None
    assert (terms.cause, terms.detail) == ("consolidation", "saves 4.00 an hour")


# --- which drain ended, and how ---


def ended(state: SliceState, sequence: int, number: int, *, at: float = 5, how: DrainEnding, **more: Any) -> SliceReport:
    return report("a", state, sequence, at=later(at), ended_drain=EndedDrain(number=number, how=how), **more)


def test_the_end_of_an_older_drain_leaves_a_newer_one_that_the_slice_has_not_heard_of() -> None:
    state = apply(drained_twice(), UsageReported(at=later(1), usage={"a": IDLE}))
    for how in DrainEnding:
        after = after_reports(state, ended(SliceState.READY, 5, 1, how=how))
        assert drains(after) == {"a": TERMS}
        assert after.by_id["a"].idle_since == later(1), "the slice was told so, in the newer drain"
        assert drains(after_reports(after, ended(SliceState.READY, 7, 2, at=9, how=how))) == {}


def test_a_drain_that_the_slice_calls_over_is_over_although_it_never_left_ready() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    refused = ended(SliceState.READY, 4, 1, at=0, how=DrainEnding.CANCELLED)
    after = after_reports(state, refused)
    assert drains(after) == {}
    assert after.input_version > state.input_version


def test_the_ledger_knows_which_slices_nobody_confirmed_in_time() -> None:
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    expired = after_reports(state, ended(SliceState.READY, 6, 1, at=600, how=DrainEnding.EXPIRED))
    assert expired.by_id["a"].unconfirmed_at == later(600)
    cancelled = after_reports(state, ended(SliceState.READY, 6, 1, at=600, how=DrainEnding.CANCELLED))
    assert cancelled.by_id["a"].unconfirmed_at is None


def test_after_a_reset_the_ledger_takes_the_drain_that_the_slice_tells_of() -> None:
    """The reset forgot the end of drain 1, and drain 9."""
    told = DrainTerms(cause=DrainCause.IDLE, number=9)
    state = apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS))
    returned = apply(state, DrainCancelled(at=NOW, slice_id="a"))
    for before in (state, after_reports(returned, report("a", SliceState.DRAINING, 4, at=later(1), drain=TERMS))):
        reset = apply(before, RecoveryBegan(at=later(500), id="reset-1", reason="reset", run_id="run"))
        reset = after_reports(reset, ended(SliceState.DRAINING, 9, 1, how=DrainEnding.CANCELLED, drain=told))
        assert reset.by_id["a"].drain == told
        assert confirming(reset, 9).outbox[-1] == ConfirmEmptyCommand(slice_id="a", number=9)


def test_after_a_reset_only_idle_news_counts_at_the_deadline() -> None:
    """What the slice was told in the lost time is not known any more: its hosts may be busy since."""
    state = apply(apply(ready(cluster()), DrainOrdered(at=NOW, slice_id="a", terms=TERMS)), says_idle(1))
    reset = apply(state, RecoveryBegan(at=later(500), id="reset-1", reason="reset", run_id="run"))
    assert reset.outbox[-1] == IdleCommand(slice_id="a", idle=False, number=1)
    assert reset.by_id["a"].idle_since is None
    told = DrainTerms(cause=DrainCause.IDLE, number=9)
    found = after_reports(reset, report("b", SliceState.DRAINING, 4, drain=told))
    assert found.outbox[-1] == IdleCommand(slice_id="b", idle=False, number=9)


def says_idle(seconds: float) -> UsageReported:
    return UsageReported(at=later(seconds), usage={"a": IDLE})


def test_a_confirmation_that_counted_is_not_repeated_to_the_slice() -> None:
    state = apply(apply(drained_twice(), confirmed("a", number=2)), confirmed("a", number=2))
    assert sum(isinstance(command, ConfirmEmptyCommand) for command in state.outbox) == 1


def test_orders_carry_the_terms_that_the_ledger_has() -> None:
    state = idle_drain()
    (command,) = state.outbox
    assert command == DrainCommand(slice_id="a", terms=state.by_id["a"].drain)
