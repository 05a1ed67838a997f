"""A cluster's status on a terminal."""

import pytest

from penstock.cli.delete import left_text
from penstock.cli.render_status import caption, status_view
from penstock.contract.answers import (
    CHEAPER,
    ClusterStatus,
    GroupStatus,
    LocationProblem,
    ProblemKind,
    RecentFailure,
    RecoveryStatus,
    Rejection,
    SourceStatus,
    Undecided,
    UsageStatus,
)
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import Availability, SliceState
from tests.cli.statuses import EVERYTHING, NOW, ago, later, shown, words


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
        "At the last evaluation, 4s ago: placed 8 tasks (5 ready, 1 in flight, 2 new); 2 slices deferred by launch limits; "
        "4 unmet (3 no_capacity, 1 no_matching_group): penstock decision says why.",
        "Decided at 11:59:30Z; what was reported since waits for the next evaluation. "
        "penstock decision shows what would be decided.",
        "Standing requests ┏━━━━━━━━━━━┳━━━━━━━━━┓ ┃ owner ┃ outcome ┃ ┡━━━━━━━━━━━╇━━━━━━━━━┩ │ notebooks │ met │",
        "v5e-16-west-261116-115500-1a2b3c4d │ operator │ 12:05:00Z (5m) │ deleted",
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


@pytest.mark.parametrize(
    ("unread", "sentence"),
    [
        (2431, "2,431 messages are not read yet: these figures are from before them."),
        (1, "1 message is not read yet: these figures are from before it."),
    ],
)
def test_figures_from_before_messages_that_wait_to_be_read_are_not_shown_as_if_they_were_new(unread: int, sentence: str) -> None:
    assert words(status_view(EVERYTHING.model_copy(update={"unread": unread}), NOW)).startswith(sentence)
    assert "not read yet" not in words(status_view(EVERYTHING, NOW))


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


def test_slices_that_no_usage_report_names_are_an_alert_once_their_grace_is_over() -> None:
    group = GroupStatus(name="g", slices={SliceState.READY: 2}, unreported=2, unreported_since=ago(840))
    alert = "No usage report has named 2 slices of g, READY for up to 14m: is the controller running?"
    assert alert in words(status_view(ClusterStatus(cluster="c", version=1, groups=(group,), ready_grace_seconds=120), NOW))
    assert alert not in words(status_view(ClusterStatus(cluster="c", version=1, groups=(group,), ready_grace_seconds=900), NOW))


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


def test_a_deletion_says_what_it_waits_for_until_when_and_how_to_wait_no_longer() -> None:
    left = EVERYTHING.model_copy(update={"recovery": None})
    assert left_text(left, NOW) == (
        "9 slices (1 REQUESTING, 1 BOOTING, 6 READY, 1 DRAINING); waiting for the controller to confirm that 1 slice is empty,"
        " until 12:05:00Z (5m) at the latest; to delete them now: penstock delete demo --force --yes"
    )
    gone = ClusterStatus(cluster="demo", version=1, recovery=EVERYTHING.recovery)
    assert left_text(gone, NOW) == "0 slices; waiting for sim/us-west4-a, sim/us-east1-c"


def test_what_holds_the_cluster_comes_first() -> None:
    assert words(status_view(EVERYTHING, NOW)).startswith("Paused: maintenance of the network.")


def test_locations_that_cannot_be_watched_say_since_when_and_those_alike_share_a_line() -> None:
    silent = LocationProblem(kind=ProblemKind.NO_ANSWER, since=ago(90), message="connection refused")
    refused = LocationProblem(kind=ProblemKind.REFUSED, since=ago(600), message="no access to zone us-west4-a")
    locations = {"sim/a": silent, "sim/b": silent.model_copy(update={"since": ago(60)}), "gce:p/us-west4-a": refused}
    text = words(status_view(EVERYTHING.model_copy(update={"locations": locations}), NOW))
    assert "No answer for 1m30s: sim/a, sim/b. connection refused. Nothing is launched there; the other locations go on." in text
    assert "Refused for 10m: gce:p/us-west4-a. no access to zone us-west4-a." in text


def test_a_recovery_that_goes_on_says_what_stays_held() -> None:
    recovery = RecoveryStatus(reason="the ledger is empty", since=ago(600), waiting_for=("sim/a",), goes_on=True)
    text = words(status_view(EVERYTHING.model_copy(update={"recovery": recovery}), NOW))
    assert "The other groups go on; what is not known yet, and what shares a pool or entries with it, buys nothing new." in text
    assert "Waiting for sim/a." in text


def test_evaluations_that_fail_are_told_with_their_error() -> None:
    undecided = Undecided(since=ago(120), problem="activity StartToClose timeout")
    text = words(status_view(EVERYTHING.model_copy(update={"undecided": undecided}), NOW))
    assert "Evaluations fail for 2m: activity StartToClose timeout. The figures are of an older demand." in text
    often = undecided.model_copy(update={"failures": 3, "again_at": later(60)})
    text = words(status_view(EVERYTHING.model_copy(update={"undecided": often}), NOW))
    assert "Evaluations fail for 2m, 3 times: activity StartToClose timeout. The figures are of an older demand." in text
    assert "Tried again in 1m, or once the configuration changes." in text


def test_figures_of_an_older_demand_say_so_and_what_waits() -> None:
    behind = "decided at 12:00:03Z on revision 41 of default; revision 44 of default waits for the next evaluation"
    text = words(status_view(EVERYTHING.model_copy(update={"behind": behind, "held": None}), NOW))
    assert "Decided at 12:00:03Z on revision 41 of default; revision 44 of default waits for the next evaluation." in text
    held = words(status_view(EVERYTHING.model_copy(update={"behind": behind}), NOW))
    assert "waits for the next evaluation. penstock decision shows what would be decided." in held


def test_a_decision_by_cheaper_methods_is_said_in_words() -> None:
    assert "budget of work ran out" not in words(status_view(EVERYTHING, NOW))
    text = words(status_view(EVERYTHING.model_copy(update={"thorough": False}), NOW))
    assert CHEAPER in text


def test_sources_of_usage_show_their_age_and_since_when_they_are_stale() -> None:
    fresh = UsageStatus(epoch=7, revision=3, at=ago(40), slices=12)
    stale = UsageStatus(epoch=-1, revision=-1, at=ago(2400), slices=1, stale_since=ago(600))
    text = words(status_view(EVERYTHING.model_copy(update={"usage": {"ray": fresh, "old": stale}}), NOW))
    assert "│ ray │ 12 │ 7 │ 3 │ 40s ago │" in text
    assert "│ old │ 1 │ – │ – │ 40m ago, stale for 10m │" in text


def test_leases_are_shown_once_some_demand_has_one_and_a_lapsed_one_says_what_follows() -> None:
    why = "the lease of source b lapsed at 2026-11-16 11:55:00Z: nothing new is bought for it"
    lapsed = SourceStatus(epoch=1, revision=1, tasks=3, lease_ends=ago(300), buys_nothing=why)
    leased = SourceStatus(epoch=1, revision=1, tasks=2, lease_ends=later(240))
    stands = SourceStatus(epoch=1, revision=1, tasks=1)
    text = words(status_view(EVERYTHING.model_copy(update={"demand": {"a": leased, "b": lapsed, "c": stands}}), NOW))
    assert f"Buys nothing: {why}" in text
    assert "│ a │ 2 │ 1 │ 1 │ 4m │" in text
    assert "│ b │ 3 │ 1 │ 1 │ lapsed 5m ago │" in text
    assert "│ c │ 1 │ 1 │ 1 │ – │" in text


def test_slices_that_did_not_join_and_tasks_that_nobody_starts_are_alerts() -> None:
    silent = GroupStatus(name="g", unclaimed=2, unclaimed_since=ago(300), not_started=("a/0", "b"), not_started_since=ago(840))
    text = words(status_view(EVERYTHING.model_copy(update={"groups": (silent,)}), NOW))
    assert (
        "Not joined for up to 5m: 2 READY slices of g. A controller reports usage and names other slices, but not these" in text
    )
    assert "Not started for up to 14m: tasks placed on READY slices of g, such as a/0, b: does the controller use" in text


def test_lost_usage_needs_a_resync_of_its_own() -> None:
    lost = UsageStatus(epoch=1, revision=1, at=NOW, slices=1, resync_needed="this run was reset")
    text = words(status_view(EVERYTHING.model_copy(update={"usage": {"ray": lost}}), NOW))
    assert "Resync needed for the usage of source ray: this run was reset" in text
