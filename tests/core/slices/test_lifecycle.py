"""The lifecycle of a slice: a table of sentences, and laws that hold for any sequence of events."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    CreateResult,
    DeleteCommand,
    DrainCommand,
    IdleCommand,
    ReportCommand,
    SliceLifecycle,
    SliceSpec,
)
from penstock.core.slices.lifecycle import (
    KEPT_TRANSITIONS,
    TRANSITIONS,
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
from penstock.model.location import Location
from penstock.model.sightings import Host, HostAddress
from penstock.model.slices import DrainCause, DrainTerms, SliceState
from tests.core.slices.looks import hosts, sighting

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "v5e-16-a1"
SPEC = SliceSpec(
    cluster="c",
    group="v5e-16",
    slice_id=ID,
    location=Location(provider="sim", account="sim", name="zone-a", settings={"url": "http://127.0.0.1:1"}),
    hosts=2,
    timeouts=Timeouts(boot=60, drain=0.5),
    cause="demand",
)
REQUESTING, BOOTING, INITIALIZING, READY, DRAINING, DELETING, TERMINATED, FAILED = SliceState
ENDED = (TERMINATED, FAILED)


def created() -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="created"))


def queued() -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="queued"))


def refused(kind: FailureKind = FailureKind.STOCKOUT) -> CreateAnswered:
    return CreateAnswered(NOW, CreateResult(outcome="refused", failure=Failure(kind=kind, message="no")))


def seen(phase: Phase, **rest: Any) -> Observed:
    return Observed(NOW, sighting(ID, phase, **rest))


def commanded(command: Any) -> CommandReceived:
    return CommandReceived(NOW, command)


def overdue(state: SliceState) -> Overdue:
    return Overdue(NOW, state)


CREATING = seen(Phase.CREATING)
IN_QUEUE = seen(Phase.QUEUED)
BOOTS = seen(Phase.BOOTING)
RUNS = seen(Phase.RUNNING, hosts=(*hosts(ID), Host(name="host-1")))
ADDRESSED = seen(Phase.RUNNING, hosts=hosts(None, None))
HEALTHY = seen(Phase.RUNNING, hosts=hosts(ID, ID))
MOVED = seen(Phase.RUNNING, hosts=hosts(ID, ID, first=7))
HALF = seen(Phase.RUNNING, hosts=hosts(ID))
STRANGER = seen(Phase.RUNNING, hosts=hosts(ID, "v5e-16-b2"))
HOST_LOST = seen(Phase.RUNNING, hosts=hosts(ID, None), lost_hosts=(1,))
IN_MAINTENANCE = seen(
    Phase.RUNNING,
    hosts=hosts(ID, None),
    lost_hosts=(1,),
    failure=Failure(kind=FailureKind.PREEMPTED, message="maintenance"),
)
PREEMPTED = seen(Phase.PREEMPTED)
BROKEN = seen(Phase.FAILED, failure=Failure(kind=FailureKind.QUOTA, message="later"))
BROKEN_SOMEHOW = seen(Phase.FAILED)
BEING_DELETED = seen(Phase.DELETING)
GONE = seen(Phase.GONE)
DRAIN = commanded(DrainCommand(slice_id=ID, terms=DrainTerms(cause="idle")))
FORCE = commanded(DrainCommand(slice_id=ID, terms=DrainTerms(cause="now", force=True)))
PRESSURE = commanded(DrainCommand(slice_id=ID, terms=DrainTerms(cause=DrainCause.PRESSURE)))
IDLE = commanded(IdleCommand(slice_id=ID, idle=True))
SERVE = commanded(CancelDrainCommand(slice_id=ID))
EMPTY = commanded(ConfirmEmptyCommand(slice_id=ID))
DELETE = commanded(DeleteCommand(slice_id=ID, cause="not wanted"))
REPORT = commanded(ReportCommand(slice_id=ID))
CANCEL = Cancelled(NOW)
CONFIRMED = DeletionConfirmed(NOW)


def after(*events: LifecycleEvent) -> SliceLifecycle:
    lifecycle = SliceLifecycle(spec=SPEC, since=NOW, ordered_at=NOW)
    for event in events:
        lifecycle = advance(lifecycle, event)
    return lifecycle


SENTENCES: list[tuple[str, Sequence[LifecycleEvent], SliceState, str]] = [
    ("an order that the cloud accepted is still requesting", [created()], REQUESTING, ""),
    ("a slice in the cloud's queue is requesting", [queued()], REQUESTING, ""),
    ("a slice that the cloud shows booting is booting", [created(), BOOTS], BOOTING, ""),
    ("a running slice without all addresses is booting", [created(), RUNS], BOOTING, ""),
    ("with all addresses it initializes", [created(), ADDRESSED], INITIALIZING, ""),
    ("a host that answers with another slice's id is not healthy", [created(), STRANGER], INITIALIZING, ""),
    ("when all hosts are healthy it is ready", [created(), HEALTHY], READY, ""),
    ("a sighting may arrive before the answer to the create call", [HEALTHY, created()], READY, ""),
    ("a late sighting does not move it back", [created(), HEALTHY, BOOTS, CREATING, IN_QUEUE], READY, ""),
    ("one failed health check changes nothing", [created(), HEALTHY, ADDRESSED], READY, ""),
    ("new addresses change no state", [created(), HEALTHY, MOVED], READY, ""),
    ("a stockout ends it", [refused()], DELETING, "stockout"),
    ("a refused slice is deleted too, then failed", [refused(), CONFIRMED], FAILED, "stockout"),
    ("a rate limit is waited out", [refused(FailureKind.RATE_LIMIT)], REQUESTING, ""),
    ("after a rate limit it may become ready", [refused(FailureKind.RATE_LIMIT), created(), HEALTHY], READY, ""),
    ("a slice that was never created cannot be missing", [GONE], REQUESTING, ""),
    ("a created slice that does not exist is lost", [created(), GONE], DELETING, "gone"),
    ("a preempted slice is lost", [created(), HEALTHY, PREEMPTED], DELETING, "preempted"),
    ("a slice preempted while it starts is lost", [created(), BOOTS, PREEMPTED], DELETING, "preempted"),
    ("a slice preempted while it drains is lost", [created(), HEALTHY, DRAIN, PREEMPTED], DELETING, "preempted"),
    ("a slice that loses one host is lost", [created(), HEALTHY, HOST_LOST], DELETING, "host_lost"),
    ("hosts lost for a reason that the cloud gives are lost for it", [created(), HEALTHY, IN_MAINTENANCE], DELETING, "preempted"),
    ("with too few hosts it is not complete, however healthy they are", [created(), HALF], BOOTING, ""),
    ("a host cannot be lost before it has an address", [created(), BOOTS, HOST_LOST], INITIALIZING, ""),
    ("a slice that the cloud failed ends for the cloud's reason", [created(), BROKEN], DELETING, "quota"),
    ("a slice that the cloud failed without a reason is gone", [created(), BROKEN_SOMEHOW], DELETING, "gone"),
    ("a deletion by others counts only once the slice is gone", [created(), HEALTHY, BEING_DELETED], READY, ""),
    ("a ready slice is drained", [created(), HEALTHY, DRAIN], DRAINING, "idle"),
    ("a drained slice is deleted when it is empty", [created(), HEALTHY, DRAIN, EMPTY], DELETING, "idle"),
    ("and ends terminated", [created(), HEALTHY, DRAIN, EMPTY, CONFIRMED], TERMINATED, "idle"),
    ("a cancelled drain makes it serve again", [created(), HEALTHY, DRAIN, SERVE], READY, ""),
    ("not empty at the deadline it serves again", [created(), HEALTHY, DRAIN, overdue(DRAINING)], READY, ""),
    ("idle at the deadline it is deleted", [created(), HEALTHY, DRAIN, IDLE, overdue(DRAINING)], DELETING, "idle"),
    ("drained for pressure it is deleted once it is empty", [created(), HEALTHY, PRESSURE, EMPTY], DELETING, "pressure"),
    ("drained for pressure it serves again at the deadline, even if it is idle",
     [created(), HEALTHY, PRESSURE, IDLE, overdue(DRAINING)], READY, ""),
    ("a forced drain ends at the deadline", [created(), HEALTHY, FORCE, overdue(DRAINING)], DELETING, "now"),
    ("a drain can become a forced one", [created(), HEALTHY, DRAIN, FORCE, overdue(DRAINING)], DELETING, "now"),
    ("a forced drain stays forced", [created(), HEALTHY, FORCE, DRAIN, overdue(DRAINING)], DELETING, "now"),
    ("a drain before it is ready is a delete", [created(), BOOTS, DRAIN], DELETING, "idle"),
    ("a drain before it is created is a delete", [DRAIN, created()], DELETING, "idle"),
    ("a confirmation that it is empty counts only in a drain", [created(), HEALTHY, EMPTY], READY, ""),
    ("without a drain there is nothing to cancel", [created(), HEALTHY, SERVE], READY, ""),
    ("a delete needs no drain", [created(), HEALTHY, DELETE], DELETING, "not wanted"),
    ("a delete ends a drain", [created(), HEALTHY, DRAIN, DELETE], DELETING, "not wanted"),
    ("a deletion cannot be cancelled", [created(), HEALTHY, DELETE, SERVE, HEALTHY], DELETING, "not wanted"),
    ("the first reason to leave stands", [created(), PREEMPTED, DELETE, CANCEL, CONFIRMED], FAILED, "preempted"),
    ("deleted while limited it did not fail", [refused(FailureKind.RATE_LIMIT), DELETE, CONFIRMED], TERMINATED, "not wanted"),
    ("a refusal that comes too late is no failure", [DELETE, refused(), CONFIRMED], TERMINATED, "not wanted"),
    ("cancelling its workflow deletes it", [created(), HEALTHY, CANCEL], DELETING, "cancelled"),
    ("not shown in time, it failed", [created(), overdue(REQUESTING)], DELETING, "requesting_timeout"),
    ("booting for too long, it failed", [created(), BOOTS, overdue(BOOTING)], DELETING, "boot_timeout"),
    ("initializing for too long, it failed", [created(), ADDRESSED, overdue(INITIALIZING)], DELETING, "init_timeout"),
    ("in the queue there is no deadline", [queued(), overdue(REQUESTING)], REQUESTING, ""),
    ("the deadline of a state that it left changes nothing", [created(), BOOTS, overdue(REQUESTING)], BOOTING, ""),
    ("only the answer to a delete call ends a deletion", [created(), DELETE, GONE], DELETING, "not wanted"),
    ("a slice that is not being deleted is not confirmed gone", [created(), HEALTHY, CONFIRMED], READY, ""),
    ("an overdue deletion is noted once",
     [created(), DELETE, DeletionOverdue(NOW), DeletionOverdue(NOW)], DELETING, "deletion overdue: not wanted"),
    ("without a deletion nothing is overdue", [created(), DeletionOverdue(NOW)], REQUESTING, ""),
    ("a request for a report does not move it", [created(), HEALTHY, REPORT], READY, ""),
]  # fmt: skip


@pytest.mark.parametrize(("events", "state", "cause"), [rest for _, *rest in SENTENCES], ids=[name for name, *_ in SENTENCES])
def test_sentences(events: Sequence[LifecycleEvent], state: SliceState, cause: str) -> None:
    lifecycle = after(*events)
    assert (lifecycle.state, lifecycle.cause) == (state, cause)


def test_skipped_states_are_lines_of_the_timeline() -> None:
    lifecycle = after(created(), HEALTHY)
    assert [move.state for move in lifecycle.transitions] == [BOOTING, INITIALIZING, READY]
    assert [move.why for move in lifecycle.transitions] == [
        "the cloud shows it",
        "every host has an address",
        "every host answers its health check with this slice's id",
    ]
    assert lifecycle.sequence == 3


def test_a_timeline_keeps_its_newest_lines() -> None:
    lifecycle = after(created(), HEALTHY, *[DRAIN, SERVE] * KEPT_TRANSITIONS)
    assert len(lifecycle.transitions) == KEPT_TRANSITIONS
    assert lifecycle.sequence == 3 + 2 * KEPT_TRANSITIONS


def test_time_in_the_queue_does_not_count() -> None:
    later = NOW + timedelta(hours=1)
    waiting = after(queued())
    assert (waiting.queued, waiting.since, deadline_seconds(waiting)) == (True, NOW, None)
    left = advance(waiting, Observed(later, sighting(ID, Phase.CREATING)))
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
    assert deadline_seconds(after(*events)) == seconds


def test_a_failure_describes_its_cause() -> None:
    boot = after(created(), BOOTS, overdue(BOOTING)).failure
    assert boot == Failure(kind=FailureKind.BOOT_TIMEOUT, message="its hosts did not all get addresses within 1m")
    host = after(created(), HEALTHY, HOST_LOST).failure
    assert host == Failure(kind=FailureKind.HOST_LOST, message="no answer from host 1 of 2")
    assert after(created(), HEALTHY, DRAIN, overdue(DRAINING)).transitions[-1].why == "not empty within 0.5s"


def test_a_report_of_a_rate_limit_carries_it_and_the_next_does_not() -> None:
    limited = report_of(after(refused(FailureKind.RATE_LIMIT)))
    assert limited.failure is not None
    assert (limited.state, limited.failure.kind, limited.sequence) == (REQUESTING, FailureKind.RATE_LIMIT, 1)
    assert report_of(after(refused(FailureKind.RATE_LIMIT), created(), BOOTS)).failure is None


def test_the_reported_sequence_never_exceeds_the_sequence_and_never_falls() -> None:
    lifecycle = after(created(), HEALTHY, Reported(NOW, 2))
    assert lifecycle.reported == 2
    assert advance(lifecycle, Reported(NOW, 1)).reported == 2
    assert advance(lifecycle, Reported(NOW, 9)).reported == lifecycle.sequence == 3


ADDRESSES = (HostAddress(name="host-0", address="10.0.0.1"), HostAddress(name="host-1", address="10.0.0.2"))
MOVED_ADDRESSES = (HostAddress(name="host-0", address="10.0.0.7"), HostAddress(name="host-1", address="10.0.0.8"))


@pytest.mark.parametrize("sees", [ADDRESSED, HEALTHY], ids=["addressed", "healthy"])
def test_a_report_carries_the_addresses_of_the_hosts_from_the_first_sighting_that_has_them_all(sees: Observed) -> None:
    assert report_of(after(created(), RUNS)).hosts == ()
    assert report_of(after(created(), RUNS, sees)).hosts == ADDRESSES


def test_the_first_addresses_are_no_line_of_their_own() -> None:
    assert [move.state for move in after(created(), ADDRESSED).transitions] == [BOOTING, INITIALIZING]
    assert after(created(), HEALTHY, HEALTHY).sequence == 3


@pytest.mark.parametrize("state", [INITIALIZING, READY, DRAINING])
def test_new_addresses_are_a_change_to_report_and_a_line_of_the_timeline(state: SliceState) -> None:
    before: dict[SliceState, list[LifecycleEvent]] = {
        INITIALIZING: [ADDRESSED],
        READY: [HEALTHY],
        DRAINING: [HEALTHY, DRAIN],
    }
    lifecycle = after(created(), *before[state])
    changed = seen(Phase.RUNNING, hosts=hosts(None, None, first=7))
    moved = advance(lifecycle, changed)
    assert (moved.state, moved.since, moved.sequence) == (state, lifecycle.since, lifecycle.sequence + 1)
    assert (moved.transitions[-1].state, moved.transitions[-1].why) == (state, "addresses of hosts changed")
    assert (report_of(moved).hosts, report_of(moved).sequence) == (MOVED_ADDRESSES, moved.sequence)
    assert advance(moved, changed) == moved, "the same addresses are reported once"


def test_addresses_survive_sightings_without_them() -> None:
    lifecycle = after(created(), HEALTHY)
    for sees in (RUNS, BOOTS, CREATING, BEING_DELETED):
        assert advance(lifecycle, sees) == lifecycle


def test_a_report_names_the_location_without_its_settings() -> None:
    report = report_of(after(created()))
    assert report.location == Location(provider="sim", account="sim", name="zone-a")
    assert report.launched_for == "demand"


EVENTS: list[LifecycleEvent] = [
    created(), queued(), refused(), refused(FailureKind.RATE_LIMIT), CREATING, IN_QUEUE, BOOTS, RUNS, ADDRESSED, HEALTHY, MOVED,
    HALF, STRANGER, HOST_LOST, PREEMPTED, BROKEN, BROKEN_SOMEHOW, BEING_DELETED, GONE, DRAIN, FORCE, SERVE, EMPTY, DELETE, REPORT,
    CANCEL, CONFIRMED, DeletionOverdue(NOW), Reported(NOW, 2), *(overdue(state) for state in SliceState),
]  # fmt: skip


@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_any_lifecycle_follows_the_table(events: list[LifecycleEvent]) -> None:
    lifecycle = after()
    for event in events:
        moved = advance(lifecycle, event)
        path = [lifecycle.state, *(move.state for move in moved.transitions[len(lifecycle.transitions) :])]
        for before, state in pairwise(path):
            assert state is before or state in TRANSITIONS[before]
        assert path[-1] is moved.state
        assert moved.sequence == lifecycle.sequence + len(path) - 1
        assert moved.sequence >= moved.reported >= lifecycle.reported
        assert lifecycle.create_accepted <= moved.create_accepted
        if lifecycle.state in ENDED:
            assert moved.state is lifecycle.state
        elif moved.state in ENDED:
            assert lifecycle.state is DELETING
            assert event is CONFIRMED
        if moved.state is FAILED:
            assert moved.failure is not None
        if moved.state in (BOOTING, INITIALIZING, READY, DRAINING):
            assert moved.failure is None
            assert moved.create_accepted
        assert (moved.state is DRAINING) <= (moved.drain is not None)
        lifecycle = moved


@given(st.sampled_from([state for state in SliceState if state not in ENDED]))
def test_every_state_has_a_way_to_the_end(state: SliceState) -> None:
    lifecycle = after().model_copy(update={"state": state})
    assert advance(advance(lifecycle, CANCEL), CONFIRMED).state in ENDED
