"""Consolidation in the state: what receivers keep, orders that are dropped, and whose word on busy slices is stale."""

from typing import Any

from penstock.contract.orders import Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.state.apply import apply
from penstock.core.state.events import Decided
from penstock.core.state.sources import stale_at
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Drain
from penstock.model.resources import Resources
from penstock.model.slices import DrainCause, HostState, HostUsage, SliceUsage
from tests.core.state.ledgers import cluster, drains, later, ready
from tests.core.state.test_sources import IDLE, says

STALE = 1800.0
"""The default of `usage_stale_after`, in seconds."""
LOAD: SliceUsage = (HostUsage(tasks=("t",), reserved=Resources(cpu=1)),)


def busy(*, consolidation: bool = True) -> AutoscalerState:
    """Two READY slices with little work."""
    more: dict[str, Any] = {"consolidation": {}} if consolidation else {}
    state = ready(ready(cluster({"name": "g", "price_per_hour": 2}, **more), "a"), "b")
    return apply(state, says(1, epoch=1, a=LOAD, b=LOAD))


def emptied(state: AutoscalerState, *receivers: str, at: float = 5) -> AutoscalerState:
    """The state after a decision to empty `a`."""
    drain = Drain(slice_id="a", cause=DrainCause.CONSOLIDATION, detail="saves 2.00 an hour", receivers=receivers)
    orders = Orders(at=later(at), config_revision=state.config_revision, drains=(drain,))
    return apply(state, Decided(at=later(at), orders=orders))


def test_a_slice_that_will_receive_load_settles_from_the_order_on() -> None:
    state = emptied(busy(), "b")
    assert set(drains(state)) == {"a"}
    assert (state.by_id["a"].received_at, state.by_id["b"].received_at) == (None, later(5))
    assert snapshot_of(state).snapshot.slices[1].received_at == later(5)


def test_nothing_is_received_if_the_drain_does_not_begin() -> None:
    gang = (HostUsage(tasks=("t",), gangs=("pretrain",), reserved=Resources(cpu=1)),)
    for usage in (gang, (HostUsage(state=HostState.BUSY),), (HostUsage(tasks=("t",)),)):
        state = emptied(apply(busy(), says(2, epoch=1, a=usage)), "b")
        assert drains(state) == {}, "what runs there now cannot be named, or is a gang"
        assert state.by_id["b"].received_at is None


def test_a_receiver_that_is_gone_is_no_fault() -> None:
    assert set(drains(emptied(busy(), "gone", "b"))) == {"a"}


def test_with_consolidation_the_word_on_busy_slices_is_stale_at_some_time_too() -> None:
    assert stale_at(busy(consolidation=False)) == {}
    assert stale_at(busy()) == {"a": later(1 + STALE), "b": later(1 + STALE)}
    assert stale_at(apply(busy(), says(60, epoch=1))) == {"a": later(60 + STALE), "b": later(60 + STALE)}


def test_a_source_that_was_silent_makes_its_slices_count_again_by_a_heartbeat() -> None:
    for consolidation in (True, False):
        state = busy(consolidation=consolidation)
        on_time = apply(state, says(STALE - 1, epoch=1))
        late = apply(state, says(STALE + 10, epoch=1))
        assert on_time.input_version == state.input_version
        assert (late.input_version > state.input_version) is consolidation


def test_idle_slices_are_judged_as_before() -> None:
    state = apply(busy(consolidation=False), says(2, epoch=1, a=IDLE))
    assert stale_at(state).keys() == {"a"}
