"""Orders to drain slices that changed after the decision saw them, and orders that reach a slice too late."""

from datetime import datetime

from penstock.contract.orders import Orders
from penstock.contract.slices import CancelDrainCommand
from penstock.core.answers.evaluate import evaluate
from penstock.core.slices.lifecycle import CommandReceived, advance, report_of
from penstock.core.state.apply import apply
from penstock.core.state.events import ConfigApplied, Decided, DrainOrdered, SourceForgotten, UsageReported
from penstock.core.state.specs import initial_lifecycle
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Drain
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState, SliceUsage
from tests.core.state.ledgers import NOW, after_reports, cluster, config, drains, later, ordered, ready, report
from tests.core.state.test_joining import LATE, two
from tests.core.state.test_sources import running, says

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
SHRUNK = ConfigApplied(at=NOW, config=config({"name": "g", "max_slices": 0}))


def named(state: AutoscalerState, at: datetime, **usage: SliceUsage) -> AutoscalerState:
    return apply(state, UsageReported(at=at, usage=dict(usage)))


def orders_of(state: AutoscalerState, at: datetime) -> Decided:
    """What an evaluation of the state orders, to be carried out later."""
    return Decided(at=at, orders=evaluate(state, now=at, chance=lambda: "0badcafe").orders)


def called_off(state: AutoscalerState, slice_id: str, cause: DrainCause) -> Decided:
    orders = Orders(at=NOW, config_revision=state.config_revision, drains=(Drain(slice_id=slice_id, cause=cause),))
    return Decided(at=NOW, orders=orders)


def test_a_slice_above_the_maximum_that_turned_busy_since_the_decision_stays() -> None:
    state = apply(named(ready(cluster()), NOW, a=IDLE), SHRUNK)
    decided = orders_of(state, later(1))
    assert set(drains(apply(state, decided))) == {"a"}
    assert drains(apply(named(state, later(2), a=BUSY), decided)) == {}


def test_a_slice_that_was_called_off_on_its_way_and_became_ready_stays() -> None:
    for cause in (DrainCause.NOT_NEEDED, DrainCause.ABOVE_MAXIMUM):
        state = ordered(cluster(), "a")
        assert set(drains(apply(state, called_off(state, "a", cause)))) == {"a"}
        assert drains(apply(ready(cluster()), called_off(state, "a", cause))) == {}


def test_a_slice_that_was_named_since_the_decision_is_not_given_up() -> None:
    state = two(says(11, a=running()), says(LATE), unclaimed_after="5m")
    decided = orders_of(state, later(LATE + 300))
    assert drains(apply(state, decided))["b"].cause == DrainCause.UNCLAIMED
    for usage in (BUSY, IDLE):
        assert drains(apply(named(state, later(LATE + 299), b=usage), decided)) == {}


def test_only_slices_on_their_way_are_remembered_as_not_needed() -> None:
    state = ready(cluster())
    orders = Orders(at=NOW, config_revision=state.config_revision, unneeded=("a",))
    assert apply(state, Decided(at=NOW, orders=orders)).by_id["a"].unneeded_since is None


def test_a_slice_that_is_ready_before_it_hears_that_it_is_called_off_serves_and_the_ledger_agrees() -> None:
    """Whichever arrives first, the slice and the ledger end up in the same state."""
    state = ordered(cluster(), "a")
    state = apply(state, called_off(state, "a", DrainCause.NOT_NEEDED))
    terms = state.by_id["a"].drain
    assert terms is not None
    started = initial_lifecycle(state, state.by_id["a"].changed(drain=None), NOW)
    assert started is not None

    (command,) = state.outbox
    assert advance(started, CommandReceived(NOW, command)).state is SliceState.DELETING

    serving = started.model_copy(update={"state": SliceState.READY, "sequence": 3})
    answered = advance(serving, CommandReceived(NOW, command))
    assert (answered.state, answered.drain) == (SliceState.READY, None)
    state = after_reports(state, report_of(answered))
    assert (state.by_id["a"].state, drains(state)) == (SliceState.READY, {})


def test_an_operators_drain_of_a_slice_on_its_way_goes_on_when_it_becomes_ready() -> None:
    terms = DrainTerms(cause="operator")
    state = apply(ordered(cluster(), "a"), DrainOrdered(at=NOW, slice_id="a", terms=terms))
    assert drains(after_reports(state, report("a", SliceState.READY, 3))) == {"a": terms}
    assert not any(isinstance(command, CancelDrainCommand) for command in state.outbox)


def with_replacement(usage: SliceUsage) -> AutoscalerState:
    """A READY slice with this usage, and another READY one that is there to replace it."""
    state = named(ready(cluster()), NOW, a=usage)
    return after_reports(state, report("new", SliceState.READY, 4).model_copy(update={"replaces": "a"}))


def test_a_busy_slice_whose_replacement_was_lost_since_the_decision_stays() -> None:
    for cause in (DrainCause.DEGRADED, DrainCause.EXPIRY, DrainCause.DRIFT, DrainCause.RETURN_HOME):
        state = with_replacement(BUSY)
        assert set(drains(apply(state, called_off(state, "a", cause)))) == {"a"}
        lost = after_reports(state, report("new", SliceState.DELETING, 5))
        assert drains(apply(lost, called_off(lost, "a", cause))) == {}
        idle = named(lost, later(1), a=IDLE)
        assert set(drains(apply(idle, called_off(idle, "a", cause)))) == {"a"}


def test_a_slice_of_which_nobody_says_any_more_that_it_is_degraded_is_not() -> None:
    state = named(ready(cluster()), NOW, a=(HostUsage(state=HostState.DEGRADED),))
    assert state.by_id["a"].degraded_since == NOW
    assert apply(state, SourceForgotten(at=later(1), source="default")).by_id["a"].degraded_since is None
    assert named(state, later(1), a=BUSY).by_id["a"].degraded_since is None
