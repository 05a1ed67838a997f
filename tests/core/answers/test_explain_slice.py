"""Explanations of slices: why one is kept and when it goes, or why it is going, compared word for word."""

from datetime import timedelta
from typing import Any

from penstock.contract.messages import SlicesRequest
from penstock.contract.slice_answers import SliceExplanation, SliceOutlook
from penstock.core.answers.about_slices import about_slices
from penstock.core.answers.as_of import explain_slice_as_of
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.status import page_of
from penstock.core.state.apply import apply
from penstock.core.state.events import Paused
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import KeptCode
from penstock.model.slices import DrainTerms, HostState, HostUsage, Slice, SliceState
from tests.core.answers.test_explain import CPU, NOW, ready, state, task

IDLE = (HostUsage(state=HostState.IDLE),)


def idle(minutes: float, **config: Any) -> AutoscalerState:
    piece = ready("s").changed(idle_since=NOW - timedelta(minutes=minutes))
    return state([], CPU | config, slices=(piece,), usage={"s": IDLE})


def draining(**terms: Any) -> SliceExplanation:
    drain = DrainTerms(cause="idle", number=7, deadline=NOW + timedelta(minutes=5), **terms)
    piece = ready("s").changed(state=SliceState.DRAINING, since=NOW - timedelta(minutes=2), drain=drain)
    return explain_slice(state([], CPU, slices=(piece,), usage={"s": IDLE}), "s")


def test_a_slice_that_nothing_needs_says_when_it_goes() -> None:
    found = explain_slice(idle(4), "s")
    assert (found.status, found.group, found.goes_at) == (SliceOutlook.KEPT, "cpu", NOW + timedelta(minutes=6))
    assert [reason.code for reason in found.reasons] == [KeptCode.IDLE_TIMEOUT]
    assert found.text == (
        "Slice s of cpu is kept (READY for 1h): nothing needs it; it has been idle since 2026-11-16 11:56:00Z, less than 10m."
        " If nothing changes, it drains at 2026-11-16 12:06:00Z (in 6m)."
    )


def test_a_slice_that_something_needs_stays_as_long_as_that_holds() -> None:
    found = explain_slice(idle(30, min_slices=1, warm_slices=1), "s")
    assert (found.status, found.goes_at) == (SliceOutlook.KEPT, None)
    assert found.text == (
        "Slice s of cpu is kept (READY for 1h): its group has a minimum of 1 slice; its group keeps 1 warm slice."
        " As long as any of this holds, it stays."
    )


def test_a_slice_on_its_way_says_what_it_is_for() -> None:
    booting = Slice(id="s", group="cpu", state=SliceState.BOOTING, since=NOW - timedelta(minutes=3))
    found = explain_slice(state([task("t", cpu=1)], slices=(booting,)), "s")
    assert found.status is SliceOutlook.STARTING
    assert found.text == (
        "Slice s of cpu is on its way (BOOTING for 3m) and stays: 1 waiting task is placed on it."
        " As long as this holds, it stays."
    )


def test_a_drain_says_its_cause_its_number_and_what_happens_at_its_deadline() -> None:
    found = draining()
    assert (found.status, found.goes_at) == (SliceOutlook.GOING, None)
    assert found.drain is not None
    assert found.text == (
        "Slice s of cpu is going: it has been draining for 2m (idle; drain 7). It is deleted as soon as its controller confirms"
        " that it is empty. Otherwise it is deleted at its deadline, 2026-11-16 12:05:00Z (in 5m), if usage shows it idle since"
        " the drain began (has not so far); else it returns to READY. Whatever needs a slice of its group takes it back."
    )
    piece = ready("s").changed(state=SliceState.DRAINING, since=NOW, drain=DrainTerms(cause="pressure", number=7, deadline=NOW))
    for_pressure = explain_slice(state([], slices=(piece,)), "s")
    assert "confirms that it is empty. Otherwise it returns to READY at its deadline" in for_pressure.text
    forced = draining(force=True)
    assert forced.text.endswith("and at its deadline, 2026-11-16 12:05:00Z (in 5m), even with work on it.")
    assert forced.goes_at == NOW + timedelta(minutes=5)


def test_slices_that_are_deleted_called_off_or_about_to_drain_are_going() -> None:
    deleting = Slice(id="s", group="cpu", state=SliceState.DELETING, since=NOW)
    assert explain_slice(state([], slices=(deleting,)), "s").text == (
        "Slice s of cpu is going: it is DELETING for 0s, and counts against every maximum until the cloud confirms that it is"
        " gone."
    )
    drain = DrainTerms(cause="not needed", number=3)
    called_off = Slice(id="s", group="cpu", state=SliceState.BOOTING, since=NOW, drain=drain)
    assert "called off (not needed; drain 3) while it is BOOTING" in explain_slice(state([], slices=(called_off,)), "s").text
    due = explain_slice(idle(30), "s")
    assert (due.status, due.text) == (SliceOutlook.GOING, "Slice s of cpu is going: the decision drains it (idle).")


def test_what_is_not_in_the_ledger_is_gone() -> None:
    found = explain_slice(idle(4), "cpu-261116-115900-00ff00ff")
    assert (found.status, found.group) == (SliceOutlook.GONE, "cpu")
    assert "penstock slice cpu-261116-115900-00ff00ff shows its history" in found.text
    assert explain_slice(idle(4), "nobody").text == "No slice nobody is in the ledger."


def test_while_the_cluster_orders_nothing_the_explanation_says_so_first() -> None:
    paused = apply(idle(30), Paused(at=NOW, reason="upgrade"))
    found = explain_slice(paused, "s")
    assert found.text.startswith("The cluster is paused (upgrade): ")
    assert found.text.endswith(
        "What would be decided now: Slice s of cpu is kept (READY for 1h): it drains (idle) once the cluster"
        " is resumed. As long as this holds, it stays."
    )
    assert (found.held is not None, [reason.code for reason in found.reasons]) == (True, [KeptCode.PAUSED])


def test_an_explanation_by_the_last_decision_says_as_of_when_it_is() -> None:
    before = idle(4)
    made = evaluate(before, now=NOW, chance=lambda: "0")
    later = NOW + timedelta(seconds=9)

    def asked(now: AutoscalerState, slice_id: str, version: int) -> SliceExplanation:
        return explain_slice_as_of(now, slice_id, (made.view, made.decision), input_version=version, now=later)

    found = asked(before, "s", made.orders.input_version)
    assert found.as_of == NOW
    assert found.text.startswith("As of the last evaluation at 12:00:00 UTC, 9s ago: Slice s of cpu is kept (READY for 1h9s)")
    assert asked(before, "s", -1).text.endswith("What changed since is not decided on yet.")
    newer = before.model_copy(update={"slices": (*before.slices, ready("new"))})
    assert asked(newer, "new", 0).text.endswith("and is not decided on yet.")


def test_a_page_of_slices_says_why_each_stays_its_age_and_its_price() -> None:
    slice_id = "cpu-261116-110000-00ff00ff"
    piece = ready(slice_id).changed(idle_since=NOW - timedelta(minutes=4))
    leaving = ready("d").changed(drain=DrainTerms(cause="idle", number=1))
    now = state([], CPU | {"price_per_hour": 2.5}, slices=(piece, leaving), usage={slice_id: IDLE})
    made = evaluate(now, now=NOW, chance=lambda: "0")
    found = about_slices(now, page_of(now, SlicesRequest()).slices, (made.view, made.decision))
    assert (found[slice_id].why, found[slice_id].goes_at) == ("idle timeout", NOW + timedelta(minutes=6))
    assert (found[slice_id].ordered_at, found[slice_id].price_per_hour) == (NOW - timedelta(hours=1), 2.5)
    assert (found["d"].why, found["d"].ordered_at) == ("goes: idle", None)
    assert about_slices(now, now.slices, None)[slice_id].why == ""
