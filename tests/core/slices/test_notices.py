"""Notices of a cloud, from a look at it through watch, lifecycle and report to the ledger."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.slices import DrainCommand, SliceLifecycle
from penstock.core.slices.lifecycle import (
    CommandReceived,
    DeletionConfirmed,
    LifecycleEvent,
    Observed,
    Overdue,
    advance,
    deadline_seconds,
    report_of,
)
from penstock.core.slices.watch import Unconfirmed, pack_notified, recalled, unpack_notified
from penstock.core.state.specs import initial_lifecycle
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import FailureKind, Notice, NoticeKind, Phase
from penstock.model.packed import pack, unpack
from penstock.model.sightings import Sighting
from penstock.model.slices import DrainCause, DrainTerms, Slice, SliceState
from tests.core.slices.looks import CLUSTER, GROUP, HEALTHY, RUNNING, SILENT, START, WELL, Watch, changed, hosts, sighting
from tests.core.state.ledgers import after_reports, audited, cluster, ordered

MAINTENANCE = Notice(kind=NoticeKind.MAINTENANCE, until=START + timedelta(hours=1))
MOVED = Notice(kind=NoticeKind.MAINTENANCE, until=START + timedelta(hours=2))
PREEMPTION = Notice(kind=NoticeKind.PREEMPTION, until=START + timedelta(hours=1))
READY = SliceState.READY


def noticed(seen: Sighting = RUNNING, notice: Notice | None = MAINTENANCE) -> Sighting:
    return changed(seen, notice=notice)


# The watch.


@pytest.mark.parametrize("seen", [RUNNING, HEALTHY, SILENT], ids=["listed", "healthy", "silent"])
def test_a_notice_is_news_once_whatever_the_look_shows_of_its_hosts(seen: Sighting) -> None:
    watch = Watch(s1=WELL)
    assert [one.notice for one in watch.look(noticed(seen))] == [MAINTENANCE]
    assert not watch.look(noticed(seen))
    assert watch.known["s1"].healthy


def test_a_notice_that_is_moved_replaced_or_taken_back_is_news() -> None:
    watch = Watch(s1=WELL)
    for notice in (MAINTENANCE, MOVED, PREEMPTION, None, MAINTENANCE):
        assert [one.notice for one in watch.look(noticed(notice=notice))] == [notice]
    assert not watch.look(noticed())


def test_a_slice_that_is_still_created_is_notified_of_nothing_but_a_notice() -> None:
    creating = sighting(phase=Phase.CREATING)
    assert not Watch().look(creating)
    assert [one.notice for one in Watch().look(noticed(creating))] == [MAINTENANCE]


def test_a_look_that_misses_a_slice_does_not_take_its_notice_back() -> None:
    watch = Watch(s1=WELL)
    watch.look(noticed())
    assert not watch.notifications(seconds=1)
    assert not watch.notifications(complete=False)
    assert not watch.look(noticed())
    assert watch.known["s1"].notice == MAINTENANCE


def test_a_watch_that_resumes_from_a_packed_table_knows_which_notices_were_delivered() -> None:
    other = WELL._replace(notice=None)
    resumed = unpack_notified(pack_notified({"s1": WELL._replace(notice=MAINTENANCE), "s2": other}))
    assert resumed == {"s1": WELL._replace(notice=MAINTENANCE), "s2": other}
    assert not Watch(s1=resumed["s1"]).look(noticed())
    assert [one.notice for one in Watch(s1=resumed["s1"]).look(RUNNING)] == [None]


def test_a_table_of_a_version_without_notices_is_read_and_one_without_any_is_written_like_it() -> None:
    packed = pack_notified({"s1": WELL})
    assert len(unpack(packed)) == 4
    assert unpack_notified(pack(unpack(packed)[:4])) == {"s1": WELL}


def test_a_watch_that_lost_what_it_knew_recalls_the_notices_of_the_ledger() -> None:
    ready = Slice(id="s1", group="small", state=READY, hosts=RUNNING.addresses, notice=MAINTENANCE)
    assert not Watch(**recalled({}, [ready])).look(noticed())
    assert [one.notice for one in Watch(**recalled({}, [ready])).look(RUNNING)] == [None]
    assert [one.notice for one in Watch(**recalled({}, [ready.changed(notice=None)])).look(noticed())] == [MAINTENANCE]


def test_a_slice_that_lost_its_notice_is_notified_again_after_two_audits() -> None:
    known = {"s1": WELL._replace(notice=MAINTENANCE)}
    ready = Slice(id="s1", group="small", state=READY)
    first = Unconfirmed().after(known, [ready])
    assert (first.resend, first.after(known, [ready]).resend) == (frozenset[str](), frozenset({"s1"}))
    assert not first.after(known, [ready.changed(notice=MAINTENANCE)]).resend
    assert not first.after(known, [ready.changed(state=SliceState.DELETING)]).resend, "it is on its way out"


# The lifecycle.


class WatchedSlice:
    """A slice of two hosts whose watch notifies its lifecycle, which reports to a ledger."""

    def __init__(self, seen: Sighting = HEALTHY) -> None:
        state = ordered(cluster({"name": GROUP, "hosts_per_slice": 2}, cluster=CLUSTER), "s1", group=GROUP)
        lifecycle = initial_lifecycle(state, state.by_id["s1"], state.now)
        assert lifecycle is not None
        self.watch, self.state, self.lifecycle = Watch(), state, lifecycle
        self.look(seen)

    def look(self, seen: Sighting) -> Slice:
        """The slice in the ledger after a look."""
        for one in self.watch.look(seen):
            self.after(Observed(self.watch.at, one))
        return self.state.by_id["s1"]

    def after(self, *events: LifecycleEvent) -> SliceLifecycle:
        """The lifecycle after events, which the ledger hears of."""
        for event in events:
            self.lifecycle = advance(self.lifecycle, event)
        self.state = after_reports(self.state, report_of(self.lifecycle))
        return self.lifecycle


def test_the_ledger_has_the_notice_that_the_last_look_showed() -> None:
    watched = WatchedSlice()
    for notice in (MAINTENANCE, MOVED, PREEMPTION, None):
        piece = watched.look(noticed(notice=notice))
        assert (piece.notice, piece.state, watched.lifecycle.notice) == (notice, READY, notice)


def test_a_notice_is_a_line_in_the_timeline_and_leaves_the_slice_in_its_state() -> None:
    watched = WatchedSlice()
    since, lines = watched.lifecycle.since, len(watched.lifecycle.transitions)
    for notice in (MAINTENANCE, Notice(kind=NoticeKind.RESERVATION_END, until=MOVED.until), None):
        watched.look(noticed(notice=notice))
    assert [(line.state, line.why) for line in watched.lifecycle.transitions[lines:]] == [
        (READY, "the cloud announces maintenance at 2026-01-01 01:00:00Z"),
        (READY, "the cloud announces the end of its reservation at 2026-01-01 02:00:00Z"),
        (READY, "the cloud no longer announces the end of its reservation"),
    ]
    assert (watched.lifecycle.state, watched.lifecycle.since) == (READY, since)
    again = advance(watched.lifecycle, Observed(START, noticed(HEALTHY, None)))
    assert again == watched.lifecycle, "the same word twice changes nothing"


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (sighting(phase=Phase.CREATING), SliceState.REQUESTING),
        (sighting(phase=Phase.BOOTING), SliceState.BOOTING),
        (RUNNING, SliceState.INITIALIZING),
    ],
)
def test_a_slice_on_its_way_has_its_notice_too(seen: Sighting, state: SliceState) -> None:
    piece = WatchedSlice(noticed(seen)).state.by_id["s1"]
    assert (piece.state, piece.notice) == (state, MAINTENANCE)


@pytest.mark.parametrize("kind", [AutoscalerState, SliceLifecycle])
def test_a_notice_survives_the_serialization_of_ledger_and_lifecycle(kind: type[AutoscalerState | SliceLifecycle]) -> None:
    watched = WatchedSlice()
    watched.look(noticed())
    value = watched.state if kind is AutoscalerState else watched.lifecycle
    read = kind.model_validate_json(value.model_dump_json())
    assert read == value
    assert (read.by_id["s1"] if isinstance(read, AutoscalerState) else read).notice == MAINTENANCE


def test_a_state_that_was_written_before_there_were_notices_is_read() -> None:
    written = WatchedSlice().lifecycle.model_dump(mode="json", exclude={"notice"})
    assert SliceLifecycle.model_validate(written).notice is None


def test_a_slice_that_is_lost_in_the_end_fails_as_any_other_and_has_no_notice_once_it_is_gone() -> None:
    watched = WatchedSlice()
    watched.look(noticed(notice=PREEMPTION))
    lifecycle = watched.after(Observed(watched.watch.at, noticed(sighting(phase=Phase.PREEMPTED), PREEMPTION)))
    assert (lifecycle.state, lifecycle.failure and lifecycle.failure.kind) == (SliceState.DELETING, FailureKind.PREEMPTED)
    assert watched.state.by_id["s1"].notice == PREEMPTION
    lifecycle = watched.after(DeletionConfirmed(watched.watch.at))
    assert (lifecycle.state, lifecycle.notice) == (SliceState.FAILED, None)
    assert "s1" not in watched.state.by_id


# The ledger.


def test_a_notice_that_comes_moves_or_goes_calls_for_a_decision() -> None:
    watched = WatchedSlice()
    for notice in (MAINTENANCE, MOVED, None):
        before = watched.state.input_version
        watched.look(noticed(notice=notice))
        assert watched.state.input_version > before
    before = watched.state.input_version
    watched.look(changed(RUNNING, hosts=hosts(None, None, first=7)))
    assert watched.state.input_version == before, "new addresses alone call for none"


def test_a_notice_does_not_end_a_drain_that_the_slice_has_not_heard_of_yet() -> None:
    watched = WatchedSlice()
    terms = DrainTerms(cause=DrainCause.IDLE, number=1)
    piece = watched.state.by_id["s1"].changed(drain=terms)
    watched.state = watched.state.model_copy(update={"slices": (piece,)})
    assert watched.look(noticed()).drain == terms


def test_an_adopted_slice_enters_ledger_and_lifecycle_with_its_notice() -> None:
    state = audited(cluster({"name": GROUP, "hosts_per_slice": 2}, cluster=CLUSTER), orphans=(noticed(),))
    assert state.by_id["s1"].notice == MAINTENANCE
    lifecycle = initial_lifecycle(state, state.by_id["s1"], state.now)
    assert lifecycle is not None
    assert lifecycle.notice == report_of(lifecycle).notice == MAINTENANCE


def test_a_ledger_that_is_recovered_from_reports_has_the_notices() -> None:
    watched = WatchedSlice()
    watched.look(noticed())
    empty = cluster({"name": GROUP, "hosts_per_slice": 2}, cluster=CLUSTER)
    assert after_reports(empty, report_of(watched.lifecycle)).by_id["s1"].notice == MAINTENANCE


# The drain for a notice.


def drain(number: int, cause: str, *, at: float = 0, seconds: float = 600, **rest: Any) -> CommandReceived:
    moment = START + timedelta(seconds=at)
    terms = DrainTerms(cause=cause, number=number, deadline=moment + timedelta(seconds=seconds), **rest)
    return CommandReceived(moment, DrainCommand(slice_id="s1", terms=terms))


def overdue(seconds: float) -> Overdue:
    return Overdue(START + timedelta(seconds=seconds), SliceState.DRAINING)


def test_at_the_deadline_of_a_notice_the_slice_is_deleted_with_work_on_it() -> None:
    watched = WatchedSlice()
    watched.look(noticed())
    lifecycle = watched.after(drain(1, DrainCause.NOTICE, detail="maintenance"), overdue(600))
    assert (lifecycle.state, lifecycle.cause, lifecycle.failure) == (SliceState.DELETING, "notice", None)
    assert lifecycle.transitions[-1].why == "not empty by 2026-01-01 00:10:00Z; notice"


def test_a_drain_for_a_notice_is_forced_however_it_is_written() -> None:
    terms = DrainTerms(cause=DrainCause.NOTICE)
    assert (terms.force, terms.cancellable, terms.needs_confirmation) == (True, False, False)
    assert DrainTerms.model_validate_json('{"cause": "notice", "force": false}').force
    assert not DrainTerms(cause=DrainCause.EXPIRY).force


@pytest.mark.parametrize("cause", [DrainCause.IDLE, DrainCause.PRESSURE, DrainCause.EXPIRY, "noisy fan"])
def test_a_drain_for_a_notice_replaces_any_other_with_its_nearer_deadline(cause: str) -> None:
    watched = WatchedSlice()
    lifecycle = watched.after(drain(1, cause, seconds=3600), drain(2, DrainCause.NOTICE, at=60, seconds=120))
    assert (lifecycle.drain and lifecycle.drain.number, deadline_seconds(lifecycle)) == (2, 120)
    assert watched.after(overdue(180)).state is SliceState.DELETING


def test_nothing_but_force_replaces_a_drain_for_a_notice() -> None:
    watched = WatchedSlice()
    lifecycle = watched.after(drain(1, DrainCause.NOTICE, seconds=60), drain(2, "noisy fan", seconds=3600))
    assert (lifecycle.drain and lifecycle.drain.number, deadline_seconds(lifecycle)) == (1, 60)


def test_a_notice_that_is_moved_moves_the_deadline_of_its_drain() -> None:
    for seconds in (30, 7200):
        lifecycle = WatchedSlice().after(drain(1, DrainCause.NOTICE), drain(2, DrainCause.NOTICE, at=10, seconds=seconds))
        assert deadline_seconds(lifecycle) == seconds
