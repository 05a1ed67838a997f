"""Protections of slices: kept, cordoned, and for how long the state remembers it."""

import json
from typing import Any

import pytest

from penstock.contract.messages import SlicesRequest
from penstock.contract.orders import Orders
from penstock.contract.problems import BadMessage
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import page_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    CommandsSent,
    ConfigApplied,
    Decided,
    DrainOrdered,
    RecoveryBegan,
    ReportsCollected,
    SliceCordoned,
    SliceKept,
    SlicesReported,
    TimePassed,
    UsageReported,
)
from penstock.core.state.protections import MOST_PROTECTED
from penstock.core.state.recovery import without_ledger
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import read_update
from penstock.model.decision import Drain
from penstock.model.failures import FailureKind
from penstock.model.protection import Protection
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, audited, cluster, config, drains, failed, later, ordered, ready, report

IDLE = (HostUsage(state=HostState.IDLE),)
HOUR = 3600.0


def ordered_by(state: AutoscalerState, name: str, **message: Any) -> tuple[AutoscalerState, str]:
    """The state after an operator's update, and its answer."""
    events, answer = read_update(state, name, json.dumps(message).encode(), NOW)
    after = replay(events, state)
    return after, answer(after).model_dump()["message"]


def kept(state: AutoscalerState, slice_id: str = "a", seconds: float = HOUR) -> AutoscalerState:
    return apply(state, SliceKept(at=NOW, slice_id=slice_id, until=later(seconds)))


def idle(state: AutoscalerState, *slice_ids: str) -> AutoscalerState:
    return apply(state, UsageReported(at=NOW, usage=dict.fromkeys(slice_ids, IDLE)))


def test_a_slice_is_kept_for_a_while_and_then_drains_for_its_idleness() -> None:
    state, answer = ordered_by(idle(ready(cluster()), "a"), "keep_slice", slice_id="a", **{"for": "1h"})
    assert answer == "Keeping slice a until 2026-01-01 01:00:00 UTC"
    heard = replay([UsageReported(at=later(minute * 60), usage={}) for minute in (20, 40, 59)], state)
    decision = decide(snapshot_of(heard).snapshot)
    assert (decision.drains, decision.next_change_at) == ((), later(HOUR))
    decision = decide(snapshot_of(apply(heard, TimePassed(at=later(HOUR)))).snapshot)
    assert [drain.slice_id for drain in decision.drains] == ["a"]


def test_keeping_again_sets_another_end_and_off_ends_it() -> None:
    state, _ = ordered_by(kept(ready(cluster())), "keep_slice", slice_id="a", **{"for": 60})
    assert state.protections == {"a": Protection(kept_until=later(60))}
    state, answer = ordered_by(state, "keep_slice", slice_id="a", off=True)
    assert (state.protections, answer) == ({}, "Slice a is no longer kept")
    assert ordered_by(state, "keep_slice", slice_id="a", off=True)[1] == "Slice a is not kept"


def test_a_cordon_stands_until_it_is_ended_beside_what_keeps_the_slice() -> None:
    state, answer = ordered_by(kept(ready(cluster())), "cordon_slice", slice_id="a")
    assert answer == "Cordoned slice a: nothing more is placed on it, and what runs there goes on"
    assert state.protections == {"a": Protection(kept_until=later(HOUR), cordoned=True)}
    assert ordered_by(state, "cordon_slice", slice_id="a")[1] == "Slice a is cordoned already"
    state, answer = ordered_by(state, "cordon_slice", slice_id="a", cordoned=False)
    assert (state.protections, answer) == ({"a": Protection(kept_until=later(HOUR))}, "Slice a takes work again")
    assert ordered_by(state, "cordon_slice", slice_id="a", cordoned=False)[1] == "Slice a is not cordoned"


@pytest.mark.parametrize(
    ("name", "message", "problem"),
    [
        ("keep_slice", {"slice_id": "b", "for": "1h"}, "there is no slice 'b'"),
        ("keep_slice", {"slice_id": "a"}, "give for, such as 2h, or off"),
        ("keep_slice", {"slice_id": "a", "for": "1h", "off": True}, "give for, such as 2h, or off"),
        ("keep_slice", {"slice_id": "a", "for": "soon"}, "'soon' is not a duration"),
        ("cordon_slice", {"slice_id": "b"}, "there is no slice 'b'"),
        ("cordon_slice", {"slice_id": "gone"}, "gone is being deleted"),
    ],
)
def test_a_protection_that_cannot_be_is_refused_with_the_reason(name: str, message: dict[str, Any], problem: str) -> None:
    state = after_reports(ready(ordered(cluster(), "gone")), report("gone", SliceState.DELETING, 4))
    with pytest.raises(BadMessage, match=problem):
        ordered_by(state, name, **message)


def test_so_many_slices_are_protected_and_no_more() -> None:
    ids = [f"s{n}" for n in range(MOST_PROTECTED + 1)]
    state = ordered(cluster(), *ids)
    state = replay([SliceCordoned(at=NOW, slice_id=name, cordoned=True) for name in ids], state)
    assert len(state.protections) == MOST_PROTECTED
    with pytest.raises(BadMessage, match="500 slices are kept or cordoned already"):
        ordered_by(state, "keep_slice", slice_id=ids[-1], **{"for": "1h"})
    assert ordered_by(state, "keep_slice", slice_id=ids[0], **{"for": "1h"})[1].startswith("Keeping slice s0")


def test_what_is_kept_no_longer_leaves_the_state_with_the_next_order() -> None:
    state = kept(ready(ready(cluster()), "b"), seconds=60)
    state = apply(state, SliceCordoned(at=later(60), slice_id="b", cordoned=True))
    assert state.protections == {"b": Protection(cordoned=True)}


def test_a_protection_ends_with_its_slice() -> None:
    state = kept(ready(cluster()))
    assert after_reports(state, report("a", SliceState.TERMINATED, 9)).protections == {}
    assert audited(state, missing=("a",)).protections == {}
    assert apply(state, SliceKept(at=NOW, slice_id="nobody", until=later(1))).protections.keys() == {"a"}


def test_a_protection_survives_a_restore_and_goes_if_its_slice_is_not_found() -> None:
    state = kept(kept(ready(ready(cluster()), "b")), "b")
    state = apply(without_ledger(state), RecoveryBegan(at=NOW, id="r", reason="restored"))
    found = SlicesReported(at=NOW, reports=(report("a", SliceState.READY, 9),))
    state = replay([found, ReportsCollected(at=NOW, id="r")], state)
    assert state.protections.keys() == {"a", "b"}
    state = audited(state, asked="r")
    assert state.recovery is None
    assert state.protections.keys() == {"a"}


def test_a_protection_is_carried_with_the_state() -> None:
    state = kept(ready(cluster()))
    assert AutoscalerState.model_validate_json(state.model_dump_json()).protections == state.protections


def test_a_drain_that_was_decided_before_its_slice_was_protected_is_dropped() -> None:
    state = idle(ready(ready(cluster()), "b"), "a", "b")
    state = kept(state)
    protected = (HostUsage(state=HostState.IDLE, do_not_disrupt=True),)
    state = apply(state, UsageReported(at=NOW, usage={"b": protected}))
    due = tuple(Drain(slice_id=name, group="g", cause=DrainCause.IDLE, idle_since=NOW) for name in ("a", "b"))
    state = apply(state, Decided(at=NOW, orders=Orders(at=NOW, config_revision=1, drains=due)))
    assert drains(state) == {}


def test_an_operators_drain_is_not_held_up_and_keeping_a_draining_slice_says_how() -> None:
    state = apply(kept(ready(cluster())), DrainOrdered(at=NOW, slice_id="a", terms=DrainTerms(cause="operator")))
    assert drains(state) == {"a": DrainTerms(cause="operator")}
    _, answer = ordered_by(apply(state, CommandsSent(at=NOW, commands=state.outbox)), "keep_slice", slice_id="a", **{"for": "1h"})
    assert answer.endswith("it drains already (operator): cancel that drain to keep it")


def test_pages_of_slices_show_who_is_kept_and_cordoned_for_as_long_as_it_holds() -> None:
    state = apply(kept(ready(cluster())), SliceCordoned(at=NOW, slice_id="a", cordoned=True))
    (piece,) = page_of(state, SlicesRequest()).slices
    assert (piece.kept_until, piece.cordoned) == (later(HOUR), True)
    state = apply(state, SliceCordoned(at=NOW, slice_id="a", cordoned=False))
    (piece,) = page_of(apply(state, TimePassed(at=later(HOUR))), SlicesRequest()).slices
    assert piece.kept_until is None


def test_the_last_stockout_of_each_group_is_known_for_as_long_as_the_group_is_configured() -> None:
    two = ({"name": "g", "hold_after_stockout": "1h"}, {"name": "h"})
    state = ordered(ordered(ordered(cluster(*two), "a"), "b"), "c", group="h")
    state = failed(state, "a", FailureKind.STOCKOUT, at=later(5))
    state = failed(state, "b", FailureKind.QUOTA, at=later(9))
    state = failed(state, "c", FailureKind.STOCKOUT, group="h", at=later(7))
    assert state.stockouts == {"g": later(5), "h": later(7)}
    assert snapshot_of(state).snapshot.stockouts == state.stockouts
    assert apply(state, ConfigApplied(at=later(10), config=config(two[1]))).stockouts == {"h": later(7)}
