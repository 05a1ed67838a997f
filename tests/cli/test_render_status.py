"""A cluster's status on a terminal."""

import pytest

from penstock.cli.render_status import caption, status_view
from penstock.contract.answers import ClusterStatus, GroupStatus, RecentFailure, Rejection
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import Availability, SliceState
from tests.cli.statuses import EVERYTHING, NOW, ago, shown, words


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_everything_fits_on_the_screen_and_no_name_is_cut(width: int) -> None:
    text = shown(status_view(EVERYTHING, NOW), width)
    names = ("v5e-16-west", "v5e-16-east-spot", "l4-west", "default", "ray", "no_capacity")
    slices = ("v5e-16-west-261116-115500-1a2b3c4d", "v5e-16-east-spot-261116-115900-00ff00ff")
    for name in (*names, *slices):
        assert name in text
    assert "…" not in text


def test_on_a_narrow_terminal_a_failure_is_a_paragraph_under_its_slice() -> None:
    lines = [line.rstrip() for line in shown(status_view(EVERYTHING, NOW), 60).splitlines()]
    begin = lines.index("Recent failures")
    assert lines[begin + 1 : begin + 5] == [
        "v5e-16-east-spot-261116-115900-00ff00ff",
        "  ago 1m, count 1",
        "  failure: stockout: zone us-east1-c has no more capacity",
        "  for machines",
    ]


def test_the_heading_has_the_number_of_slices_and_the_last_and_next_evaluation() -> None:
    text = words(status_view(EVERYTHING, NOW))
    assert "demo: 9 slices, configuration 3, evaluated 1,432 times, last 4s ago, next scheduled evaluation in 1m30s" in text


def test_groups_show_slices_by_state_and_the_end_and_the_reason_of_a_block() -> None:
    text = words(status_view(EVERYTHING, NOW))
    assert "v5e-16-west │ 7/12 │ 1 BOOTING, 5 READY, 1 DRAINING │ available" in text
    assert "1 REQUESTING, 1 queued │ backoff until 12:07:00Z (7m): stockout: zone us-east1-c has no more capacity" in text
    assert "old │ 1 │ 1 READY │ no longer configured" in text


@pytest.mark.parametrize(
    "sentence",
    [
        "Paused: maintenance of the network. Nothing is launched or drained until: penstock resume",
        "Recovering for 30s: the ledger is empty. Nothing is launched or drained meanwhile.",
        "Waiting for sim/us-west4-a, sim/us-east1-c.",
        "Resync needed from source ray: revision 9 builds on 8, but 7 is the latest here",
        "default │ 10,000 │ 0 │ 12",
        "Placed 8 entries (5 ready, 1 in flight, 2 new); 2 slices deferred by launch limits; "
        "4 unmet (3 no_capacity, 1 no_matching_group): penstock decision says why.",
        "Reports since the pause are not evaluated yet; penstock decision shows what would be decided.",
        "Standing requests: notebooks.",
        "v5e-16-west-261116-115500-1a2b3c4d │ operator │ deleted",
        "1m │ 1 │ v5e-16-east-spot-261116-115900-00ff00ff │ stockout: zone us-east1-c has no more capacity for machines",
        "Rejected messages: 17",
        "1h │ 1 │ demand │ tasks[0].cpus: unknown key",
    ],
)
def test_everything_that_needs_attention_is_shown(sentence: str) -> None:
    assert sentence in words(status_view(EVERYTHING, NOW))


def test_a_cluster_that_was_just_started_names_the_next_step() -> None:
    text = words(status_view(ClusterStatus(cluster="new", version=1, groups=(GroupStatus(name="a", max_slices=2),)), NOW))
    assert "new: 0 slices, configuration 0, not evaluated yet" in text
    assert "No demand was submitted: penstock demand submit FILE" in text
    assert "Recent failures" not in text


def test_a_cluster_being_deleted_says_so() -> None:
    deleted = words(status_view(EVERYTHING.model_copy(update={"closing": True}), NOW))
    assert "Being deleted" in deleted
    assert "Checking for leftovers for 30s: every location is listed before the cluster ends." in deleted
    assert "the ledger is empty" not in deleted


def test_groups_without_slices_beyond_ten_and_failures_beyond_five_are_counted() -> None:
    groups = [GroupStatus(name=f"g-{i}", max_slices=1) for i in range(30)]
    groups.append(GroupStatus(name="busy", max_slices=1, slices={SliceState.READY: 1}))
    recent_failures = [
        RecentFailure(at=ago(i), group="g-1", slice_id=f"s-{i}", failure=Failure(kind=FailureKind.PREEMPTED, message=f"host {i}"))
        for i in range(7)
    ]
    status = ClusterStatus(cluster="c", version=1, groups=tuple(groups), recent_failures=tuple(recent_failures))
    text = words(status_view(status, NOW))
    assert "busy" in text
    assert "and 20 more groups without slices" in text
    assert "s-4" in text
    assert "s-5" not in text
    assert "and 2 more: --json has them" in text


def test_equal_failures_of_a_group_are_one_row_with_their_number_and_the_latest_slice() -> None:
    def failed(age: float, slice_id: str, group: str = "g", message: str = "no capacity") -> RecentFailure:
        failure = Failure(kind=FailureKind.STOCKOUT, message=message)
        return RecentFailure(at=ago(age), group=group, slice_id=slice_id, failure=failure)

    failures = (
        failed(90, "g-1"),
        failed(10, "g-3"),
        failed(60, "g-2"),
        failed(30, "h-1", group="h"),
        failed(50, "g-4", message="quota"),
    )
    text = words(status_view(ClusterStatus(cluster="c", version=1, recent_failures=failures), NOW))
    assert (
        "10s │ 3 │ g-3 │ stockout: no capacity │ │ 30s │ 1 │ h-1 │ stockout: no capacity │ │ 50s │ 1 │ g-4 │ stockout: quota"
        in text
    )
    assert not any(slice_id in text for slice_id in ("g-1", "g-2"))


def test_equal_rejected_messages_are_one_row_with_their_number() -> None:
    rejected = tuple(Rejection(at=ago(age), message="usage", problem="no such slice") for age in (40, 20, 30))
    text = words(status_view(ClusterStatus(cluster="c", version=1, rejected=rejected, rejected_in_all=3), NOW))
    assert "20s │ 3 │ usage │ no such slice" in text
    assert text.count("no such slice") == 1


def test_text_from_people_is_not_taken_for_markup() -> None:
    status = ClusterStatus(cluster="c", version=1, paused="[bold]:rocket:", groups=(GroupStatus(name="a"),))
    assert "Paused: [bold]:rocket:." in words(status_view(status, NOW))


def test_the_live_view_shows_its_time_and_how_to_leave_it() -> None:
    text = words(caption(EVERYTHING, NOW, answered=ago(1)))
    assert text == "2026-11-16 12:00:00Z · version 1,234 · Ctrl-C ends"
    assert (
        words(caption(EVERYTHING, NOW, answered=ago(90)))
        == f"{text} · no answer for 1m30s: the server or the worker does not respond"
    )


def test_a_full_group_is_at_its_maximum() -> None:
    slices = {SliceState.READY: 1}
    full = GroupStatus(name="full", max_slices=1, slices=slices, availability=Availability.AT_MAX, reason="1 of 1 slices")
    seen = words(status_view(ClusterStatus(cluster="c", version=1, groups=(full,)), NOW))
    assert "full │ 1/1 │ 1 READY │ at_max: 1 of 1 slices" in seen
