"""The watch: what slices are told, when absence is believed, and whose hosts are asked."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from penstock.contract.inventories import Sighting
from penstock.core.slices.watch import (
    Glimpse,
    LastNotified,
    NotifiedTable,
    Unconfirmed,
    due_for_health_check,
    never_notified,
    pack_notified,
    pause_after,
    recalled,
    reconcile,
    unpack_notified,
    without_undelivered,
)
from penstock.model.cluster import InventoryRules
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.slices import Slice, SliceState

RULES = InventoryRules.model_validate({"look": "2s", "rest": "15s", "lost_misses": 3, "lost_after": "30s"})
START = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Glimpse("s1", "small", Phase.RUNNING, addressed=True)
HEALTHY = RUNNING._replace(healthy=True)
SILENT = RUNNING._replace(healthy=False, silent=(1,))
WELL = LastNotified("small", Phase.RUNNING, addressed=True, healthy=True)


class Watch:
    """Looks one after another; every telling is delivered."""

    def __init__(self, **known: LastNotified) -> None:
        self.known: NotifiedTable = dict(known)
        self.at = START

    def look(self, *glimpses: Glimpse, seconds: float = 10, complete: bool = True) -> Sequence[Sighting]:
        self.at += timedelta(seconds=seconds)
        self.known, tellings = reconcile(self.known, glimpses, complete=complete, at=self.at, rules=RULES)
        return [telling.sighting for telling in tellings]


def test_a_slice_is_told_what_is_news_and_nothing_else() -> None:
    watch = Watch()
    assert [s.phase for s in watch.look(Glimpse("s1", "small", Phase.BOOTING))] == [Phase.BOOTING]
    assert not watch.look(Glimpse("s1", "small", Phase.BOOTING))
    assert [s.addressed for s in watch.look(RUNNING)] == [True]
    assert [s.healthy for s in watch.look(HEALTHY)] == [True]
    assert not watch.look(RUNNING), "a look that did not ask its hosts takes nothing back"
    assert not watch.look(HEALTHY)


def test_a_slice_knows_that_it_is_being_created_and_is_told_when_it_leaves_a_queue_for_it() -> None:
    assert not Watch().look(Glimpse("s1", "small", Phase.CREATING))
    watch = Watch()
    watch.look(Glimpse("s1", "small", Phase.QUEUED))
    assert [s.phase for s in watch.look(Glimpse("s1", "small", Phase.CREATING))] == [Phase.CREATING]


def test_preempted_and_failed_are_told_at_once_with_what_the_cloud_said() -> None:
    failure = Failure(kind=FailureKind.STOCKOUT, message="no more")
    for phase in (Phase.PREEMPTED, Phase.FAILED, Phase.DELETING):
        (told,) = Watch(s1=WELL).look(Glimpse("s1", "small", phase, failure=failure))
        assert (told.phase, told.healthy, told.failure) == (phase, False, failure)


def test_what_the_cloud_lost_takes_several_misses_over_a_least_time() -> None:
    watch = Watch(s1=WELL)
    assert not watch.look(seconds=1)
    assert not watch.look(seconds=1)
    assert not watch.look(seconds=1), "three misses, but within seconds"
    assert [s.phase for s in watch.look(seconds=30)] == [Phase.GONE]
    assert not watch.look(), "what is gone is told once"


def test_what_vanished_together_with_the_worker_that_watched_it_is_missed_all_the_same() -> None:
    ledger = [Slice(id=state.lower(), group="small", state=state) for state in SliceState]
    unheard = never_notified({"draining": WELL}, ledger)
    assert [piece.id for piece in unheard] == ["requesting", "booting", "initializing", "ready"]
    watch = Watch(**recalled({}, unheard))
    assert not watch.look(seconds=1)
    assert not watch.look(seconds=1)
    assert [s.phase for s in watch.look(seconds=30)] == [Phase.GONE] * 4


def test_a_host_that_died_together_with_the_worker_that_watched_it_is_lost_all_the_same() -> None:
    watch = Watch()
    assert [s.healthy for s in watch.look(SILENT)] == [False], "to a watch that remembers nothing it may be about to start"
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    told = [sighting for _ in range(5) for sighting in watch.look(SILENT)]
    assert [s.silent_hosts for s in told] == [(1,)]
    again = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    assert again == watch.known, "who was told that hosts are silent is not well"


def test_what_comes_up_is_told_when_it_is_well_whatever_the_ledger_says() -> None:
    watch = Watch(s1=LastNotified("small", Phase.BOOTING))
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.INITIALIZING)])
    assert [s.healthy for s in watch.look(HEALTHY)] == [True]


def test_time_alone_is_not_enough_either() -> None:
    watch = Watch(s1=WELL)
    assert not watch.look(seconds=60)
    assert not watch.look(seconds=60)
    assert [s.phase for s in watch.look(seconds=60)] == [Phase.GONE]


def test_a_slice_that_shows_again_was_never_missing() -> None:
    watch = Watch(s1=WELL)
    for _ in range(5):
        assert not watch.look(seconds=60)
        assert not watch.look(RUNNING, seconds=60)


def test_a_partial_list_is_evidence_of_presence_and_none_of_absence() -> None:
    watch = Watch(s1=WELL, s2=WELL)
    for _ in range(10):
        assert not watch.look(RUNNING, seconds=60, complete=False)
    assert watch.known["s2"] == WELL
    assert [s.phase for s in watch.look(RUNNING._replace(phase=Phase.PREEMPTED), complete=False)] == [Phase.PREEMPTED]


def test_what_was_being_deleted_is_gone_at_the_first_complete_list_without_it() -> None:
    watch = Watch(s1=WELL)
    watch.look(Glimpse("s1", "small", Phase.DELETING))
    assert not watch.look(seconds=1, complete=False)
    assert [s.phase for s in watch.look(seconds=1)] == [Phase.GONE]


def test_what_was_never_seen_is_never_said_to_be_gone() -> None:
    assert not Watch().look(seconds=600)


def test_silent_hosts_of_a_healthy_slice_take_as_much_to_believe() -> None:
    watch = Watch(s1=WELL)
    for _ in range(3):
        assert not watch.look(SILENT, seconds=1)
    (told,) = watch.look(SILENT, seconds=30)
    assert (told.healthy, told.silent_hosts) == (False, (1,))
    assert not watch.look(SILENT)
    (told,) = watch.look(HEALTHY)
    assert (told.healthy, told.silent_hosts) == (True, ())


def test_who_is_told_of_silent_hosts_is_told_why_they_are_silent() -> None:
    mended = Failure(kind=FailureKind.PREEMPTED, message="maintenance")
    watch = Watch(s1=WELL)
    for _ in range(3):
        assert not watch.look(SILENT._replace(failure=mended), seconds=1)
    (told,) = watch.look(SILENT._replace(failure=mended), seconds=30)
    assert (told.silent_hosts, told.failure) == ((1,), mended)


def test_one_answer_ends_the_silence() -> None:
    watch = Watch(s1=WELL)
    for _ in range(5):
        assert not watch.look(SILENT, seconds=60)
        assert not watch.look(SILENT, seconds=60)
        assert not watch.look(HEALTHY, seconds=60)


def test_hosts_that_never_answered_are_starting_up_not_silent() -> None:
    watch = Watch()
    watch.look(RUNNING)
    for _ in range(5):
        assert not watch.look(SILENT, seconds=60)


@pytest.mark.parametrize(
    "fallen",
    [
        RUNNING._replace(addressed=False),
        RUNNING._replace(phase=Phase.BOOTING),
        Glimpse("s1", "small", Phase.CREATING),
        Glimpse("s1", "small", Phase.QUEUED),
    ],
    ids=["a host without an address", "booting", "creating", "queued"],
)
def test_a_slice_that_was_well_and_falls_back_is_asked_and_lost_once_its_hosts_were_silent_for_long(fallen: Glimpse) -> None:
    watch = Watch(s1=WELL)
    assert not watch.look(fallen, seconds=600), "what was not asked may answer all the same"
    assert asked(watch.known, fallen, s1=985.0) == ("s1",)
    silent = fallen._replace(healthy=False, silent=(1,))
    assert not watch.look(silent, seconds=10)
    assert asked(watch.known, fallen, s1=999.0) == ("s1",), "one that was silent is asked at every look"
    assert not watch.look(silent, seconds=10)
    assert not watch.look(fallen, seconds=10)
    (told,) = watch.look(silent, seconds=30)
    assert (told.healthy, told.silent_hosts) == (False, (1,))


def test_hosts_that_answer_run_whatever_the_cloud_says() -> None:
    watch = Watch(s1=WELL)
    booting = RUNNING._replace(phase=Phase.BOOTING)
    for _ in range(5):
        assert not watch.look(booting, seconds=60)
        assert not watch.look(booting._replace(healthy=True), seconds=60)
    assert watch.known == {"s1": WELL}
    (told,) = Watch().look(booting._replace(healthy=True))
    assert (told.phase, told.healthy) == (Phase.RUNNING, True)


def test_a_slice_that_never_was_well_is_starting_up_whatever_it_shows() -> None:
    for phase in (Phase.QUEUED, Phase.CREATING, Phase.BOOTING, Phase.RUNNING):
        watch = Watch(s1=LastNotified("small", phase))
        shown = Glimpse("s1", "small", phase)
        for _ in range(5):
            assert not watch.look(shown, seconds=60)
            assert not asked(watch.known, shown)


def test_a_machine_that_went_together_with_the_worker_that_watched_it_is_lost_all_the_same() -> None:
    fallen = Glimpse("s1", "small", Phase.BOOTING)
    watch = Watch()
    watch.look(fallen)
    watch.known = recalled(watch.known, [Slice(id="s1", group="small", state=SliceState.READY)])
    assert asked(watch.known, fallen) == ("s1",)
    told = [sighting for _ in range(5) for sighting in watch.look(fallen._replace(healthy=False, silent=(0,)))]
    assert [s.silent_hosts for s in told] == [(0,)]


def test_what_would_explain_silence_is_not_told_of_hosts_that_answer() -> None:
    mended = Failure(kind=FailureKind.PREEMPTED, message="maintenance")
    (told,) = Watch().look(HEALTHY._replace(failure=mended))
    assert (told.healthy, told.failure) == (True, None)


def test_of_two_resources_of_one_slice_the_livelier_speaks() -> None:
    (told,) = Watch().look(RUNNING, RUNNING._replace(phase=Phase.DELETING))
    assert told.phase is Phase.RUNNING


def test_who_did_not_hear_is_told_again() -> None:
    watch = Watch(s1=WELL)
    before = watch.known
    watch.look(Glimpse("s1", "small", Phase.PREEMPTED), Glimpse("s2", "small", Phase.BOOTING))
    watch.known = without_undelivered(before, watch.known, ["s1", "s2"])
    told = watch.look(Glimpse("s1", "small", Phase.PREEMPTED), Glimpse("s2", "small", Phase.BOOTING))
    assert [s.phase for s in told] == [Phase.PREEMPTED, Phase.BOOTING]


def asked(known: NotifiedTable, *glimpses: Glimpse, at: float = 1000.0, elapsed: float = 0.0, **times: float) -> Sequence[str]:
    return due_for_health_check(known, glimpses, asked=times, at=at, rules=RULES, elapsed=elapsed)


def test_hosts_are_asked_at_every_look_until_they_are_well_and_then_in_turn() -> None:
    assert asked({}, RUNNING) == ("s1",)
    assert asked({"s1": WELL._replace(healthy=False)}, RUNNING, s1=999.0) == ("s1",)
    assert asked({"s1": WELL._replace(silences=1)}, RUNNING, s1=999.0) == ("s1",)
    assert asked({"s1": WELL}, RUNNING, s1=990.0) == ()
    assert asked({"s1": WELL}, RUNNING, s1=985.0) == ("s1",)
    assert asked({}, RUNNING._replace(addressed=False), Glimpse("s2", "small", Phase.BOOTING)) == ()


def test_a_sweep_of_thousands_is_spread() -> None:
    glimpses = [RUNNING._replace(slice_id=f"s{i}") for i in range(5000)]
    known = {glimpse.slice_id: WELL for glimpse in glimpses}
    assert len(asked(known, *glimpses)) == 16
    assert len(asked(known, *glimpses, elapsed=15.0)) == 16 + 15 * 50
    assert not asked(known, *glimpses, at=1000.0, **{g.slice_id: 901.0 for g in glimpses}), "5,000 at 50 a second take 100 s"


def test_looks_are_close_together_while_something_is_on_its_way() -> None:
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


def test_a_slice_whose_state_does_not_show_what_it_was_told_is_told_again() -> None:
    def told(state: SliceState, known: LastNotified) -> bool:
        return not Unconfirmed().after({"s1": known}, [Slice(id="s1", group="small", state=state)]).until_next

    assert told(SliceState.READY, WELL)
    assert told(SliceState.DRAINING, WELL)
    assert not told(SliceState.INITIALIZING, WELL)
    assert told(SliceState.INITIALIZING, WELL._replace(healthy=False))
    assert not told(SliceState.READY, LastNotified("small", Phase.PREEMPTED))
    assert told(SliceState.DELETING, LastNotified("small", Phase.PREEMPTED))
    assert not told(SliceState.READY, WELL._replace(healthy=False, silent=(1,)))
    assert not Unconfirmed().after({}, [Slice(id="s1", group="small", state=SliceState.READY)]).until_next


def test_a_ledger_that_lags_behind_one_audit_makes_nobody_be_told_again() -> None:
    behind = [Slice(id="s1", group="small", state=SliceState.INITIALIZING)]
    caught_up = [Slice(id="s1", group="small", state=SliceState.READY)]
    doubts = Unconfirmed().after({"s1": WELL}, behind)
    assert not doubts.tell_again
    assert doubts.after({"s1": WELL}, caught_up) == Unconfirmed()
    assert doubts.after({"s1": WELL}, behind) == Unconfirmed(tell_again=frozenset({"s1"}))


def test_what_is_known_survives_packing() -> None:
    known = {
        "s1": WELL,
        "s2": LastNotified("large", Phase.DELETING, misses=2, missing_since=12.5),
        "s3": LastNotified("small", Phase.RUNNING, addressed=True, silent=(0, 3), silences=4, silent_since=3.25),
    }
    assert unpack_notified(pack_notified(known)) == known
    assert unpack_notified(pack_notified({})) == {}


def test_five_thousand_slices_are_known_in_a_hundred_kilobytes() -> None:
    ids = [f"v5e-16-us-east1-{i % 7}-260101-12{i % 60:02}{i * 7 % 60:02}-{(i * 2654435761) % 2**32:08x}" for i in range(5000)]
    known = {slice_id: LastNotified(slice_id.rsplit("-", 3)[0], Phase.RUNNING, True, i % 3 > 0) for i, slice_id in enumerate(ids)}
    packed = pack_notified(known)
    assert len(packed) < 100_000
    assert unpack_notified(packed) == known
