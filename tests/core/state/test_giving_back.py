"""Giving back over time: what one decision leaves in the state is what the next one goes by."""

from datetime import datetime

from penstock.core.answers.evaluate import evaluate
from penstock.core.state.apply import apply
from penstock.core.state.events import ConfigApplied, Decided, DemandSnapshot, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.failures import FailureKind
from penstock.model.slices import DrainCause, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, drains, failed, later, ordered, ready, report, states

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
IDLE_TIMEOUT, DRAIN, PATIENCE = 600, 600, 600
"""The defaults of a group and of a cluster, in seconds."""


def used(state: AutoscalerState, moment: datetime = NOW, /, **words: tuple[HostUsage, ...]) -> AutoscalerState:
    return apply(state, UsageReported(at=moment, usage=dict(words)))


def decided(state: AutoscalerState, at: float) -> AutoscalerState:
    """The state after an evaluation at a moment, carried out."""
    orders = evaluate(state, now=later(at), chance=lambda: f"{int(at):08x}").orders
    return apply(state, Decided(at=later(at), orders=orders))


def gang(state: AutoscalerState, tasks: int) -> AutoscalerState:
    """The state with one gang as its demand, each task of which needs a slice."""
    wanted = {"resources": {"cpu": 4}, "gang": {"id": "gang", "size": tasks}}
    demand = build_demand([Task.model_validate({"id": f"t{n}"} | wanted) for n in range(tasks)])
    return apply(state, DemandSnapshot(at=state.now, epoch=1, revision=1, demand=demand))


def test_a_drain_that_nobody_confirmed_is_repeated_only_after_newer_idle_news() -> None:
    state = decided(used(ready(cluster()), a=IDLE), IDLE_TIMEOUT)
    assert set(drains(state)) == {"a"}
    over = later(IDLE_TIMEOUT + DRAIN)
    state = after_reports(state, report("a", SliceState.DRAINING, 4, at=later(IDLE_TIMEOUT)), at=later(IDLE_TIMEOUT))
    state = after_reports(state, report("a", SliceState.READY, 5, at=over), at=over)
    silent = decided(state, IDLE_TIMEOUT + DRAIN + 100 * IDLE_TIMEOUT)
    assert drains(silent) == {}
    heard = used(state, later(1300), a=IDLE)
    assert drains(decided(heard, 1300 + IDLE_TIMEOUT - 1)) == {}
    assert set(drains(decided(heard, 1300 + IDLE_TIMEOUT))) == {"a"}


def test_a_slice_of_the_minimum_that_waits_for_hours_is_neither_called_off_nor_ordered_again() -> None:
    state = decided(cluster({"name": "g", "min_slices": 1, "patience": "10m"}), 0)
    ordered = list(states(state))
    for at in range(0, 4 * 3600, 300):
        state = decided(state, at)
    assert (list(states(state)), drains(state)) == (ordered, {})


def test_the_minimum_takes_back_its_slice_that_turned_busy_while_it_drained() -> None:
    state = decided(used(ready(cluster()), a=IDLE), IDLE_TIMEOUT)
    state = after_reports(state, report("a", SliceState.DRAINING, 4, at=later(IDLE_TIMEOUT)), at=later(IDLE_TIMEOUT))
    state = used(state, later(610), a=BUSY)
    floor = apply(state, ConfigApplied(at=later(620), config=config({"name": "g", "min_slices": 1})))
    after = decided(floor, 630)
    assert (list(states(after)), drains(after)) == (["a"], {})
    assert list(states(decided(after, 640))) == ["a"], "it counts although it has not reported READY yet"


def test_slices_of_an_incomplete_gang_are_held_for_patience_across_continue_as_new() -> None:
    state = used(ready(ready(cluster(), "a"), "b"), a=IDLE, b=IDLE)
    state = failed(ordered(state, "x"), "x", FailureKind.INVALID, at=later(590), ordered_at=later(580))
    assert state.blocks, "the group is disabled, so the gang waits for its third slice"
    state = gang(used(state, later(595)), 3)
    state = decided(state, 600)
    assert drains(state) == {}, "idle for the timeout, and held"
    carried = AutoscalerState.model_validate_json(state.model_dump_json())
    orders = evaluate(carried, now=later(700), chance=lambda: "0badcafe").orders
    assert (orders.drains, orders.next_change_at) == ((), later(600 + PATIENCE))
    released = decided(decided(carried, 700), 600 + PATIENCE)
    assert {slice_id: terms.cause for slice_id, terms in drains(released).items()} == dict.fromkeys("ab", DrainCause.IDLE)
