"""Updates: done with an answer, or refused with the field and the fix."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.contract.answers import Accepted, Done
from penstock.contract.messages import LARGEST_MESSAGE
from penstock.contract.problems import BadMessage
from penstock.core.state.apply import replay
from penstock.core.state.events import AnyEvent, Closed, ConfigApplied
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import read_update
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice, SliceState
from tests.core.state.ledgers import confirmed, reported

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WRITTEN: dict[str, Any] = {"cluster": "x", "groups": [{"name": "small", "max_slices": 2, "host": {"cpu": 4}}]}
SLICES = (
    Slice(id="small-1", group="small", state=SliceState.READY),
    Slice(id="small-2", group="small", state=SliceState.DELETING),
)
CONFIG = ClusterConfig.model_validate(WRITTEN)
STATE = replay([ConfigApplied(at=NOW, config=CONFIG)]).model_copy(update={"slices": SLICES})


def done(name: str, message: Any = None, state: AutoscalerState = STATE) -> tuple[AutoscalerState, Accepted | Done]:
    raw = b"" if message is None else json.dumps(message).encode()
    events, answer = read_update(state, name, raw, NOW)
    after = replay(events, state)
    return after, answer(after)


def test_demand_is_answered_with_what_stands() -> None:
    state, answer = done("submit_demand", {"epoch": 5, "revision": 1, "tasks": [{"id": "a"}, {"id": "b", "cpu": 1}]})
    assert isinstance(answer, Accepted)
    assert (answer.epoch, answer.revision, answer.config_revision, answer.invalid) == (5, 1, 1, 1)
    state, answer = done("submit_demand", {"epoch": 5, "base": 7, "revision": 8, "tasks": []}, state)
    assert isinstance(answer, Accepted)
    assert answer.revision == 1
    assert answer.resync_needed == "revision 8 builds on 7, but 1 is the latest here"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"epoch": 5, "revision": 2, "tasks": [{"id": "b"}]}, None),
        ({"epoch": 5, "revision": 1, "tasks": [{"id": "a"}]}, None),
        (
            {"epoch": 4, "revision": 9, "tasks": []},
            "epoch: 4 is older, epoch 5 revision 1 is in force; send a snapshot with a newer one",
        ),
        (
            {"epoch": 5, "revision": 0, "tasks": []},
            "revision: 0 is not newer, epoch 5 revision 1 is in force; send a snapshot with a newer one",
        ),
        (
            {"epoch": 5, "base": 7, "revision": 8, "tasks": []},
            "revision 8 builds on 7, but 1 is the latest here; send a snapshot with a newer revision",
        ),
        (
            {"epoch": 5, "revision": 2, "part": 1, "parts": 2, "tasks": []},
            "part 1 of 2 is kept; the demand changes once every part has arrived",
        ),
        (
            {"epoch": 5, "revision": 2, "tasks": [{"id": "b", "cpu": 1}, {"id": "c", "cpu": 1}, {"id": "d"}]},
            "tasks: b: cpu: unknown key; ",
        ),
    ],
)
def test_an_update_that_is_not_applied_as_a_whole_says_so_and_why(message: dict[str, Any], problem: str | None) -> None:
    state, _ = done("submit_demand", {"epoch": 5, "revision": 1, "tasks": [{"id": "a"}]})
    _, answer = done("submit_demand", message, state)
    assert isinstance(answer, Accepted)
    assert answer.applied is (problem is None)
    assert (answer.problem or "").startswith(problem or "")
    assert problem is None or answer.problem is not None


def test_a_configuration_is_versioned_and_the_same_one_changes_nothing() -> None:
    state, answer = done("apply_config", WRITTEN | {"max_slices": 9})
    assert (state.config_revision, answer) == (2, Done(message="Applied configuration revision 2: 1 change", config_revision=2))
    again, answer = done("apply_config", WRITTEN | {"max_slices": 9}, state)
    assert again is state
    assert answer == Done(message="Configuration unchanged: it is revision 2 already", config_revision=2)


def test_a_standing_request_is_set_replaced_and_withdrawn() -> None:
    wants = [{"resources": {"cpu": 2}, "count": 3}]
    state, _ = done("request_capacity", {"owner": "me", "wants": wants})
    assert state.standing["me"].wants[0].count == 3
    state, _ = done("request_capacity", {"owner": "me"}, state)
    assert state.standing == {}
    _, answer = done("request_capacity", {"owner": "me"}, state)
    assert isinstance(answer, Done)
    assert answer.message == "There is no standing request me"


def test_a_drain_is_ordered_and_cancelled() -> None:
    state, _ = done("drain_slice", {"slice_id": "small-1"})
    assert [piece.drain.cause for piece in state.slices if piece.drain] == ["operator"]
    state, _ = done("cancel_drain", {"slice_id": "small-1"}, state)
    assert state.draining == ()
    assert done("drain_slice", {"slice_id": "small-2"})[0] is STATE


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (reported("small-1", SliceState.BOOTING, 1, group="small"), "is BOOTING, so draining deletes it at once"),
        (reported("small-1", SliceState.DELETING, 1, group="small"), "is being deleted"),
        (confirmed("small-1"), "is being deleted"),
    ],
)
def test_a_drain_that_nothing_can_call_off_is_not_cancelled(seen: AnyEvent, problem: str) -> None:
    state, _ = done("drain_slice", {"slice_id": "small-1"})
    with pytest.raises(BadMessage, match=problem):
        done("cancel_drain", {"slice_id": "small-1"}, replay([seen], state))


def test_pausing_twice_and_resuming_twice_is_no_mistake() -> None:
    state, _ = done("pause", {"reason": "maintenance"})
    assert state.paused == "maintenance"
    assert done("pause", None, state)[0] is state
    state, _ = done("resume", None, state)
    assert state.paused is None
    assert done("resume", None, state)[0] is state


@pytest.mark.parametrize(
    ("name", "message", "problem"),
    [
        ("submit_demand", {"tasks": [{"id": "a"}, {"id": "a"}]}, "occurs twice"),
        ("submit_demand", {"tsks": []}, "did you mean tasks?"),
        ("apply_config", WRITTEN | {"cluster": "y"}, "this is x, not y"),
        ("apply_config", {"cluster": "x", "groups": [{"name": "small"}]}, "groups[0].max_slices: is missing"),
        ("apply_config", {"cluster": "x", "groups": WRITTEN["groups"] * 2}, "groups.1.name: 'small' is already in use"),
        ("request_capacity", {"owner": "me", "wants": [{"count": 0}]}, "wants[0].count"),
        ("drain_slice", {"slice_id": "smal-1"}, "did you mean small-1"),
        ("drain_slice", {}, "slice_id: is missing"),
        ("drain_slice", {"slice_id": "small-1", "cause": "idle"}, "cause: 'idle' is kept for drains that decisions order"),
        ("cancel_drain", {"slice_id": "small-1"}, "small-1 is not draining, it is READY"),
        ("clear_block", {"group": "smal"}, "did you mean small?"),
        ("pause", {"why": "x"}, "why: unknown key"),
        ("puase", {}, "did you mean pause?"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_fix(name: str, message: Any, problem: str) -> None:
    with pytest.raises(BadMessage) as refused:
        done(name, message)
    assert problem in str(refused.value)


def test_a_request_that_has_expired_already_is_refused() -> None:
    expires = (NOW - timedelta(seconds=1)).isoformat()
    with pytest.raises(BadMessage, match="has passed"):
        done("request_capacity", {"owner": "me", "wants": [{"resources": {"cpu": 1}}], "expires": expires})


def test_messages_that_are_too_large_are_refused_unread() -> None:
    with pytest.raises(BadMessage, match="in parts"):
        read_update(STATE, "submit_demand", b" " * (LARGEST_MESSAGE + 1), NOW)


def test_a_cluster_that_is_being_deleted_takes_no_orders_but_to_hurry_and_where_its_slices_are() -> None:
    state = replay([Closed(at=NOW)], STATE)
    assert done("apply_config", WRITTEN | {"max_slices": 9}, state)[0].config_revision == 2
    with pytest.raises(BadMessage, match="being deleted"):
        done("submit_demand", {"tasks": []}, state)
    assert done("close", {"force": True}, state)[0].closing
