"""Messages of a source: deltas that add up, a snapshot where they cannot, large demand in parts."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.demand_messages import DemandMessages, as_demand, in_parts
from penstock.contract.messages import DemandMessage, size_of
from penstock.core.state.events import DemandDelta
from penstock.core.state.revisions import apply_delta, apply_snapshot
from penstock.core.state.signals import demand_event
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.demand import Demand
from penstock.model.demand_builder import joined
from tests.core.state.test_signals import NOW


def singles(*names: str, cpu: int = 1) -> list[dict[str, Any]]:
    return [{"id": name, "resources": {"cpu": cpu}} for name in names]


def member(name: str, gang: str, size: int) -> dict[str, Any]:
    return {"id": name, "resources": {"cpu": 1}, "gang": {"id": gang, "size": size}}


class Receiver:
    """Applies the messages of one source, as an autoscaler does."""

    def __init__(self) -> None:
        self.source = SourceDemand()

    def take(self, messages: tuple[DemandMessage, ...]) -> None:
        for message in messages:
            event = demand_event(AutoscalerState(), DemandMessage.model_validate_json(message.model_dump_json()), NOW)
            if isinstance(event, DemandDelta):
                self.source = apply_delta(self.source, event)
            else:
                self.source = apply_snapshot(self.source, event)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (singles("a", "b", "c", "d"), singles("a", "c", "d"), "delta"),
        (singles("a", "b", "c", "d"), singles("b", "c", "d", "e"), "delta"),
        (singles("a", "b", "c", "d"), singles("a", "b", "c", "d"), "delta"),
        (singles("a", "b", "c", "d"), singles("d", "c", "b", "a"), "snapshot"),
        (singles("a", "b", "c", "d"), singles("e", "a", "b", "c", "d"), "delta"),
        (singles("a", "b", "c", "d"), [*singles("a", "b", "c"), *singles("d", cpu=2)], "delta"),
        (singles("a", "b"), singles("c", "d"), "snapshot"),
        (singles("a", "b"), [], "snapshot"),
        (
            [member("g1", "g", 3), *singles("a", "b", "c")],
            [member("g1", "g", 3), member("g2", "g", 3), *singles("a", "b", "c")],
            "delta",
        ),
    ],
)
def test_the_receiver_holds_the_demand_that_was_sent(before: list[Any], after: list[Any], kind: str) -> None:
    outbox, receiver = DemandMessages("default", 7), Receiver()
    for tasks in (before, after):
        demand = as_demand(tasks)
        messages = outbox.messages(demand)
        receiver.take(messages)
        outbox.delivered(demand)
    assert ("delta" if messages[0].base is not None else "snapshot") == kind
    assert receiver.source.resync_needed is None
    assert receiver.source.stamp == outbox.stamp == (7, 2)
    assert joined([receiver.source.demand, Demand()]) == joined([as_demand(after), Demand()])


names = st.lists(st.integers(0, 14), max_size=14, unique=True)
written = st.builds(
    lambda numbers, cpus, ganged: [
        member(f"t{n}", f"g{n % 3}", 6) if n % 5 in ganged else {"id": f"t{n}", "resources": {"cpu": 1 + (n in cpus)}}
        for n in numbers
    ],
    names,
    st.sets(st.integers(0, 14), max_size=3),
    st.sets(st.integers(0, 4), max_size=1),
)


@given(st.lists(written, min_size=2, max_size=6))
def test_whatever_a_controller_wants_next_the_receiver_holds_it(lists: list[list[dict[str, Any]]]) -> None:
    outbox, receiver = DemandMessages("default", 7), Receiver()
    for tasks in lists:
        demand = as_demand(tasks)
        receiver.take(outbox.messages(demand))
        outbox.delivered(demand)
        assert receiver.source.resync_needed is None
        assert joined([receiver.source.demand, Demand()]) == joined([demand, Demand()])


@pytest.mark.parametrize("positions", [(0,), (0, 0), (1, 0), (0, 9)])
def test_positions_that_do_not_fit_ask_for_a_snapshot(positions: tuple[int, ...]) -> None:
    receiver = Receiver()
    receiver.take((DemandMessage(epoch=1, revision=1, tasks=tuple(singles("a", "b"))),))
    added = tuple(singles("c", "d"))
    receiver.take((DemandMessage(epoch=1, base=1, revision=2, tasks=added, positions=positions),))
    assert receiver.source.resync_needed == "revision 2 gives positions that do not fit the entries that it adds"
    assert receiver.source.demand.task_ids == ("a", "b")


def test_after_a_message_that_may_be_lost_a_snapshot_is_sent() -> None:
    outbox = DemandMessages("default", 7)
    demand = as_demand(singles("a", "b"))
    outbox.messages(demand)
    assert outbox.messages(demand)[0].base is None


def test_a_newer_epoch_is_taken_when_another_client_was_ahead() -> None:
    outbox = DemandMessages("default", 7)
    outbox.messages(Demand())
    outbox.start_new_epoch(after=9)
    assert outbox.messages(Demand())[0].epoch == 10
    assert outbox.stamp == (10, 1)


def test_the_size_of_a_message_is_its_bytes_in_any_script() -> None:
    assert size_of(DemandMessage(tasks=("訓練",))) == size_of(DemandMessage(tasks=("traini",)))


def test_large_demand_is_divided_and_joined_again() -> None:
    draw = random.Random(1)
    written = [{"id": f"{draw.getrandbits(128):x}", "resources": {"cpu": draw.choice([1, 2])}} for _ in range(500)]
    written += [{"id": f"gang-{i}", "resources": {"cpu": 1}, "gang": {"size": 4}} for i in range(20)]
    demand = as_demand(written)
    largest = size_of(DemandMessage(demand=demand)) // 3
    parts = in_parts(demand, largest)
    assert len(parts) > 3
    assert all(size_of(DemandMessage(demand=part)) <= largest for part in parts)
    assert joined(parts) == joined([demand, Demand()])
