"""Shares, windows, notices and causes of drains: what their words mean."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.model.cluster import ScaleGroup
from penstock.model.elasticity import Share, Window, share_of
from penstock.model.left_behind import LeftBehind
from penstock.model.slices import DrainCause, DrainTerms, HostUsage, Slice, SliceState

SHARE: TypeAdapter[int | str] = TypeAdapter(Share)
FRIDAY = datetime(2026, 1, 2, tzinfo=UTC)


def at(day: int, time: str) -> datetime:
    hour, minute = map(int, time.split(":"))
    return FRIDAY.replace(day=day, hour=hour, minute=minute)


@pytest.mark.parametrize(
    ("written", "slices", "allowed"),
    [(1, 100, 1), ("3", 1, 3), (0, 9, 0), ("25%", 9, 3), ("25 %", 8, 2), ("0%", 9, 0), ("100%", 9, 9), ("1%", 0, 0)],
)
def test_a_share_is_a_number_of_slices_or_a_percentage_rounded_up(written: object, slices: int, allowed: int) -> None:
    share = SHARE.validate_python(written)
    assert share_of(share, slices) == allowed
    assert SHARE.validate_json(SHARE.dump_json(share)) == share


@pytest.mark.parametrize("written", ["101%", "-1%", "%", "2.5%", "x", -1, 0.25, None, True, "", []])
def test_an_invalid_share_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValidationError, match="25%"):
        SHARE.validate_python(written)


@pytest.mark.parametrize(
    ("window", "now", "is_open", "edge"),
    [
        ({}, at(2, "12:00"), True, None),
        ({"hours": "09:00-17:00"}, at(2, "09:00"), True, at(2, "17:00")),
        ({"hours": "09:00-17:00"}, at(2, "17:00"), False, at(3, "09:00")),
        ({"hours": "22:00-06:00"}, at(2, "05:59"), True, at(2, "06:00")),
        ({"hours": "22:00-06:00", "days": ["fri"]}, at(2, "05:59"), False, at(2, "22:00")),
        ({"hours": "22:00-06:00", "days": ["fri"]}, at(3, "05:59"), True, at(3, "06:00")),
        ({"days": ["sat", "sun"]}, at(2, "12:00"), False, at(3, "00:00")),
        ({"days": ["sat", "sun"]}, at(3, "12:00"), True, at(5, "00:00")),
        ({"days": ["fri"]}, at(3, "00:00"), False, at(9, "00:00")),
        ({"days": ["thu"], "hours": "23:00-22:59"}, at(2, "22:59"), False, at(8, "23:00")),
    ],
)
def test_a_window_is_open_at_its_hours_of_its_days(
    window: dict[str, Any], now: datetime, is_open: bool, edge: datetime | None
) -> None:
    read = Window.model_validate(window)
    assert (read.is_open(now), read.next_edge(now)) == (is_open, edge)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"hours": "9-17"}, "write it like 22:00-06:00"),
        ({"hours": "24:00-06:00"}, "write it like 22:00-06:00"),
        ({"hours": "09:00-09:00"}, "write 00:00-24:00 for the whole day"),
        ({"days": []}, "list days such as sat"),
        ({"days": ["saturday"]}, "'sat'"),
    ],
)
def test_an_invalid_window_is_refused_with_the_fix(window: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Window.model_validate(window)


def test_voluntary_drains_use_the_budget_in_order_and_a_notice_does_not_wait_for_it() -> None:
    voluntary = sorted((cause for cause in DrainCause if cause.voluntary), key=lambda cause: cause.rank)
    assert voluntary == ["notice", "degraded", "expiry", "drift", "return home", "consolidation"]
    assert [cause for cause in voluntary if cause.waits_for_budget] == voluntary[1:]
    assert all(cause.rank == len(voluntary) for cause in DrainCause if not cause.voluntary)


def test_only_drains_that_a_decision_ordered_for_its_own_sake_are_cancelled_by_need() -> None:
    cancellable = {cause for cause in DrainCause if DrainTerms(cause=cause).cancellable}
    assert cancellable == {"idle", "not needed", "above maximum", "pressure", "return home", "consolidation"}
    assert not any(DrainTerms(cause=cause, force=True).cancellable for cause in DrainCause)
    assert DrainTerms(cause="noisy fan").known_cause is None
    assert not DrainTerms(cause="noisy fan").cancellable


def test_a_host_that_must_not_be_disrupted_may_be_idle() -> None:
    assert HostUsage(do_not_disrupt=True).idle


def test_a_slice_keeps_the_facts_of_its_group_also_if_they_are_written_one_by_one() -> None:
    group = ScaleGroup(name="g", max_slices=1, idle_timeout="2m", cancel_after="3s", keep_queued=True, price_per_hour=1.5)
    left = LeftBehind.of(group)
    assert (left.idle_timeout_seconds, left.cancel_after_seconds, left.keep_queued, left.price_per_hour) == (120, 3, True, 1.5)
    assert (left.pool, left.chips) == (None, 0)
    plain = {"id": "a", "group": "g", "state": "ready", "pool": "p", "chips": 4, "idle_timeout_seconds": 0}
    assert Slice.model_validate(plain).left == LeftBehind(pool="p", chips=4, idle_timeout_seconds=0)
    assert Slice(id="a", group="g", state=SliceState.READY).left is None


GCE: dict[str, Any] = {"name": "g", "max_slices": 1, "host": {"cpu": 4}, "provider": {"kind": "gce", "image": "a"}}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"max_slices": 9, "priority": 1, "price_per_hour": 2, "attributes": {"x": 1}, "idle_timeout": "1h"}, True),
        ({"provider": {"image": "a", "kind": "gce", "endpoint": "http://127.0.0.1:1"}}, True),
        ({"provider": {"kind": "gce", "image": "b"}}, False),
        ({"provider": {"kind": "gce", "image": "a", "startup_script": "echo"}}, False),
        ({"hosts_per_slice": 2}, False),
        ({"preemptible": True}, False),
        ({"host": {"cpu": 8}}, False),
    ],
)
def test_the_fingerprint_of_a_group_changes_with_what_its_slices_are_made_with(change: dict[str, Any], same: bool) -> None:
    before, after = ScaleGroup.model_validate(GCE), ScaleGroup.model_validate(GCE | change)
    assert (before.fingerprint == after.fingerprint) is same
