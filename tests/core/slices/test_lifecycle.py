"""The lifecycle of a slice, as a table of sentences, and what holds for any lifecycle."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.inventories import Sighting
from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    CreateResult,
    DeleteCommand,
    DrainCommand,
    ReportCommand,
    SliceLifecycle,
    SliceSpec,
)
from penstock.core.slices.lifecycle import (
    KEPT_MOVES,
    MOVES,
    Cancelled,
    CommandReceived,
    CreateAnswered,
    DeletionConfirmed,
    DeletionOverdue,
    LifecycleEvent,
    Observed,
    Overdue,
    Reported,
    advance,
    deadline_seconds,
    report_of,
)
from penstock.model.cluster import Timeouts
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.slices import ENDED, DrainTerms, SliceState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "v5e-16-a1"
SPEC = SliceSpec(
    cluster="c", group="v5e-16", slice_id=ID, provider="sim", location="zone-a", hosts=2, timeouts=Timeouts(boot=60, drain=0.5)
)
REQUESTING, BOOTING, INITIALIZING, READY, DRAINING, DELETING, TERMINATED, FAILED = SliceState


def created() -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="created"))


def queued() -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="queued"))


def refused(kind: FailureKind = FailureKind.STOCKOUT) -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="refused", failure=Failure(kind=kind, message="no")))


def seen(phase: Phase, **rest: Any) -> Observed:
    return Observed(NOW, Sighting(at=NOW, phase=phase, **rest))


def told(command: Any) -> CommandReceived:
    return CommandReceived(NOW, command)


def overdue(state: SliceState) -> Overdue:
    return Overdue(NOW, state)


CREATING = seen(Phase.CREATING)
IN_QUEUE = seen(Phase.QUEUED)
BOOTS = seen(Phase.BOOTING)
RUNS = seen(Phase.RUNNING)
ADDRESSED = seen(Phase.RUNNING, addressed=True)
HEALTHY = seen(Phase.RUNNING, addressed=True, healthy=True)
HALF = seen(Phase.RUNNING, addressed=True, healthy=True, hosts=1)
SILENT = seen(Phase.RUNNING, addressed=True, silent_hosts=(1,))
MENDED = seen(
    Phase.RUNNING, addressed=True, silent_hosts=(1,), failure=Failure(kind=FailureKind.PREEMPTED, message="maintenance")
)
PREEMPTED = seen(Phase.PREEMPTED)
BROKEN = seen(Phase.FAILED, failure=Failure(kind=FailureKind.QUOTA, message="later"))
BROKEN_SOMEHOW = seen(Phase.FAILED)
BEING_DELETED = seen(Phase.DELETING)
GONE = seen(Phase.GONE)
DRAIN = told(DrainCommand(slice_id=ID, terms=DrainTerms(cause="idle")))
FORCE = told(DrainCommand(slice_id=ID, terms=DrainTerms(cause="now", force=True)))
SERVE = told(CancelDrainCommand(slice_id=ID))
EMPTY = told(ConfirmEmptyCommand(slice_id=ID))
DELETE = told(DeleteCommand(slice_id=ID, cause="not wanted"))
SAY = told(ReportCommand(slice_id=ID))
CANCEL = Cancelled(NOW)
CONFIRMED = DeletionConfirmed(NOW)


def lived(*events: LifecycleEvent) -> SliceLifecycle:
    lifecycle = SliceLifecycle(spec=SPEC, since=NOW, ordered_at=NOW)
    for event in events:
        lifecycle = advance(lifecycle, event)
    return lifecycle


SENTENCES: list[tuple[str, Sequence[LifecycleEvent], SliceState, str]] = [
    ("the cloud took the order: it is still only asked for", [created()], REQUESTING, ""),
    ("a slice in the cloud's queue is asked for", [queued()], REQUESTING, ""),
    ("what boots is booting", [created(), BOOTS], BOOTING, ""),
    ("what runs without all addresses is booting", [created(), RUNS], BOOTING, ""),
    ("with all addresses it initializes", [created(), ADDRESSED], INITIALIZING, ""),
    ("healthy, it is ready", [created(), HEALTHY], READY, ""),
    ("an inventory may be quicker than the reply", [HEALTHY, created()], READY, ""),
    ("a late look does not move it back", [created(), HEALTHY, BOOTS, CREATING, IN_QUEUE], READY, ""),
    ("a health check that failed once is no news", [created(), HEALTHY, ADDRESSED], READY, ""),
    ("a stockout ends it", [refused()], DELETING, "stockout"),
    ("what was refused is deleted too, then failed", [refused(), CONFIRMED], FAILED, "stockout"),
    ("a rate limit is waited out", [refused(FailureKind.RATE_LIMIT)], REQUESTING, ""),
    ("after a rate limit it may come", [refused(FailureKind.RATE_LIMIT), created(), HEALTHY], READY, ""),
    ("what nobody created cannot be missing", [GONE], REQUESTING, ""),
    ("what was created and is not there is lost", [created(), GONE], DELETING, "gone"),
    ("preempted is lost", [created(), HEALTHY, PREEMPTED], DELETING, "preempted"),
    ("preempted on its way is lost", [created(), BOOTS, PREEMPTED], DELETING, "preempted"),
    ("preempted in a drain is lost", [created(), HEALTHY, DRAIN, PREEMPTED], DELETING, "preempted"),
    ("one host lost is the slice lost", [created(), HEALTHY, SILENT], DELETING, "host_lost"),
    ("hosts lost for a reason that the cloud says are lost for it", [created(), HEALTHY, MENDED], DELETING, "preempted"),
    ("with too few hosts it is not whole, however well they are", [created(), HALF], BOOTING, ""),
    ("a host cannot be silent before it has an address", [created(), BOOTS, SILENT], INITIALIZING, ""),
    ("what the cloud gave up ends for the cloud's reason", [created(), BROKEN], DELETING, "quota"),
    ("what the cloud gave up without a reason is gone", [created(), BROKEN_SOMEHOW], DELETING, "gone"),
    ("somebody else deletes it: news only when it is gone", [created(), HEALTHY, BEING_DELETED], READY, ""),
    ("a ready slice is drained", [created(), HEALTHY, DRAIN], DRAINING, "idle"),
    ("a drained slice goes when it is empty", [created(), HEALTHY, DRAIN, EMPTY], DELETING, "idle"),
    ("and ends terminated", [created(), HEALTHY, DRAIN, EMPTY, CONFIRMED], TERMINATED, "idle"),
    ("a cancelled drain makes it serve again", [created(), HEALTHY, DRAIN, SERVE], READY, ""),
    ("not empty at the deadline it serves again", [created(), HEALTHY, DRAIN, overdue(DRAINING)], READY, ""),
    ("a forced drain ends at the deadline", [created(), HEALTHY, FORCE, overdue(DRAINING)], DELETING, "now"),
    ("a drain can become a forced one", [created(), HEALTHY, DRAIN, FORCE, overdue(DRAINING)], DELETING, "now"),
    ("a forced drain stays forced", [created(), HEALTHY, FORCE, DRAIN, overdue(DRAINING)], DELETING, "now"),
    ("a drain before it is ready is a delete", [created(), BOOTS, DRAIN], DELETING, "idle"),
    ("a drain before it is created is a delete", [DRAIN, created()], DELETING, "idle"),
    ("nothing is confirmed empty that does not drain", [created(), HEALTHY, EMPTY], READY, ""),
    ("nothing to cancel is no news", [created(), HEALTHY, SERVE], READY, ""),
    ("a delete needs no drain", [created(), HEALTHY, DELETE], DELETING, "not wanted"),
    ("a delete ends a drain", [created(), HEALTHY, DRAIN, DELETE], DELETING, "not wanted"),
    ("a deletion is not called back", [created(), HEALTHY, DELETE, SERVE, HEALTHY], DELETING, "not wanted"),
    ("the first reason to leave stands", [created(), PREEMPTED, DELETE, CANCEL, CONFIRMED], FAILED, "preempted"),
    ("deleted while limited it did not fail", [refused(FailureKind.RATE_LIMIT), DELETE, CONFIRMED], TERMINATED, "not wanted"),
    ("a refusal that comes too late is no failure", [DELETE, refused(), CONFIRMED], TERMINATED, "not wanted"),
    ("cancelling deletes", [created(), HEALTHY, CANCEL], DELETING, "cancelled"),
    ("unseen for too long it failed", [created(), overdue(REQUESTING)], DELETING, "requesting_timeout"),
    ("booting for too long it failed", [created(), BOOTS, overdue(BOOTING)], DELETING, "boot_timeout"),
    ("starting for too long it failed", [created(), ADDRESSED, overdue(INITIALIZING)], DELETING, "init_timeout"),
    ("in the queue nothing is too long", [queued(), overdue(REQUESTING)], REQUESTING, ""),
    ("the deadline of a state that it left is no news", [created(), BOOTS, overdue(REQUESTING)], BOOTING, ""),
    ("only the answer to a delete ends a deletion", [created(), DELETE, GONE], DELETING, "not wanted"),
    ("what is not being deleted is not confirmed gone", [created(), HEALTHY, CONFIRMED], READY, ""),
    ("a deletion that takes too long says so, once",
     [created(), DELETE, DeletionOverdue(NOW), DeletionOverdue(NOW)], DELETING, "deletion overdue: not wanted"),
    ("no deletion, nothing overdue", [created(), DeletionOverdue(NOW)], REQUESTING, ""),
    ("asked for a report, it stays where it is", [created(), HEALTHY, SAY], READY, ""),
]  # fmt: skip


@pytest.mark.parametrize(("events", "state", "cause"), [rest for _, *rest in SENTENCES], ids=[name for name, *_ in SENTENCES])
def test_sentences(events: Sequence[LifecycleEvent], state: SliceState, cause: str) -> None:
    lifecycle = lived(*events)
    assert (lifecycle.state, lifecycle.cause) == (state, cause)


def test_skipped_states_are_lines_of_the_timeline() -> None:
    lifecycle = lived(created(), HEALTHY)
    assert [move.state for move in lifecycle.moves] == [BOOTING, INITIALIZING, READY]
    assert [move.why for move in lifecycle.moves] == [
        "the cloud shows it",
        "every host has an address",
        "every host answers its health check with this slice's id",
    ]
    assert lifecycle.sequence == 3


def test_a_timeline_keeps_its_newest_lines() -> None:
    lifecycle = lived(created(), HEALTHY, *[DRAIN, SERVE] * KEPT_MOVES)
    assert len(lifecycle.moves) == KEPT_MOVES
    assert lifecycle.sequence == 3 + 2 * KEPT_MOVES


def test_time_in_the_queue_does_not_count() -> None:
    later = NOW + timedelta(hours=1)
    waiting = lived(queued())
    assert (waiting.queued, waiting.since, deadline_seconds(waiting)) == (True, NOW, None)
    left = advance(waiting, Observed(later, Sighting(at=later, phase=Phase.CREATING)))
    assert (left.queued, left.since, deadline_seconds(left)) == (False, later, SPEC.timeouts.requesting_seconds)
    assert left.sequence == waiting.sequence + 1


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([], SPEC.timeouts.requesting_seconds),
        ([BOOTS], 60.0),
        ([ADDRESSED], SPEC.timeouts.init_seconds),
        ([HEALTHY], None),
        ([HEALTHY, DRAIN], 0.5),
        ([DELETE], None),
        ([DELETE, CONFIRMED], None),
    ],
)
def test_deadlines(events: Sequence[LifecycleEvent], seconds: float | None) -> None:
    assert deadline_seconds(lived(*events)) == seconds


def test_failures_say_what_happened() -> None:
    boot = lived(created(), BOOTS, overdue(BOOTING)).failure
    assert boot == Failure(kind=FailureKind.BOOT_TIMEOUT, message="its hosts did not all get addresses within 1m")
    host = lived(created(), HEALTHY, SILENT).failure
    assert host == Failure(kind=FailureKind.HOST_LOST, message="no answer from host 1 of 2")
    assert lived(created(), HEALTHY, DRAIN, overdue(DRAINING)).moves[-1].why == "not empty within 0.5s"


def test_a_report_of_a_rate_limit_carries_it_and_the_next_does_not() -> None:
    limited = report_of(lived(refused(FailureKind.RATE_LIMIT)))
    assert limited.failure is not None
    assert (limited.state, limited.failure.kind, limited.sequence) == (REQUESTING, FailureKind.RATE_LIMIT, 1)
    assert report_of(lived(refused(FailureKind.RATE_LIMIT), created(), BOOTS)).failure is None


def test_what_was_reported_never_runs_ahead_or_back() -> None:
    lifecycle = lived(created(), HEALTHY, Reported(NOW, 2))
    assert lifecycle.reported == 2
    assert advance(lifecycle, Reported(NOW, 1)).reported == 2
    assert advance(lifecycle, Reported(NOW, 9)).reported == lifecycle.sequence == 3


EVENTS: list[LifecycleEvent] = [
    created(), queued(), refused(), refused(FailureKind.RATE_LIMIT), CREATING, IN_QUEUE, BOOTS, RUNS, ADDRESSED, HEALTHY, SILENT,
    PREEMPTED, BROKEN, BROKEN_SOMEHOW, BEING_DELETED, GONE, DRAIN, FORCE, SERVE, EMPTY, DELETE, SAY, CANCEL, CONFIRMED,
    DeletionOverdue(NOW), Reported(NOW, 2), *(overdue(state) for state in SliceState),
]  # fmt: skip


@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_whatever_happens_a_life_follows_the_table(events: list[LifecycleEvent]) -> None:
    lifecycle = lived()
    for event in events:
        after = advance(lifecycle, event)
        path = [lifecycle.state, *(move.state for move in after.moves[len(lifecycle.moves) :])]
        for before, state in pairwise(path):
            assert state is before or state in MOVES[before]
        assert path[-1] is after.state
        assert after.sequence == lifecycle.sequence + len(path) - 1
        assert after.sequence >= after.reported >= lifecycle.reported
        assert lifecycle.created <= after.created
        if lifecycle.state in ENDED:
            assert after.state is lifecycle.state
        elif after.state in ENDED:
            assert lifecycle.state is DELETING
            assert event is CONFIRMED
        if after.state is FAILED:
            assert after.failure is not None
        if after.state in (BOOTING, INITIALIZING, READY, DRAINING):
            assert after.failure is None
            assert after.created
        assert (after.state is DRAINING) <= (after.drain is not None)
        lifecycle = after


@given(st.sampled_from([state for state in SliceState if state not in ENDED]))
def test_every_state_has_a_way_to_the_end(state: SliceState) -> None:
    lifecycle = lived().model_copy(update={"state": state})
    assert advance(advance(lifecycle, CANCEL), CONFIRMED).state in ENDED
