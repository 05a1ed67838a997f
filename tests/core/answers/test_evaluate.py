"""The pure evaluation: slice ids, the limit of launches, the next evaluation, and drains."""

from datetime import timedelta
from itertools import count

from penstock.contract.orders import Orders
from penstock.contract.slices import DrainCommand
from penstock.core import apply, evaluate
from penstock.core.answers import evaluate as module
from penstock.core.answers.evaluate import Evaluation
from penstock.core.state.events import CapacityRequested, Decided
from penstock.core.state.state import AutoscalerState, Changes
from penstock.model.decision import Drain
from penstock.model.slices import DrainTerms, StandingItem, StandingRequest
from tests.core.state.ledgers import NOW, cluster, later, ready


def evaluated(state: AutoscalerState, seconds: float = 0) -> Evaluation:
    """An evaluation with sequential slice ids."""
    numbers = count()
    return evaluate(state, now=later(seconds), chance=lambda: f"{next(numbers):08x}")


def wanting(slices: int, **group: object) -> AutoscalerState:
    """A cluster with a standing request for that many slices."""
    request = StandingRequest(owner="a", wants=(StandingItem.model_validate({"resources": {"cpu": 4}, "count": slices}),))
    return apply(cluster({"name": "g", "max_slices": 9000} | group), CapacityRequested(at=NOW, request=request))


def test_the_same_state_time_and_chance_give_the_same_orders() -> None:
    state = wanting(2)

    assert evaluated(state) == evaluated(state)
    assert [launch.slice_id for launch in evaluated(state).orders.launches] == [
        "g-260101-000000-00000000",
        "g-260101-000000-00000001",
    ]


def test_an_evaluation_orders_as_many_slices_as_one_message_holds_and_the_next_is_due_immediately() -> None:
    state = wanting(module.MOST_LAUNCHES + 5)
    first = evaluated(state)
    after = apply(state, Decided(at=NOW, orders=first.orders))
    second = evaluated(after)

    assert (len(first.orders.launches), first.orders.next_change_at) == (module.MOST_LAUNCHES, NOW)
    assert len(second.orders.launches) == 5


def test_the_next_evaluation_is_due_at_the_end_of_patience_of_the_launched_slices() -> None:
    state = wanting(1, patience="90s")
    orders = evaluated(state).orders
    after = apply(state, Decided(at=NOW, orders=orders))

    assert orders.next_change_at == NOW + timedelta(seconds=90)
    assert not evaluated(after, 89).orders.launches
    assert evaluated(after, 90).orders.launches


def test_drains_are_carried_out_as_ordered() -> None:
    state = ready(cluster(), "a")
    orders = Orders(
        at=NOW,
        input_version=state.input_version,
        config_revision=state.config_revision,
        drains=(Drain(slice_id="a", cause="idle"), Drain(slice_id="unknown", cause="idle")),
    )
    after = apply(state, Decided(at=NOW, orders=orders))

    assert {piece.id: piece.drain for piece in after.slices} == {"a": DrainTerms(cause="idle")}
    assert after.outbox == (DrainCommand(slice_id="a", terms=DrainTerms(cause="idle")),)


def test_changes_name_every_field_of_the_state_and_no_other() -> None:
    assert Changes.__annotations__.keys() - {"matters"} == AutoscalerState.model_fields.keys()
