"""The watch: what slices are notified of, when absence counts as loss, and which hosts are health-checked."""

from collections.abc import Sequence

import pytest

from penstock.core.slices.watch import (
    LastNotified,
    NotifiedTable,
    Unconfirmed,
    due_for_health_check,
    never_notified,
    pack_notified,
    pause_after,
    recalled,
    unpack_notified,
    without_undelivered,
)
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.sightings import Host, HostAddress, Sighting, addresses_digest
from penstock.model.slices import Slice, SliceState
from tests.core.slices.looks import HEALTHY, RULES, RUNNING, SILENT, UNADDRESSED, WELL, Watch, changed, hosts, sighting


def test_a_slice_is_notified_of_changes_and_of_nothing_else() -> None:
    watch = Watch()
    assert [s.phase for s in watch.look(sighting(phase=Phase.BOOTING))] == [Phase.BOOTING]
    assert not watch.look(sighting(phase=Phase.BOOTING))
    assert [s.addressed for s in watch.look(RUNNING)] == [True]
    assert [s.healthy for s in watch.look(HEALTHY)] == [True]
    assert not watch.look(RUNNING), "a look without a health check revokes nothing"
    assert not watch.look(HEALTHY)


def test_a_slice_knows_that_it_is_being_created_and_is_notified_when_it_leaves_a_queue_for_it() -> None:
    assert not Watch().look(sighting(phase=Phase.CREATING))
    watch = Watch()
    watch.look(sighting(phase=Phase.QUEUED))
    assert [s.phase for s in watch.look(sighting(phase=Phase.CREATING))] == [Phase.CREATING]


def test_a_preemption_or_failure_is_notified_at_once_with_the_reason_of_the_cloud() -> None:
    failure = Failure(kind=FailureKind.STOCKOUT, message="no more")
    for phase in (Phase.PREEMPTED, Phase.FAILED, Phase.DELETING):
        (notified,) = Watch(s1=WELL).look(sighting(phase=phase, failure=failure))
        assert (notified.phase, notified.healthy, notified.failure) == (phase, False, failure)


def test_a_loss_takes_several_misses_over_a_least_time() -> None:
    watch = Watch(s1=WELL)
    assert not watch.lost(seconds=1)
    assert not watch.lost(seconds=1)
    assert not watch.lost(seconds=1), "three misses, but within seconds"
    assert watch.lost(seconds=30) == ["s1"]
    assert not watch.lost(), "a loss is notified once"


def test_a_slice_that_vanished_together_with_the_worker_that_watched_it_is_missed() -> None:
    ledger = [Slice(id=state.lower(), group="small", state=state) for state in SliceState]
    forgotten = never_notified({"draining": WELL}, ledger)
    assert [piece.id for piece in forgotten] == ["requesting", "booting", "initializing", "ready"]
    watch = Watch(**recalled({}, forgotten))
    assert not watch.lost(seconds=1)
    assert not watch.lost(seconds=1)
    assert watch.lost(seconds=30) == ["requesting", "booting", "initializing", "ready"]


def test_a_host_that_died_together_with_the_worker_that_watched_it_is_lost() -> None:
    watch = Watch()
    assert [s.healthy for s in watch.look(SILENT)] == [False], "for a watch without memory the slice may be starting"
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    notified = [one for _ in range(5) for one in watch.look(SILENT)]
    assert [s.lost_hosts for s in notified] == [(1,)]
    again = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    assert again == watch.known, "a slice that was notified of lost hosts is not healthy"


def test_a_starting_slice_is_notified_when_it_is_healthy_whatever_the_ledger_shows() -> None:
    watch = Watch(s1=LastNotified("small", Phase.BOOTING))
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.INITIALIZING)])
    assert [s.healthy for s in watch.look(HEALTHY)] == [True]


def test_time_alone_is_not_enough_either() -> None:
    watch = Watch(s1=WELL)
    assert not watch.lost(seconds=60)
    assert not watch.lost(seconds=60)
    assert watch.lost(seconds=60) == ["s1"]


def test_a_slice_that_is_listed_again_was_never_missing() -> None:
    watch = Watch(s1=WELL)
    for _ in range(5):
        assert not watch.lost(seconds=60)
        assert not watch.look(RUNNING, seconds=60)


def test_an_incomplete_listing_shows_what_exists_and_not_what_is_missing() -> None:
    watch = Watch(s1=WELL, s2=WELL)
    for _ in range(10):
        assert not watch.look(RUNNING, seconds=60, complete=False)
    assert watch.known["s2"] == WELL
    assert [s.phase for s in watch.look(changed(RUNNING, phase=Phase.PREEMPTED), complete=False)] == [Phase.PREEMPTED]


def test_a_slice_that_was_being_deleted_is_gone_at_the_first_complete_listing_without_it() -> None:
    watch = Watch(s1=WELL)
    watch.look(sighting(phase=Phase.DELETING))
    assert not watch.lost(seconds=1, complete=False)
    assert watch.lost(seconds=1) == ["s1"]


def test_a_slice_that_was_never_seen_is_never_lost() -> None:
    assert not Watch().lost(seconds=600)


def test_silent_hosts_of_a_healthy_slice_are_lost_only_after_as_many_looks_and_as_much_time() -> None:
    watch = Watch(s1=WELL)
    for _ in range(3):
        assert not watch.look(SILENT, seconds=1)
    (notified,) = watch.look(SILENT, seconds=30)
    assert (notified.healthy, notified.lost_hosts) == (False, (1,))
    assert not watch.look(SILENT)
    (notified,) = watch.look(HEALTHY)
    assert (notified.healthy, notified.lost_hosts) == (True, ())


def test_a_notification_of_lost_hosts_carries_the_reason_of_the_cloud() -> None:
    maintenance = Failure(kind=FailureKind.PREEMPTED, message="maintenance")
    watch = Watch(s1=WELL)
    for _ in range(3):
        assert not watch.look(changed(SILENT, failure=maintenance), seconds=1)
    (notified,) = watch.look(changed(SILENT, failure=maintenance), seconds=30)
    assert (notified.lost_hosts, notified.failure) == ((1,), maintenance)


def test_one_answer_ends_the_silence() -> None:
    watch = Watch(s1=WELL)
    for _ in range(5):
        assert not watch.look(SILENT, seconds=60)
        assert not watch.look(SILENT, seconds=60)
        assert not watch.look(HEALTHY, seconds=60)


def test_hosts_that_never_answered_are_starting_not_lost() -> None:
    watch = Watch()
    watch.look(RUNNING)
    for _ in range(5):
        assert not watch.look(SILENT, seconds=60)


@pytest.mark.parametrize(
    "fallen",
    [
        changed(RUNNING, hosts=UNADDRESSED),
        changed(RUNNING, phase=Phase.BOOTING),
        sighting(phase=Phase.CREATING, hosts=(Host(), Host())),
        sighting(phase=Phase.QUEUED, hosts=(Host(), Host())),
    ],
    ids=["a host without an address", "booting", "creating", "queued"],
)
def test_a_once_healthy_slice_in_an_earlier_phase_is_checked_and_lost_after_a_long_silence(fallen: Sighting) -> None:
    watch = Watch(s1=WELL)
    assert not watch.look(fallen, seconds=600), "hosts that were not checked may still answer"
    assert due(watch.known, fallen, s1=985.0) == ("s1",)
    silent = changed(fallen, checked=True)
    assert not watch.look(silent, seconds=10)
    assert due(watch.known, fallen, s1=999.0) == ("s1",), "a slice with silent hosts is checked at every look"
    assert not watch.look(silent, seconds=10)
    assert not watch.look(fallen, seconds=10)
    (notified,) = watch.look(silent, seconds=30)
    assert (notified.healthy, notified.lost_hosts) == (False, (0, 1))


def test_hosts_that_answer_run_whatever_phase_the_cloud_shows() -> None:
    watch = Watch(s1=WELL)
    booting, answering = (changed(seen, phase=Phase.BOOTING) for seen in (RUNNING, HEALTHY))
    for _ in range(5):
        assert not watch.look(booting, seconds=60)
        assert not watch.look(answering, seconds=60)
    assert watch.known == {"s1": WELL}
    (notified,) = Watch().look(answering)
    assert (notified.phase, notified.healthy) == (Phase.RUNNING, True)


def test_a_slice_that_was_never_healthy_is_starting_in_any_phase() -> None:
    for phase in (Phase.QUEUED, Phase.CREATING, Phase.BOOTING, Phase.RUNNING):
        watch = Watch(s1=LastNotified("small", phase))
        seen = sighting(phase=phase)
        for _ in range(5):
            assert not watch.look(seen, seconds=60)
            assert not due(watch.known, seen)


def test_a_machine_that_went_together_with_the_worker_that_watched_it_is_lost() -> None:
    fallen = sighting(phase=Phase.BOOTING, hosts=(Host(),))
    watch = Watch()
    watch.look(fallen)
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    assert due(watch.known, fallen) == ("s1",)
    notified = [one for _ in range(5) for one in watch.look(changed(fallen, checked=True))]
    assert [s.lost_hosts for s in notified] == [(0,)]


def test_a_notification_of_healthy_hosts_carries_no_reason_for_silence() -> None:
    maintenance = Failure(kind=FailureKind.PREEMPTED, message="maintenance")
    (notified,) = Watch().look(changed(HEALTHY, failure=maintenance))
    assert (notified.healthy, notified.failure) == (True, None)


def test_of_two_resources_of_one_slice_the_one_that_is_most_alive_counts() -> None:
    (notified,) = Watch().look(RUNNING, changed(RUNNING, phase=Phase.DELETING))
    assert notified.phase is Phase.RUNNING


def test_an_undelivered_notification_is_sent_again() -> None:
    watch = Watch(s1=WELL)
    before = watch.known
    seen = sighting(phase=Phase.PREEMPTED), sighting("s2", Phase.BOOTING)
    watch.look(*seen)
    watch.known = without_undelivered(before, watch.known, ["s1", "s2"])
    assert [s.phase for s in watch.look(*seen)] == [Phase.PREEMPTED, Phase.BOOTING]


def due(known: NotifiedTable, *seen: Sighting, at: float = 1000.0, elapsed: float = 0.0, **asked: float) -> Sequence[str]:
    return due_for_health_check(known, seen, asked=asked, at=at, rules=RULES, elapsed=elapsed)


def test_hosts_are_checked_at_every_look_until_they_are_healthy_and_then_in_turn() -> None:
    assert due({}, RUNNING) == ("s1",)
    assert due({"s1": WELL._replace(healthy=False)}, RUNNING, s1=999.0) == ("s1",)
    assert due({"s1": WELL._replace(silences=1)}, RUNNING, s1=999.0) == ("s1",)
    assert due({"s1": WELL}, RUNNING, s1=990.0) == ()
    assert due({"s1": WELL}, RUNNING, s1=985.0) == ("s1",)
    assert due({}, changed(RUNNING, hosts=UNADDRESSED), sighting("s2", Phase.BOOTING)) == ()


def test_a_sweep_of_thousands_is_spread() -> None:
    seen = [sighting(f"s{i}", hosts=hosts(None)) for i in range(5000)]
    known = {one.slice_id: WELL for one in seen}
    assert len(due(known, *seen)) == 16
    assert len(due(known, *seen, elapsed=15.0)) == 16 + 15 * 50
    assert not due(known, *seen, at=1000.0, **{one.slice_id: 901.0 for one in seen}), "5,000 at 50 a second take 100 s"


def test_looks_are_close_together_while_a_slice_is_starting_or_leaving() -> None:
    assert pause_after({}, RULES) == 15
    assert pause_after({"s1": WELL, "s2": LastNotified("small", Phase.QUEUED)}, RULES) == 15
    for unsettled in (
        LastNotified("small", Phase.BOOTING),
        WELL._replace(healthy=False),
        WELL._replace(misses=1),
        WELL._replace(silences=1),
        LastNotified("small", Phase.DELETING),
    ):
        assert pause_after({"s1": WELL, "s2": unsettled}, RULES) == 2


def test_a_slice_whose_state_lags_its_last_notification_is_unconfirmed() -> None:
    def confirmed(state: SliceState, known: LastNotified) -> bool:
        return not Unconfirmed().after({"s1": known}, [Slice(id="s1", group="small", state=state)]).until_next

    assert confirmed(SliceState.READY, WELL)
    assert confirmed(SliceState.DRAINING, WELL)
    assert not confirmed(SliceState.INITIALIZING, WELL)
    assert confirmed(SliceState.INITIALIZING, WELL._replace(healthy=False))
    assert not confirmed(SliceState.READY, LastNotified("small", Phase.PREEMPTED))
    assert confirmed(SliceState.DELETING, LastNotified("small", Phase.PREEMPTED))
    assert not confirmed(SliceState.READY, WELL._replace(healthy=False, lost_hosts=(1,)))
    assert not Unconfirmed().after({}, [Slice(id="s1", group="small", state=SliceState.READY)]).until_next


def test_a_ledger_that_lags_at_one_audit_makes_no_notification_be_sent_again() -> None:
    behind = [Slice(id="s1", group="small", state=SliceState.INITIALIZING)]
    caught_up = [Slice(id="s1", group="small", state=SliceState.READY)]
    unconfirmed = Unconfirmed().after({"s1": WELL}, behind)
    assert not unconfirmed.resend
    assert unconfirmed.after({"s1": WELL}, caught_up) == Unconfirmed()
    assert unconfirmed.after({"s1": WELL}, behind) == Unconfirmed(resend=frozenset({"s1"}))


def test_the_table_survives_packing() -> None:
    known = {
        "s1": WELL,
        "s2": LastNotified("large", Phase.DELETING, misses=2, missing_since=12.5),
        "s3": LastNotified("small", Phase.RUNNING, addressed=True, lost_hosts=(0, 3), silences=4, silent_since=3.25),
        "s4": WELL._replace(addresses=2**32 - 1, silences=1, silent_since=2.5),
    }
    assert WELL.addresses
    assert unpack_notified(pack_notified(known)) == known
    assert unpack_notified(pack_notified({})) == {}


def test_the_table_of_five_thousand_slices_takes_less_than_a_hundred_kilobytes() -> None:
    ids = [f"v5e-16-us-east1-{i % 7}-260101-12{i % 60:02}{i * 7 % 60:02}-{(i * 2654435761) % 2**32:08x}" for i in range(5000)]
    known = {
        slice_id: LastNotified(
            slice_id.rsplit("-", 3)[0],
            Phase.RUNNING,
            addressed=True,
            healthy=i % 3 > 0,
            addresses=addresses_digest([HostAddress(name="host-0", address=f"10.0.{i // 250}.{i % 250}")]),
        )
        for i, slice_id in enumerate(ids)
    }
    packed = pack_notified(known)
    assert len(packed) < 100_000
    assert unpack_notified(packed) == known
