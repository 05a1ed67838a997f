"""How a cluster's status looks on a terminal."""

import pytest

from penstock.cli.render_status import caption, status_view
from penstock.contract.answers import ClusterStatus, GroupStatus, RecentFailure
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


def test_on_a_narrow_screen_what_happened_stands_under_the_slice_it_happened_to() -> None:
    lines = [line.rstrip() for line in shown(status_view(EVERYTHING, NOW), 60).splitlines()]
    begin = lines.index("Troubles lately")
    assert lines[begin + 1 : begin + 5] == [
        "v5e-16-east-spot-261116-115900-00ff00ff",
        "  ago 1m",
        "  what happened: stockout: zone us-east1-c has no more",
        "  capacity for machines",
    ]


def test_the_heading_says_how_much_there_is_and_when_it_was_looked_at() -> None:
    told = words(status_view(EVERYTHING, NOW))
    assert "demo: 9 slices, configuration 3, evaluated 1,432 times, last 4s ago, next change by itself in 1m30s" in told


def test_groups_show_their_slices_by_state_and_until_when_they_are_blocked_and_why() -> None:
    told = words(status_view(EVERYTHING, NOW))
    assert "v5e-16-west │ 7/12 │ 1 BOOTING, 5 READY, 1 DRAINING │ available" in told
    assert "1 REQUESTING, 1 queued │ backoff until 12:07:00Z (7m): stockout: zone us-east1-c has no more capacity" in told
    assert "old │ 1 │ 1 READY │ no longer configured" in told


@pytest.mark.parametrize(
    "sentence",
    [
        "Paused: maintenance of the network. Nothing is launched or drained until: penstock resume",
        "Recovering for 30s: the ledger is empty. Nothing is ordered meanwhile.",
        "Waiting for sim/us-west4-a, sim/us-east1-c.",
        "Demand of ray must be sent again: revision 9 builds on 8, and 7 stands",
        "default │ 10,000 │ 0 │ 12",
        "Placed 8 entries (5 ready, 1 in flight, 2 new); 2 slices deferred by launch limits; "
        "4 unmet (3 no_capacity, 1 no_matching_group): penstock decision says why.",
        "What was told since the pause is not decided on; penstock decision says what would be.",
        "Standing requests of notebooks.",
        "v5e-16-west-261116-115500-1a2b3c4d │ operator │ is deleted",
        "1m │ v5e-16-east-spot-261116-115900-00ff00ff │ stockout: zone us-east1-c has no more capacity for machines",
        "Messages that could not be used: 17",
        "11:00:00Z │ demand │ tasks[0].cpus: unknown key",
    ],
)
def test_what_needs_attention_is_said(sentence: str) -> None:
    assert sentence in words(status_view(EVERYTHING, NOW))


def test_a_cluster_that_was_just_started_says_what_to_do_next() -> None:
    told = words(status_view(ClusterStatus(cluster="new", version=1, groups=(GroupStatus(name="a", max_slices=2),)), NOW))
    assert "new: 0 slices, configuration 0, not evaluated yet" in told
    assert "No demand was submitted yet: penstock demand submit FILE" in told
    assert "Troubles" not in told


def test_a_cluster_being_deleted_says_so() -> None:
    deleted = words(status_view(EVERYTHING.model_copy(update={"closing": True}), NOW))
    assert "Being deleted" in deleted
    assert "Making sure for 30s that nothing is left: every location is asked for all that it has." in deleted
    assert "the ledger is empty" not in deleted


def test_idle_groups_beyond_ten_and_troubles_beyond_five_are_counted() -> None:
    groups = [GroupStatus(name=f"g-{i}", max_slices=1) for i in range(30)]
    groups.append(GroupStatus(name="busy", max_slices=1, slices={SliceState.READY: 1}))
    recent_failures = [
        RecentFailure(at=ago(i), group="g-1", slice_id=f"s-{i}", failure=Failure(kind=FailureKind.PREEMPTED)) for i in range(7)
    ]
    status = ClusterStatus(cluster="c", version=1, groups=tuple(groups), recent_failures=tuple(recent_failures))
    told = words(status_view(status, NOW))
    assert "busy" in told
    assert "and 20 more groups without slices" in told
    assert "s-4" in told
    assert "s-5" not in told
    assert "and 2 more: --json has them" in told


def test_names_are_shown_as_they_are() -> None:
    status = ClusterStatus(cluster="c", version=1, paused="[bold]:rocket:", groups=(GroupStatus(name="a"),))
    assert "Paused: [bold]:rocket:." in words(status_view(status, NOW))


def test_the_live_view_says_when_it_was_true_and_how_to_leave() -> None:
    told = words(caption(EVERYTHING, NOW, heard=ago(1)))
    assert told == "2026-11-16 12:00:00Z · version 1,234 · Ctrl-C ends"
    assert words(caption(EVERYTHING, NOW, heard=ago(90))) == f"{told} · no answer for 1m30s: the server or the worker is away"


def test_a_full_group_is_at_its_maximum() -> None:
    slices = {SliceState.READY: 1}
    full = GroupStatus(name="full", max_slices=1, slices=slices, availability=Availability.AT_MAX, reason="1 of 1 slices")
    seen = words(status_view(ClusterStatus(cluster="c", version=1, groups=(full,)), NOW))
    assert "full │ 1/1 │ 1 READY │ at_max: 1 of 1 slices" in seen
