"""Slices that join their controller, and slices that it never names though it reports usage."""

import pytest

from penstock.contract.slices import CancelDrainCommand
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.explain import explain
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import status_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import AnyEvent, Decided, RecoveryBegan, SlicesReported
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, SliceState
from tests.core.state.ledgers import after_reports, cluster, later, ordered, report
from tests.core.state.test_sources import GRACE, IDLE, running, says, wants

LATE = GRACE + 20


def two(*events: AnyEvent, **config: str) -> AutoscalerState:
    """Two READY slices of a group, since moment 10, and what happens then."""
    state = ordered(cluster(**config), "a", "b")
    ready = (report(name, SliceState.READY, 1, at=later(10)) for name in ("a", "b"))
    return replay(events, after_reports(state, *ready, at=later(10)))


def unclaimed(state: AutoscalerState) -> list[str]:
    return [piece.id for piece in state.slices if piece.is_unclaimed]


def test_a_slice_is_unclaimed_once_a_source_that_named_others_of_its_group_reported_for_longer_than_the_grace() -> None:
    events = [says(10, a=IDLE), says(10 + GRACE)]
    assert unclaimed(two(*events)) == []
    assert unclaimed(two(*events, says(11 + GRACE))) == ["b"]


def test_a_source_for_whose_demand_a_slice_was_launched_should_name_it_too() -> None:
    start = apply(cluster({"name": "g"}, {"name": "h"}), wants("t"))
    orders = evaluate(start, now=later(0), chance=lambda: "00000000").orders
    bought = apply(start, Decided(at=later(0), orders=orders))
    (piece,) = bought.slices
    state = after_reports(bought, report(piece.id, SliceState.READY, 1, at=later(10)), at=later(10))
    elsewhere = after_reports(ordered(state, "x", group="h"), report("x", SliceState.READY, 1, group="h"))
    heard = replay([says(12, x=IDLE), says(LATE)], elsewhere)
    assert unclaimed(heard) == [piece.id]


def test_one_report_after_an_outage_is_no_evidence_because_the_controller_could_not_have_seen_the_slice() -> None:
    state = apply(two(), says(1000, a=IDLE))
    assert unclaimed(state) == []
    assert state.input_version == two().input_version + 1
    assert unclaimed(apply(state, says(1001 + GRACE))) == ["b"]


def test_a_source_that_knows_nothing_like_the_slice_says_nothing_about_it() -> None:
    state = ordered(cluster({"name": "g"}, {"name": "h"}), "a")
    state = after_reports(state, report("a", SliceState.READY, 1, at=later(10)), at=later(10))
    state = after_reports(ordered(state, "x", group="h"), report("x", SliceState.READY, 1, group="h"))
    assert unclaimed(replay([says(12, x=IDLE), says(1000)], state)) == []


def test_silence_makes_no_slice_unclaimed() -> None:
    state = two(says(11, a=IDLE))
    assert unclaimed(apply(state, wants("t", at=86400))) == []
    assert unclaimed(two(says(11), says(1000))) == []


def test_after_a_silence_or_a_restart_a_controller_gets_the_grace_anew() -> None:
    silent = [says(11, a=IDLE), says(86400)]
    assert unclaimed(two(*silent)) == []
    assert unclaimed(two(*silent, says(86401 + GRACE))) == ["b"]
    again = [says(11, epoch=1, a=IDLE), says(LATE - 1, epoch=2, a=IDLE)]
    assert unclaimed(two(*again)) == []
    assert unclaimed(two(*again, says(2 * LATE, epoch=2))) == ["b"]


def test_lost_usage_makes_no_slice_unclaimed_before_it_was_sent_again() -> None:
    began = RecoveryBegan(at=later(20), id="r", reason="reset")
    over = two(says(11, epoch=1, a=IDLE), began).model_copy(update={"recovery": None})
    assert unclaimed(replay([says(1000, epoch=1), says(1001, epoch=1)], over)) == []
    again = replay([says(1000, epoch=2, a=IDLE)], over)
    assert unclaimed(again) == []
    assert unclaimed(apply(again, says(1001 + GRACE, epoch=2))) == ["b"]


def test_an_unclaimed_slice_is_an_alert_and_a_failure_of_its_group_once() -> None:
    state = two(says(11, a=running()), says(LATE), says(LATE + 1), says(LATE + 30))
    status = status_of(state)
    group = status.groups[0]
    assert (group.unclaimed, group.unclaimed_since, group.unreported) == (1, later(LATE), 0)
    assert [failed.failure.kind for failed in status.recent_failures] == [FailureKind.UNCLAIMED]
    assert (group.availability, group.until) == (Availability.BACKOFF, later(LATE + 60))


def test_replacements_back_off_for_longer_each_time() -> None:
    state = two(says(11, a=running()), says(LATE))
    state = after_reports(ordered(state, "c"), report("c", SliceState.READY, 1, at=later(LATE + 70)), at=later(LATE + 70))
    state = replay([says(LATE + 70), says(LATE + 71 + GRACE)], state)
    assert status_of(state).groups[0].until == later(LATE + 71 + GRACE + 120)


def test_an_evaluation_is_due_when_a_slice_becomes_unclaimed() -> None:
    before = two(says(11, a=running()), wants("t", at=12))
    after = apply(before, says(LATE))
    assert after.input_version == before.input_version + 1
    assert decide(snapshot_of(before).snapshot).placed
    assert not decide(snapshot_of(after).snapshot).placed


def test_explain_says_that_a_slice_did_not_join() -> None:
    text = explain(two(says(11, a=IDLE), wants("t", at=12), says(LATE)), "t", now=later(LATE + 60)).text
    assert "1 READY slice has not joined (b), for up to 1m: a controller reports usage and names other slices" in text


def test_explain_says_so_too_if_the_slice_keeps_its_group_at_the_maximum() -> None:
    state = two(says(11, a=running()), wants("t", at=12), says(LATE))
    assert state.config is not None
    full = tuple(group.model_copy(update={"max_slices": 2}) for group in state.config.groups)
    found = explain(state.model_copy(update={"config": state.config.model_copy(update={"groups": full})}), "t", now=later(LATE))
    assert "1 READY slice has not joined (b)" in found.text


def test_a_slice_that_is_named_later_joins_after_all_and_ends_the_backoff() -> None:
    state = two(says(11, a=IDLE), says(LATE), says(LATE + 5, b=IDLE))
    assert (unclaimed(state), state.by_id["b"].joined, state.blocks) == ([], True, ())
    assert status_of(state).groups[0].availability is Availability.AVAILABLE


def test_a_slice_that_a_complete_report_no_longer_names_has_joined_all_the_same() -> None:
    withdrawn = says(20, a=IDLE).model_copy(update={"complete": True})
    assert unclaimed(two(says(11, a=IDLE, b=IDLE), withdrawn, says(1000))) == []


def drained() -> AutoscalerState:
    """A slice that did not join and is given up."""
    state = two(says(11, a=running()), says(LATE), unclaimed_after="5m")
    assert evaluate(state, now=later(LATE + 299), chance=str).orders.drains == ()
    orders = evaluate(state, now=later(LATE + 300), chance=str).orders
    return apply(state, Decided(at=later(LATE + 300), orders=orders))


def test_an_unclaimed_slice_drains_after_unclaimed_after_and_is_deleted_at_the_deadline() -> None:
    drain = drained().by_id["b"].drain
    assert drain is not None
    assert (drain.cause, drain.force) == ("no controller has named it", True)


@pytest.mark.parametrize("usage", [IDLE, running("t")])
def test_a_slice_that_is_named_while_it_drains_unclaimed_is_kept(usage: tuple[()]) -> None:
    state = apply(drained(), says(LATE + 310, b=usage))
    assert state.by_id["b"].drain is None
    assert state.outbox[-1] == CancelDrainCommand(slice_id="b", number=1)


def test_a_slice_that_returns_to_ready_is_judged_anew() -> None:
    state = two(says(11, a=running()), says(LATE))
    back = report("b", SliceState.READY, 4, at=later(LATE + 50))
    assert unclaimed(apply(state, SlicesReported(at=later(LATE + 50), reports=(back,)))) == []
