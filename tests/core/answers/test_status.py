"""The status reports the availability of groups exactly as a decision does, without making one."""

import time
from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.messages import SlicesRequest
from penstock.contract.problems import read
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import MOST_HOSTS_SHOWN, page_of, status_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import FailureKind
from penstock.model.location import Location
from penstock.model.sightings import HostAddress
from penstock.model.slices import Availability, HostUsage, Slice, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, failed, ordered, report

Words = tuple[Availability, str]
V5E: dict[str, Any] = {"device": {"type": "tpu", "variant": "v5litepod-4"}, "host": {"cpu": 8, "tpu": 4}, "pool": "reserved"}


def availabilities(state: AutoscalerState) -> dict[str, Words]:
    """Availability of each group in the status, after checking that a decision without demand reports the same."""
    groups = status_of(state).groups
    decided = {
        group.name: (group.availability, group.until, group.reason) for group in decide(snapshot_of(state).snapshot).groups
    }
    assert {group.name: (group.availability, group.until, group.reason) for group in groups if group.configured} == decided
    return {group.name: (group.availability, group.reason) for group in groups if group.configured}


def test_the_status_counts_ready_slices_that_no_usage_report_has_named() -> None:
    state = ordered(cluster(), "s1", "s2", "s3")
    state = after_reports(state, *(report(name, SliceState.READY, 1) for name in ("s1", "s2")))
    group = status_of(state).groups[0]
    assert (group.unreported, group.unreported_since) == (2, state.by_id["s1"].since)
    named = apply(state, UsageReported(at=NOW, usage={"s1": (HostUsage(),), "s2": (HostUsage(),)}))
    assert (status_of(named).groups[0].unreported, status_of(named).groups[0].unreported_since) == (0, None)


def test_a_group_with_headroom_is_available() -> None:
    assert availabilities(ordered(cluster(), "s1")) == {"g": (Availability.AVAILABLE, "")}


def test_a_full_group_is_at_its_maximum_and_other_groups_are_not() -> None:
    state = ordered(cluster({"name": "g", "max_slices": 2}, {"name": "h"}), "s1", "s2")
    assert availabilities(state) == {"g": (Availability.AT_MAX, "2 of 2 slices"), "h": (Availability.AVAILABLE, "")}


def test_slices_that_leave_count_until_they_are_gone() -> None:
    state = after_reports(ordered(cluster({"name": "g", "max_slices": 1}), "s1"), report("s1", SliceState.DELETING, 1))
    assert availabilities(state) == {"g": (Availability.AT_MAX, "1 of 1 slices")}
    assert availabilities(after_reports(state, report("s1", SliceState.TERMINATED, 2))) == {"g": (Availability.AVAILABLE, "")}


def test_a_full_cluster_is_the_reason_of_every_group_below_its_own_maximum() -> None:
    state = ordered(cluster({"name": "g", "max_slices": 2}, {"name": "h"}, max_slices=2), "s1", "s2")
    assert availabilities(state) == {
        "g": (Availability.AT_MAX, "2 of 2 slices"),
        "h": (Availability.AT_MAX, "the cluster's max_slices 2 is reached"),
    }


def test_a_pool_with_too_few_chips_is_exhausted_for_every_group_that_draws_on_it() -> None:
    pools = [{"name": "reserved", "chips": 9, "system": 1}]
    state = ordered(cluster({"name": "g"} | V5E, {"name": "h"} | V5E, {"name": "cpu"}, pools=pools), "s1", "s2")
    exhausted = (Availability.POOL_EXHAUSTED, "pool reserved has too few chips left for a slice of 4")
    assert availabilities(state) == {"g": exhausted, "h": exhausted, "cpu": (Availability.AVAILABLE, "")}


def test_a_blocked_group_is_blocked_before_it_is_full() -> None:
    state = failed(ordered(cluster({"name": "g", "max_slices": 1}), "s1"), "s1", FailureKind.STOCKOUT)
    assert availabilities(state) == {"g": (Availability.BACKOFF, "stockout of s1")}
    (group,) = status_of(state).groups
    assert group.until is not None
    after = state.model_copy(update={"now": group.until})
    assert availabilities(after) == {"g": (Availability.AVAILABLE, "")}


def test_a_tier_behind_one_that_exceeded_its_quota_says_so() -> None:
    groups = ({"name": name, "quota_pool": "shared", "quota_tier": tier} for name, tier in (("g", 1), ("second", 2)))
    state = failed(ordered(cluster(*groups), "s1"), "s1", FailureKind.QUOTA)
    found = availabilities(state)
    assert found["second"] == (Availability.QUOTA_EXCEEDED, "g exceeded quota pool shared at quota tier 1")


def test_a_group_whose_slices_wait_in_the_clouds_queue_beyond_patience_says_so() -> None:
    state = after_reports(
        ordered(cluster({"name": "g", "patience": "1m"}), "s1"), report("s1", SliceState.REQUESTING, 1, queued=True)
    )
    assert availabilities(state) == {"g": (Availability.AVAILABLE, "")}
    waited = state.model_copy(update={"now": NOW + timedelta(minutes=2)})
    assert availabilities(waited) == {"g": (Availability.BACKOFF, "1 of its slices waits in the cloud's queue")}


@pytest.mark.parametrize("queued", [False, True])
def test_the_status_of_five_thousand_slices_takes_milliseconds(*, queued: bool) -> None:
    groups = [{"name": f"g{n}", "max_slices": 50} | V5E for n in range(100)]
    state = cluster(*groups, pools=[{"name": "reserved", "chips": 20_000}])
    slices = tuple(
        Slice(id=f"s{n}", group=f"g{n % 100}", state=SliceState.REQUESTING, since=NOW, queued=queued) for n in range(5_000)
    )
    full = state.model_copy(update={"slices": slices, "version": state.version + 1})
    assert {group.availability for group in status_of(full).groups} == {Availability.AT_MAX}
    # CPU time of this process, the best of several runs, so that other processes do not matter.
    took = []
    for _ in range(5):
        begun = time.process_time()
        status_of(full)
        took.append(time.process_time() - begun)
    assert min(took) < 0.1, took


def test_slices_are_found_by_their_state_in_any_case() -> None:
    states = (SliceState.READY, SliceState.BOOTING)
    slices = tuple(Slice(id=f"s-{state}", group="g", state=state) for state in states)
    request = read(SlicesRequest, b'{"state": "ready"}')
    assert [piece.state for piece in page_of(AutoscalerState(slices=slices), request).slices] == [SliceState.READY]


def test_a_page_of_slices_fits_an_answer_and_says_whose_addresses_are_left_out() -> None:
    hosts = tuple(HostAddress(name=f"node-w-{i}", address=f"10.0.0.{i}", external_address=f"34.0.0.{i}") for i in range(128))
    there = Location(provider="gce", account="gce:p", name="z", settings={"startup_script": "x" * 5000})
    slices = tuple(Slice(id=f"s{n}", group="g", state=SliceState.READY, hosts=hosts, location=there) for n in range(200))
    page = page_of(AutoscalerState(slices=slices), SlicesRequest())
    assert len(page.model_dump_json()) < 1_500_000
    assert [piece.hosts for piece in page.slices].count(()) == page.without_addresses == 200 - MOST_HOSTS_SHOWN // 128

    small = page_of(AutoscalerState(slices=slices), SlicesRequest(page_size=50, page=4))
    assert (small.without_addresses, {piece.hosts for piece in small.slices}) == (0, {hosts})
