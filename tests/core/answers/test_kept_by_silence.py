"""What a silent source of usage costs: idle slices that stay only because nothing drains on a stale word."""

from typing import Any

import pytest

from penstock.contract.answers import UsageStatus
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply
from penstock.core.state.events import ConfigApplied, Decided, SliceKept, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, drains, later, ready, report

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
STALE = 1200
"""Seconds until a silent source is stale; slices are idle for too long after half of it."""


def silent(*slice_ids: str, busy: tuple[str, ...] = (), **group: Any) -> AutoscalerState:
    """Slices at four an hour that a source called ray named once, and a decision soon after."""
    state = cluster({"name": "g", "price_per_hour": 4} | group, usage_stale_after="20m")
    for slice_id in (*slice_ids, *busy):
        state = ready(state, slice_id)
    usage = dict.fromkeys(slice_ids, IDLE) | dict.fromkeys(busy, BUSY)
    state = apply(state, UsageReported(at=NOW, source="ray", usage=usage))
    return decided(state, 1)


def decided(state: AutoscalerState, seconds: float) -> AutoscalerState:
    return apply(state, Decided(at=later(seconds), orders=evaluate(state, now=later(seconds), chance=lambda: "0badcafe").orders))


def ray(state: AutoscalerState, seconds: float) -> UsageStatus:
    return status_of(state, now=later(seconds)).usage["ray"]


def kept(state: AutoscalerState, seconds: float) -> tuple[int, float]:
    """How many slices stay because ray is silent, and what they cost an hour."""
    source = ray(state, seconds)
    return source.kept_idle, source.cost_per_hour


def test_idle_slices_that_a_stale_source_keeps_are_counted_with_their_price() -> None:
    state = silent("a", "b", busy=("c",))
    assert kept(state, STALE - 1) == (0, 0), "its word is fresh, so they go by themselves"
    assert kept(state, STALE) == (2, 8)
    assert (ray(state, STALE).stale_since, ray(state, 3 * STALE).age_seconds) == (later(STALE), 3 * STALE)


def test_what_the_status_counts_is_what_drains_once_the_source_is_heard_and_repeats_its_word() -> None:
    state = silent("a", "b", busy=("c",), min_slices=2)
    assert drains(decided(state, 2 * STALE)) == {}
    (count, _) = kept(state, 2 * STALE)
    heard = apply(state, UsageReported(at=later(2 * STALE), source="ray", usage={}))
    assert len(drains(decided(heard, 2 * STALE + 600))) == count == 1


@pytest.mark.parametrize("needed", [{"min_slices": 2}, {"warm_slices": 2}])
def test_slices_that_would_stay_anyway_are_not_charged_to_silence(needed: dict[str, Any]) -> None:
    assert kept(silent("a", "b", **needed), STALE) == (0, 0)


def test_slices_that_drained_in_vain_before_their_source_was_stale_are_counted_too() -> None:
    """A controller that died reports no idleness while they drain, so they serve again, and nothing repeats the drain."""
    state = decided(silent("a", "b"), 600)
    assert len(drains(state)) == 2
    back = [report(slice_id, SliceState.READY, 5, at=later(1200)) for slice_id in "ab"]
    state = decided(after_reports(state, *back, at=later(1200)), 1201)
    assert drains(state) == {}
    assert kept(state, 2 * STALE) == (2, 8)


def test_slices_that_an_operator_keeps_or_a_stockout_holds_are_not_charged_to_silence() -> None:
    state = silent("a", "b")
    state = apply(state, SliceKept(at=later(2), slice_id="a", until=later(2 * STALE)))
    assert kept(state, STALE) == (1, 4)
    assert kept(state, 2 * STALE) == (2, 8)
    held = silent("a", hold_after_stockout="1h").model_copy(update={"stockouts": {"g": NOW}})
    assert kept(held, STALE) == (0, 0)


def test_a_source_that_is_heard_again_keeps_nothing() -> None:
    heard = apply(silent("a"), UsageReported(at=later(2 * STALE), source="ray", usage={}))
    assert kept(heard, 2 * STALE) == (0, 0)


def test_slices_of_a_removed_group_that_silence_keeps_have_its_last_price() -> None:
    state = apply(silent("a"), ConfigApplied(at=later(2), config=config({"name": "other"}, usage_stale_after="20m")))
    assert kept(state, STALE) == (1, 4)


def test_a_cluster_that_only_observes_keeps_its_slices_for_that_reason() -> None:
    watching = config({"name": "g", "price_per_hour": 4}, usage_stale_after="20m", scale_down="observe")
    assert kept(apply(silent("a"), ConfigApplied(at=later(2), config=watching)), STALE) == (0, 0)
