"""Drains are counted by cause: each begins once and ends once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.metrics import OPERATOR
from penstock.contract.slices import DrainCommand, SliceLifecycle
from penstock.core.slices.drain_counts import DrainCount, DrainEnd, drain_counts, first_drain_counts
from penstock.core.slices.lifecycle import LifecycleEvent, advance
from penstock.core.state.specs import initial_lifecycle
from penstock.model.slices import DrainCause, DrainTerms, SliceState
from tests.core.slices.test_drain_commands import COMMANDS, cancel, drain, empty, idle, overdue
from tests.core.slices.test_lifecycle import (
    CANCEL,
    DELETE,
    DRAINING,
    EVENTS,
    FORCE,
    HEALTHY,
    HOST_LOST,
    ID,
    NOW,
    PREEMPTED,
    after,
    commanded,
    created,
)
from tests.core.state.ledgers import cluster, ordered

IDLE, ABOVE = DrainCause.IDLE.value, DrainCause.ABOVE_MAXIMUM.value


def counted(lifecycle: SliceLifecycle, *events: LifecycleEvent) -> list[DrainCount]:
    """What is counted while the events happen, in order."""
    found: list[DrainCount] = []
    for event in events:
        before, lifecycle = lifecycle, advance(lifecycle, event)
        found += drain_counts(before, lifecycle)
    return found


SERVING = after(created(), HEALTHY)
STORIES: list[tuple[str, Sequence[LifecycleEvent], list[tuple[Any, ...]]]] = [
    ("a slice that drains has begun one", [drain(1)], [(IDLE,)]),
    ("the same order twice begins one", [drain(1), drain(1)], [(IDLE,)]),
    ("ordered anew with a later number it goes on", [drain(1), drain(2, at=300)], [(IDLE,)]),
    ("cancelled", [drain(1), cancel(1), cancel(1)], [(IDLE,), (IDLE, DrainEnd.CANCELLED)]),
    ("cancelled before its order arrives", [cancel(1), drain(1)], []),
    ("not confirmed by its deadline", [drain(1), overdue(600)], [(IDLE,), (IDLE, DrainEnd.EXPIRED)]),
    ("confirmed empty", [drain(1), empty(1)], [(IDLE,), (IDLE, DrainEnd.DELETED)]),
    ("idle at its deadline", [drain(1), idle(1), overdue(600)], [(IDLE,), (IDLE, DrainEnd.DELETED)]),
    ("deleted by an operator", [drain(1), DELETE], [(IDLE,), (IDLE, DrainEnd.DELETED)]),
    ("its workflow was cancelled", [drain(1), CANCEL], [(IDLE,), (IDLE, DrainEnd.DELETED)]),
    ("preempted", [drain(1), PREEMPTED], [(IDLE,), (IDLE, DrainEnd.LOST)]),
    ("a host is lost", [drain(1), HOST_LOST], [(IDLE,), (IDLE, DrainEnd.LOST)]),
    ("an operator's own words", [drain(1, cause="noisy fan")], [(OPERATOR,)]),
    ("forced at its deadline", [FORCE, overdue(600)], [(OPERATOR,), (OPERATOR, DrainEnd.DELETED)]),
    ("a drain for another cause", [drain(1), drain(2, cause=ABOVE)], [(IDLE,), (IDLE, DrainEnd.REPLACED), (ABOVE,)]),
    ("deleted without a drain", [DELETE], []),
    ("lost without a drain", [PREEMPTED], []),
]


@pytest.mark.parametrize(("events", "counts"), [story[1:] for story in STORIES], ids=[story[0] for story in STORIES])
def test_a_drain_of_a_ready_slice_is_counted_by_its_cause_and_its_end(
    events: Sequence[LifecycleEvent], counts: list[tuple[Any, ...]]
) -> None:
    assert counted(SERVING, *events) == [DrainCount(*count) for count in counts]


def test_a_slice_that_is_called_off_on_its_way_begins_and_ends_a_drain() -> None:
    called_off = drain(1, cause=DrainCause.NOT_NEEDED)
    whole = [DrainCount(DrainCause.NOT_NEEDED), DrainCount(DrainCause.NOT_NEEDED, DrainEnd.DELETED)]
    assert counted(after(created()), called_off, called_off) == whole
    assert counted(SERVING, called_off) == [], "it is READY before it hears so, and serves"
    assert counted(after(created()), PREEMPTED) == []
    assert counted(after(created()), DELETE) == []


def test_a_drain_that_was_ordered_before_the_slice_had_a_workflow_is_counted_when_that_begins() -> None:
    def begun(state: SliceState, terms: DrainTerms | None, **rest: Any) -> SliceLifecycle:
        known = ordered(cluster({"name": "g"}), ID)
        piece = known.by_id[ID].changed(state=state, drain=terms, **rest)
        lifecycle = initial_lifecycle(known, piece, NOW)
        assert lifecycle is not None
        return lifecycle

    unneeded, idled = DrainTerms(cause=DrainCause.NOT_NEEDED, number=1), DrainTerms(cause=DrainCause.IDLE, number=1)
    whole = (DrainCount(DrainCause.NOT_NEEDED), DrainCount(DrainCause.NOT_NEEDED, DrainEnd.DELETED))
    assert first_drain_counts(begun(SliceState.REQUESTING, None)) == ()
    assert first_drain_counts(begun(SliceState.REQUESTING, unneeded)) == whole
    assert first_drain_counts(begun(SliceState.READY, idled, adopted=True)) == (DrainCount(DrainCause.IDLE),)
    assert first_drain_counts(begun(SliceState.DRAINING, idled, adopted=True)) == (), "an earlier workflow counted it"


OTHERS = [
    commanded(DrainCommand(slice_id=ID, terms=DrainTerms(cause=cause, number=number)))
    for cause in (DrainCause.ABOVE_MAXIMUM, "noisy fan", "loud fan")
    for number in (1, 2, 3)
]


@given(st.lists(st.sampled_from([*EVENTS, *COMMANDS, *OTHERS, overdue(600)]), max_size=30))
def test_every_drain_that_began_has_ended_unless_it_is_under_way(events: list[LifecycleEvent]) -> None:
    lifecycle, under_way = after(), Counter[str]()
    for event in events:
        before, lifecycle = lifecycle, advance(lifecycle, event)
        for count in drain_counts(before, lifecycle):
            under_way[count.cause] += 1 if count.end is None else -1
        assert under_way.total() == (lifecycle.state is DRAINING)
        assert set(under_way.values()) <= {0, 1}
