"""Explanations of slices that are replaced, that replace others, that have a notice, and that are emptied to save money."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.slice_answers import SliceExplanation, SliceOutlook
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import KeptCode
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainTerms, HostState, HostUsage, Slice, SliceState
from tests.core.answers.test_explain import CPU, NOW, ready, state

BUSY = (HostUsage(state=HostState.BUSY),)
SOON = NOW + timedelta(minutes=10)
MAINTENANCE = Notice(kind=NoticeKind.MAINTENANCE, until=SOON)
DRIFTED = "it is to be replaced (drift, made with before, its group has {}), and "


def old(name: str = "old", **changes: Any) -> Slice:
    """A busy slice that was made otherwise than its group makes slices now."""
    return ready(name).model_copy(update={"fingerprint": "before"} | changes)


def cluster(*slices: Slice, group: dict[str, Any] | None = None, **config: Any) -> AutoscalerState:
    usage: dict[str, tuple[HostUsage, ...]] = {piece.id: BUSY for piece in slices if piece.state.was_ready and not piece.replaces}
    return state([], CPU | (group or {}), slices=slices, usage=usage, **config)


def drifted(found: AutoscalerState) -> str:
    assert found.config is not None
    return DRIFTED.format(found.config.groups[0].fingerprint)


def leaving(**terms: Any) -> SliceExplanation:
    drain = DrainTerms.model_validate({"number": 7, "deadline": SOON} | terms)
    piece = ready("s").changed(state=SliceState.DRAINING, since=NOW - timedelta(minutes=2), drain=drain)
    return explain_slice(cluster(piece), "s")


def test_a_slice_that_is_to_be_replaced_says_why_and_that_its_replacement_is_ordered_first() -> None:
    found = cluster(old())
    assert explain_slice(found, "old").text == (
        f"Slice old of cpu is kept (READY for 1h): {drifted(found)}it waits for its replacement, which is ordered first."
        " As long as this holds, it stays."
    )


def test_a_slice_whose_replacement_is_on_its_way_names_it_and_the_replacement_names_the_slice() -> None:
    new = Slice(id="new", group="cpu", state=SliceState.BOOTING, since=NOW - timedelta(minutes=1), replaces="old")
    found = cluster(old(), new)
    assert f"{drifted(found)}its replacement new is still BOOTING." in explain_slice(found, "old").text
    replacement = explain_slice(found, "new")
    assert (replacement.status, [reason.code for reason in replacement.reasons]) == (SliceOutlook.STARTING, [KeptCode.REPLACES])
    assert "on its way (BOOTING for 1m) and stays: it takes the place of old, whose work moves here." in replacement.text
    (group,) = decide(snapshot_of(found).snapshot).groups
    assert (group.in_flight, group.replacing) == (0, 1)


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        (
            {"max_unavailable": 0},
            KeptCode.BUDGET,
            "max_unavailable of the cluster or its group allows are drained or replaced now.",
        ),
        ({"window": {"hours": "02:00-04:00"}}, KeptCode.WINDOW, "waits for the window, which opens at 2026-11-17 02:00:00Z."),
        ({"scale_down": "observe"}, KeptCode.OBSERVE, "scale_down is observe, so no replacement is ordered."),
        ({"max_slices": 1}, KeptCode.NO_REPLACEMENT, "no replacement can be ordered now, so it stays until one can, or"),
    ],
)
def test_a_slice_that_is_to_be_replaced_and_stays_says_what_it_waits_for(
    config: dict[str, Any], code: KeptCode, words: str
) -> None:
    found = explain_slice(cluster(old(), **config), "old")
    assert (found.status, found.goes_at, [reason.code for reason in found.reasons]) == (SliceOutlook.KEPT, None, [code])
    assert words in found.text


def test_a_slice_that_returns_home_says_where_to() -> None:
    home = CPU | {"name": "home", "priority": 1, "price_per_hour": 1}
    piece = ready("s").changed(home="home")
    found = state([], CPU | {"price_per_hour": 2}, home, slices=(piece,), usage={"s": BUSY}, return_home={})
    assert "it is to be replaced (return home, to home), and it waits for its replacement" in explain_slice(found, "s").text


def test_a_slice_that_a_notice_takes_is_deleted_at_its_moment_with_work_on_it_and_has_a_replacement() -> None:
    found = explain_slice(cluster(ready("s").changed(notice=MAINTENANCE)), "s")
    assert (found.status, found.goes_at) == (SliceOutlook.GOING, SOON)
    assert found.text == (
        "Slice s of cpu is going: the decision drains it (notice, maintenance at 2026-11-16 12:10:00Z). It is deleted as soon as"
        " its controller confirms that it is empty, and at 2026-11-16 12:10:00Z (in 10m), even with work on it. A slice to take"
        " its place is ordered in the same decision."
    )
    alone = explain_slice(cluster(ready("s").changed(notice=MAINTENANCE), group={"max_slices": 1}), "s")
    assert alone.text.endswith("even with work on it.")


def test_a_drain_tells_its_detail_and_one_for_a_notice_that_it_ends_with_a_deletion() -> None:
    notice = leaving(cause="notice", detail="preemption at 2026-11-16 12:10:00Z")
    assert notice.text == (
        "Slice s of cpu is going: it has been draining for 2m (notice, preemption at 2026-11-16 12:10:00Z; drain 7). It is"
        " deleted as soon as its controller confirms that it is empty, and at its deadline, 2026-11-16 12:10:00Z (in 10m), even"
        " with work on it."
    )
    assert notice.drain is not None
    assert (notice.goes_at, notice.drain.detail) == (SOON, "preemption at 2026-11-16 12:10:00Z")
    consolidation = leaving(cause="consolidation", detail="saves 2.00 an hour: its work fits on b")
    assert "(consolidation, saves 2.00 an hour: its work fits on b; drain 7)" in consolidation.text
    assert "else it returns to READY. Whatever needs a slice of its group takes it back." in consolidation.text
