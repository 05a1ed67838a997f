"""What idle slices have cost in the last day: by the times of events, and to the moment of asking."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import AnyEvent, ConfigApplied, DrainCancelled, DrainOrdered, TimePassed, UsageReported
from penstock.core.state.spending import DAY, HOUR, KEPT_HOURS, IdleCost, accrued, of_last_day
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import after_reports, cluster, config, later, ready, report

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
PRICE = 6.0
EDGE = PRICE / 4
"""Of the hour in which the last day begins, only the sum is known: spread evenly, it errs by a quarter of an hour at most."""


def priced(*slice_ids: str) -> AutoscalerState:
    """READY slices at six an hour."""
    state = cluster({"name": "g", "price_per_hour": PRICE})
    for slice_id in slice_ids:
        state = ready(state, slice_id)
    return state


def used(state: AutoscalerState, seconds: float, **words: tuple[HostUsage, ...]) -> AutoscalerState:
    return apply(state, UsageReported(at=later(seconds), usage=dict(words)))


def spent(state: AutoscalerState, seconds: float) -> float:
    """What the status says that idleness has cost, asked at a moment."""
    return status_of(state, now=later(seconds)).idle_cost_of_day


def test_idle_slices_cost_their_price_from_the_idle_word_until_the_busy_one() -> None:
    state = used(priced("a", "b"), 0, a=IDLE, b=BUSY)
    state = used(state, 1800, a=BUSY)
    assert spent(state, 1800) == PRICE / 2
    state = used(used(state, 3600, b=IDLE), 3600 + 600, b=BUSY)
    assert spent(state, 7200) == pytest.approx(PRICE / 2 + PRICE / 6)


def test_the_cost_goes_on_between_events_to_the_moment_of_asking() -> None:
    state = used(priced("a"), 0, a=IDLE)
    assert [spent(state, seconds) for seconds in (0, 600, 3600)] == [0, PRICE / 6, PRICE]
    assert state.idle_cost == ()


def test_after_a_day_of_idleness_an_hour_more_adds_nothing_and_24_hours_after_its_end_nothing_is_left() -> None:
    state = used(priced("a"), 100, a=IDLE)
    assert spent(state, 100 + DAY) == pytest.approx(24 * PRICE, abs=EDGE)
    assert spent(state, 100 + DAY + 5000) == pytest.approx(24 * PRICE, abs=EDGE)
    ended = used(state, 100 + 2 * DAY, a=BUSY)
    assert spent(ended, 100 + 2 * DAY + DAY / 2) == pytest.approx(12 * PRICE, abs=EDGE)
    assert spent(ended, 100 + 3 * DAY - HOUR) == pytest.approx(PRICE, abs=EDGE)
    assert spent(ended, 100 + 3 * DAY + HOUR) == 0
    assert apply(ended, TimePassed(at=later(100 + 3 * DAY + 2 * HOUR))).idle_cost == ()


def test_a_day_of_work_in_waves_costs_its_idle_minutes_and_keeps_one_figure_an_hour() -> None:
    """Every ten minutes, slice b works for six of them; slice a never does."""
    state = used(priced("a", "b"), 0, a=IDLE, b=IDLE)
    for start in range(0, 3 * int(DAY), 600):
        state = used(used(state, start, b=BUSY), start + 360, b=IDLE)
    end = 3 * DAY
    assert spent(state, end) == pytest.approx(24 * PRICE * (1 + 0.4))
    assert len(apply(state, TimePassed(at=later(end + 1))).idle_cost) == KEPT_HOURS
    assert len(state.model_dump_json(include={"idle_cost"})) < 1_000


def test_what_idleness_has_cost_survives_the_end_of_a_run() -> None:
    state = used(used(priced("a"), 0, a=IDLE), 4000)
    carried = AutoscalerState.model_validate_json(state.model_dump_json())
    assert carried == state
    assert carried.idle_cost == state.idle_cost != ()
    assert spent(used(carried, 8000, a=BUSY), 9000) == pytest.approx(PRICE * 8000 / 3600)


def test_events_at_the_same_time_and_a_clock_that_goes_back_cost_nothing_twice() -> None:
    state = used(priced("a"), 0, a=IDLE)
    for seconds in (3600, 3600, 1800, 3600):
        state = used(state, seconds)
    assert spent(state, 3600) == PRICE


@pytest.mark.parametrize("leaving", [SliceState.DRAINING, SliceState.DELETING])
def test_a_slice_that_drains_is_not_idle_and_one_whose_drain_was_cancelled_is(leaving: SliceState) -> None:
    state = used(priced("a"), 0, a=IDLE)
    state = apply(state, DrainOrdered(at=later(3600), slice_id="a", terms=DrainTerms(cause="idle")))
    assert spent(state, 9000) == PRICE, "from the order on, before the slice reports it"
    gone = after_reports(state, report("a", leaving, 4, at=later(3610)), at=later(3610))
    assert spent(gone, 9000) == PRICE
    if leaving is SliceState.DRAINING:
        back = apply(gone, DrainCancelled(at=later(7200), slice_id="a"))
        assert spent(back, 7200 + 3600) == 2 * PRICE


def test_slices_that_nobody_named_and_slices_without_a_price_add_nothing() -> None:
    assert spent(ready(cluster({"name": "g", "price_per_hour": PRICE}), "a"), 9000) == 0
    assert spent(used(ready(cluster(), "a"), 0, a=IDLE), 9000) == 0


def test_a_new_price_counts_from_when_it_applies_and_a_removed_group_keeps_its_last_one() -> None:
    state = used(priced("a"), 0, a=IDLE)
    dearer = apply(state, ConfigApplied(at=later(3600), config=config({"name": "g", "price_per_hour": 10})))
    assert spent(dearer, 7200) == PRICE + 10
    removed = apply(dearer, ConfigApplied(at=later(7200), config=config({"name": "other"})))
    assert spent(removed, 10_800) == PRICE + 10 + 10


def test_the_cached_rate_never_outlives_what_it_was_counted_from() -> None:
    """A state that is carried on from event to event says the same as one read anew before each event."""
    events: list[AnyEvent] = [
        UsageReported(at=later(10), usage={"a": IDLE, "b": BUSY}),
        UsageReported(at=later(900), usage={"b": IDLE}),
        ConfigApplied(at=later(1000), config=config({"name": "g", "price_per_hour": 1.1})),
        DrainOrdered(at=later(2000), slice_id="b", terms=DrainTerms(cause="idle")),
        UsageReported(at=later(3000), usage={"a": BUSY}),
        TimePassed(at=later(9000)),
    ]
    carried = replay(events, priced("a", "b"))
    anew = priced("a", "b")
    for event in events:
        anew = apply(AutoscalerState.model_validate_json(anew.model_dump_json()), event)
    assert anew.idle_cost == carried.idle_cost


Gaps = st.lists(st.floats(0, 30 * HOUR), min_size=1, max_size=12)


@given(gaps=Gaps, rate=st.floats(0, 1e6), start=st.floats(0, DAY))
def test_law_the_cost_of_a_time_does_not_depend_on_how_many_events_fall_into_it(
    gaps: list[float], rate: float, start: float
) -> None:
    moment, cost = later(start), IdleCost()
    for gap in gaps:
        moment, before = moment + timedelta(seconds=gap), moment
        cost = accrued(cost, rate, before, moment)
    at_once = accrued((), rate, later(start), moment)
    assert [each.hour for each in cost] == [each.hour for each in at_once]
    assert [each.money for each in cost] == pytest.approx([each.money for each in at_once], rel=1e-6, abs=1e-6)
    _law_of_the_last_day(cost, rate, later(start), moment)


def _law_of_the_last_day(cost: IdleCost, rate: float, since: datetime, until: datetime) -> None:
    """The money of a day at one rate is the rate times the hours; in the first hour it is spread evenly."""
    hours = min(24.0, (until - since).total_seconds() / HOUR)
    assert of_last_day(cost, until) == pytest.approx(rate * hours, rel=1e-6, abs=rate / 4 + 1e-6)
    assert len(cost) <= KEPT_HOURS
