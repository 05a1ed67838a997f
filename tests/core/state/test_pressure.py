"""Reports of pressure over time: what is kept of them, which of them count, and what decisions make of them."""

import json
from datetime import datetime
from typing import Any

import pytest

from penstock.contract.problems import BadMessage
from penstock.contract.slices import DrainEnding, EndedDrain
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    Closed,
    ConfigApplied,
    Decided,
    DrainCancelled,
    RecoveryBegan,
    SlicesStarted,
    SourceForgotten,
    TimePassed,
)
from penstock.core.state.inbox import Received, fold
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import read_update
from penstock.model.pressure import PressureReport, PressureState
from penstock.model.slices import DrainCause, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, drains, later, ready, report, states

DRIVEN: dict[str, Any] = {"name": "g", "drive": "pressure", "slots_per_slice": 2, "max_slices": 16}
BY_ENTRIES: dict[str, Any] = {"name": "e"}
QUIET: dict[str, Any] = {"queued": 0, "running": 0, "capacity": 0, "slices": 0}
STALE_AFTER, IDLE_TIMEOUT, DRAIN = 1800, 600, 600
"""The defaults, in seconds."""


S = [f"g-251231-235959-{number:08x}" for number in range(6)]
"""Ids of slices, the oldest first."""


def driven(**fields: Any) -> AutoscalerState:
    return cluster(DRIVEN | fields, BY_ENTRIES)


def signalled(state: AutoscalerState, name: str, message: Any, at: float = 0) -> AutoscalerState:
    return fold(state, [Received(name, json.dumps(message).encode(), later(at))])


def told(state: AutoscalerState, at: float = 0, /, *, stamp: tuple[int, int] | None = None, **numbers: int) -> AutoscalerState:
    """The state after a report on the group; numbers that are not given are 0."""
    numbered = {} if stamp is None else {"epoch": stamp[0], "revision": stamp[1]}
    return signalled(state, "pressure", {"source": "sky", "pressure": {"g": QUIET | numbers}} | numbered, at)


def heartbeat(state: AutoscalerState, at: float, **stamp: int) -> AutoscalerState:
    return signalled(state, "report", {"source": "sky"} | stamp, at)


def evaluated(state: AutoscalerState, at: float) -> Evaluation:
    chances = iter(f"{number:08x}" for number in range(100))
    return evaluate(state, now=later(at), chance=lambda: next(chances))


def decided(state: AutoscalerState, at: float) -> AutoscalerState:
    """The state after an evaluation was carried out, with launched slices started."""
    state = apply(state, Decided(at=later(at), orders=evaluated(state, at).orders))
    return apply(state, SlicesStarted(at=later(at), slice_ids=tuple(piece.id for piece in state.unstarted)))


def arrived(state: AutoscalerState, at: float) -> AutoscalerState:
    """The state once every slice on its way is READY."""
    coming = [piece.id for piece in state.slices if piece.state.in_flight]
    return after_reports(state, *(report(i, SliceState.READY, 3, at=later(at)) for i in coming), at=later(at))


def moved(state: AutoscalerState, slice_id: str, where: SliceState, sequence: int, at: float, **more: Any) -> AutoscalerState:
    return after_reports(state, report(slice_id, where, sequence, at=later(at), **more), at=later(at))


def known(state: AutoscalerState) -> PressureState:
    return state.pressure["g"]


def serving(state: AutoscalerState) -> int:
    return sum(piece.state.serves and piece.drain is None for piece in state.slices)


def next_change(state: AutoscalerState, at: float) -> datetime | None:
    return evaluated(state, at).orders.next_change_at


def problem(state: AutoscalerState) -> str:
    return state.rejected[-1].problem


# --- over time ---


def with_slices(count: int, **fields: Any) -> AutoscalerState:
    state = driven(**fields)
    for number in range(count):
        state = ready(state, S[number])
    return state


S03_BUSY: dict[str, Any] = {"queued": 8, "running": 12, "capacity": 12, "slices": 6}
S03_QUIET: dict[str, Any] = {"running": 1, "capacity": 20, "slices": 10}


def test_s03_a_cooldown_delays_shrinking_and_not_growing_and_the_stored_report_is_judged_when_it_ends() -> None:
    state = with_slices(6, min_slices=2, shrink_cooldown="30s")
    state = state.model_copy(update={"pressure": {"g": PressureState(at=NOW, desired=6, acted_at=NOW)}})
    state = arrived(decided(told(state, 10, **S03_BUSY), 10), 15)
    assert (known(state).desired, known(state).acted_at, serving(state)) == (10, later(10), 10)
    state = decided(told(state, 20, **S03_QUIET), 20)
    assert (known(state).desired, drains(state), next_change(state, 20)) == (10, {}, later(40))
    assert known(decided(state, 39)).desired == 10
    state = decided(state, 40)
    assert (known(state).desired, known(state).acted_at, serving(state)) == (2, later(40), 2)


def test_s03_variant_a_cooldown_of_growing_delays_growing() -> None:
    state = with_slices(6, min_slices=2, grow_cooldown="30s", shrink_cooldown="30s")
    state = state.model_copy(update={"pressure": {"g": PressureState(at=NOW, desired=6, acted_at=NOW)}})
    state = decided(told(state, 10, **S03_BUSY), 10)
    assert (known(state).desired, serving(state), next_change(state, 10)) == (6, 6, later(30))
    state = decided(state, 30)
    assert (known(state).desired, known(state).acted_at, serving(state)) == (10, later(30), 10)


def test_a_cooldown_counts_from_actions_only_so_the_first_report_after_the_start_counts_at_once() -> None:
    state = decided(told(with_slices(2, grow_cooldown="1m"), 0, running=4, capacity=4, slices=2), 1)
    assert (known(state).desired, known(state).acted_at) == (2, None)
    state = decided(told(state, 5, queued=2, running=4, capacity=4, slices=2), 5)
    assert (known(state).desired, known(state).acted_at) == (3, later(5))


def test_bounds_that_change_are_no_action() -> None:
    state = decided(told(with_slices(4), 0, running=8, capacity=8, slices=4), 1)
    state = apply(state, ConfigApplied(at=later(2), config=config(DRIVEN | {"max_slices": 3})))
    state = decided(state, 3)
    assert (known(state).desired, known(state).acted_at, set(drains(state))) == (3, None, {S[3]})


def test_an_idle_group_shrinks_to_its_minimum_at_the_idle_timeout_and_the_evaluation_wakes_for_it() -> None:
    state = decided(told(with_slices(3, min_slices=1), 10, slices=3), 10)
    assert (known(state).idle_from, known(state).desired, next_change(state, 10)) == (later(10), 3, later(10 + IDLE_TIMEOUT))
    state = decided(told(state, 100, slices=3), 100)
    assert known(state).idle_from == later(10)
    assert known(told(state, 110, queued=1, slices=3)).idle_from is None
    assert drains(decided(state, 10 + IDLE_TIMEOUT - 1)) == {}
    state = decided(state, 10 + IDLE_TIMEOUT)
    assert (known(state).desired, set(drains(state))) == (1, {S[1], S[2]})


# --- slices that go and come back ---


def test_a_drain_for_pressure_is_taken_back_the_newest_first_before_anything_is_launched() -> None:
    state = decided(told(with_slices(4), 0, running=1, capacity=8, slices=4), 1)
    assert drains(state).keys() == {S[2], S[3]}
    assert {terms.cause for terms in drains(state).values()} == {DrainCause.PRESSURE}
    for number in (2, 3):
        state = moved(state, S[number], SliceState.DRAINING, 4, 2)
    after = decided(told(state, 50, queued=2, running=4, capacity=4, slices=2), 50)
    assert (set(drains(after)), len(after.slices)) == ({S[2]}, 4)
    both = decided(told(state, 50, queued=4, running=4, capacity=4, slices=2), 50)
    assert (drains(both), len(both.slices)) == ({}, 4)
    more = decided(told(state, 50, queued=6, running=4, capacity=4, slices=2), 50)
    assert (drains(more), len(more.slices)) == ({}, 5)


def test_s11_slices_on_their_way_that_are_not_wanted_any_more_are_called_off_and_none_is_forgotten() -> None:
    state = with_slices(2)
    state = decided(told(state, 0, queued=8, running=4, capacity=4, slices=2), 1)
    assert (known(state).desired, serving(state)) == (6, 6)
    state = decided(told(state, 40, running=1, capacity=8, slices=2), 40)
    assert (known(state).desired, serving(state), drains(state)) == (2, 6, {})
    state = decided(state, 40 + 60)
    assert {terms.cause for terms in drains(state).values()} == {DrainCause.NOT_NEEDED}
    assert (len(drains(state)), serving(state)) == (4, 2)
    assert state.by_id[S[0]].drain is None


def test_s11_slices_that_arrive_first_drain_like_others() -> None:
    state = decided(told(with_slices(2), 0, queued=8, running=4, capacity=4, slices=2), 1)
    state = decided(arrived(told(state, 40, running=1, capacity=8, slices=2), 41), 42)
    assert {terms.cause for terms in drains(state).values()} == {DrainCause.PRESSURE}
    assert (len(drains(state)), serving(state)) == (4, 2)
    assert drains(state).keys().isdisjoint({S[0], S[1]})


def test_a_drain_that_nobody_confirms_is_repeated_only_after_a_newer_report_and_then_even_an_equal_one_is_news() -> None:
    state = decided(told(with_slices(2), 0, running=1, capacity=8, slices=2), 1)
    assert drains(state) == {}, "one slice for the task, and one more"
    state = decided(told(state, 0, slices=2), IDLE_TIMEOUT)
    state = moved(state, S[1], SliceState.DRAINING, 4, IDLE_TIMEOUT + 1)
    state = moved(state, S[0], SliceState.DRAINING, 4, IDLE_TIMEOUT + 1)
    over = 2 * IDLE_TIMEOUT + 1
    for slice_id in S[:2]:
        state = moved(state, slice_id, SliceState.READY, 5, over, ended_drain=EndedDrain(number=2, how=DrainEnding.EXPIRED))
    assert [piece.unconfirmed_at for piece in state.slices] == [later(over)] * 2
    assert drains(decided(state, over + 5)) == {}
    again = told(heartbeat(state, over + 10), over + 20, slices=2)
    assert again.input_version > state.input_version
    assert drains(decided(again, over + 20)).keys() == {S[0], S[1]}
    assert told(again, over + 30, slices=2).input_version == again.input_version, "the same once more is no news"


def test_a_drain_that_an_operator_cancelled_is_not_one_that_nobody_confirmed() -> None:
    state = decided(told(with_slices(1), 0), IDLE_TIMEOUT)
    state = moved(state, S[0], SliceState.DRAINING, 4, IDLE_TIMEOUT + 1)
    state = apply(state, DrainCancelled(at=later(IDLE_TIMEOUT + 2), slice_id=S[0]))
    ended = EndedDrain(number=1, how=DrainEnding.CANCELLED)
    state = moved(state, S[0], SliceState.READY, 5, IDLE_TIMEOUT + 3, ended_drain=ended)
    assert state.by_id[S[0]].unconfirmed_at is None


# --- which reports count ---


def test_a_group_without_a_fresh_report_neither_buys_nor_drains_and_any_message_of_the_source_renews_it() -> None:
    state = with_slices(3)
    assert drains(decided(state, 10 * IDLE_TIMEOUT)) == {}
    state = told(state, 0, queued=8, running=6, capacity=6, slices=3)
    silent = decided(state, STALE_AFTER)
    assert (len(silent.slices), drains(silent)) == (3, {})
    assert len(decided(state, STALE_AFTER - 1).slices) == 7
    renewed = heartbeat(silent, STALE_AFTER + 60)
    assert renewed.input_version > silent.input_version
    assert len(decided(renewed, STALE_AFTER + 61).slices) == 7
    assert heartbeat(renewed, STALE_AFTER + 120).input_version == renewed.input_version


def test_idle_time_counts_anew_after_a_silence() -> None:
    state = decided(told(with_slices(2), 0, slices=2), 1)
    state = heartbeat(state, STALE_AFTER + 100)
    assert drains(decided(state, STALE_AFTER + 101)) == {}
    assert next_change(state, STALE_AFTER + 101) == later(STALE_AFTER + 100 + IDLE_TIMEOUT)
    assert drains(decided(state, STALE_AFTER + 100 + IDLE_TIMEOUT)).keys() == {S[0], S[1]}


def test_a_report_of_an_older_epoch_does_not_count_until_the_restarted_controller_reports() -> None:
    state = told(with_slices(2), 0, stamp=(1, 1), queued=8, slices=2)
    restarted = heartbeat(state, 10, epoch=2, revision=0)
    assert len(decided(restarted, 11).slices) == 2
    assert told(restarted, 12, stamp=(1, 9), queued=9).pressure == restarted.pressure
    assert len(decided(told(restarted, 20, stamp=(2, 1), queued=2, slices=2), 21).slices) == 3


def test_the_newest_report_holds_by_number_and_the_idle_time_of_a_new_epoch_counts_anew() -> None:
    state = told(driven(), 0, stamp=(1, 5), queued=5)
    assert known(told(state, 1, stamp=(1, 4), queued=4)).report == PressureReport.model_validate(QUIET | {"queued": 5})
    idle = told(state, 10, stamp=(1, 6))
    assert known(told(idle, 20, stamp=(1, 7))).idle_from == later(10)
    assert known(told(idle, 20, stamp=(2, 0))).idle_from == later(20)


def test_lost_state_waits_for_a_new_report_and_its_source_is_asked_for_all_of_them() -> None:
    state = told(with_slices(2), 0, stamp=(1, 1), queued=8, slices=2)
    lost = apply(state, RecoveryBegan(at=later(10), id="r", reason="this run was reset"))
    assert lost.usage_sources["sky"].resync_needed == "this run was reset"
    found = lost.model_copy(update={"recovery": None})
    assert len(decided(heartbeat(found, 20, epoch=1, revision=2), 21).slices) == 2
    again = told(found, 30, stamp=(2, 1), queued=2, slices=2)
    assert (len(decided(again, 31).slices), again.usage_sources["sky"].resync_needed) == (3, None)
    unnumbered = told(found, 30, queued=2, slices=2)
    assert (len(decided(unnumbered, 31).slices), unnumbered.usage_sources["sky"].resync_needed) == (3, None)


def test_what_is_known_of_a_group_ends_with_its_source_its_drive_or_the_cluster() -> None:
    state = told(driven(), 0, queued=1)
    assert apply(state, SourceForgotten(at=later(1), source="sky")).pressure == {}
    assert apply(state, Closed(at=later(1))).pressure == {}
    entries = ConfigApplied(at=later(1), config=config({"name": "g"}))
    assert apply(state, entries).pressure == {}
    kept = apply(state, ConfigApplied(at=later(1), config=config(DRIVEN | {"slots_per_slice": 4})))
    assert kept.pressure == state.pressure


def test_sources_that_drive_a_group_are_remembered_however_many_others_there_are() -> None:
    state = told(driven(), 0, queued=1)
    for number in range(150):
        state = signalled(state, "report", {"source": f"other-{number}"}, at=1 + number)
    assert "sky" in state.usage_sources
    assert len(state.usage_sources) <= 102


def test_what_is_known_survives_in_json() -> None:
    state = decided(told(with_slices(2), 0, stamp=(3, 4), queued=8, slices=2), 1)
    assert AutoscalerState.model_validate_json(state.model_dump_json()).pressure == state.pressure


# --- messages ---


@pytest.mark.parametrize(
    ("group", "said", "why"),
    [
        (
            "e",
            QUIET,
            "pressure.e: e is driven by the tasks that are placed on it (drive: entries); send tasks as demand, or set"
            " drive: pressure and slots_per_slice",
        ),
        ("gg", QUIET, "pressure.gg: there is no group 'gg'; did you mean g?"),
        ("g", {"queued": 3}, "pressure.g.running: is missing; add it; pressure.g.capacity"),
        ("g", QUIET | {"queued": -1}, "pressure.g.queued: -1 must be a finite number, 0 or more"),
        ("g", QUIET | {"waiting": 1}, "pressure.g.waiting: unknown key"),
        ("g", 7, "pressure.g: should be an object"),
    ],
)
def test_a_report_that_cannot_be_used_is_rejected_with_its_fix(group: str, said: Any, why: str) -> None:
    for name in ("pressure", "report"):
        state = signalled(driven(), name, {"pressure": {group: said}})
        assert problem(state).startswith(why[: why.find(";")] if "capacity" in why else why)
        assert state.pressure == {}


def test_one_bad_report_costs_the_others_and_the_rest_of_the_message_nothing() -> None:
    message = {"usage": {S[0]: "busy"}, "pressure": {"g": QUIET | {"queued": 1}, "e": QUIET}}
    state = signalled(with_slices(1), "report", message)
    assert (set(state.pressure), set(state.usage), state.rejected_in_all) == ({"g"}, {S[0]}, 1)


def test_a_cluster_that_is_deleted_takes_no_report() -> None:
    state = told(apply(driven(), Closed(at=NOW)), 1, queued=3)
    assert (state.pressure, problem(state)) == ({}, "the cluster is being deleted; start it again under its name once it is gone")


def standing(state: AutoscalerState, revision: int | None = None, **item: Any) -> tuple[AutoscalerState, str]:
    """The state after a standing request, and the answer."""
    message = {"owner": "me", "wants": [{"resources": {"cpu": 1}} | item], "config_revision": revision}
    events, answer = read_update(state, "request_capacity", json.dumps(message).encode(), later(5))
    after = replay(events, state)
    return after, answer(after).message  # type: ignore[union-attr]


def test_n09_an_older_configuration_is_taken_once_and_then_refused_with_the_newest() -> None:
    state = apply(driven(), ConfigApplied(at=NOW, config=config(DRIVEN | {"slots_per_slice": 3}, BY_ENTRIES)))
    assert state.config_revision == 2

    def said(state: AutoscalerState, queued: int, revision: int) -> AutoscalerState:
        message = {"source": "sky", "config_revision": revision, "pressure": {"g": QUIET | {"queued": queued}}}
        return signalled(state, "pressure", message)

    first = said(state, 4, 1)
    assert (known(first).report, first.rejected_in_all) == (PressureReport.model_validate(QUIET | {"queued": 4}), 0)
    second = said(first, 5, 1)
    assert known(second) == known(first)
    assert problem(second).startswith("config_revision: 1 is older than 2, the newest")
    assert said(second, 6, 2).pressure["g"].report == PressureReport.model_validate(QUIET | {"queued": 6})
    assert "config_revision: 3 does not exist" in problem(said(second, 6, 3))
    newer = apply(second, ConfigApplied(at=NOW, config=config(DRIVEN | {"slots_per_slice": 4}, BY_ENTRIES)))
    assert said(newer, 7, 2).rejected_in_all == newer.rejected_in_all
    together = fold(state, [Received("pressure", message, NOW) for message in _twice(1)])
    assert (known(together).report, together.rejected_in_all) == (known(first).report, 1)


def _twice(revision: int) -> list[bytes]:
    messages = [{"source": "sky", "config_revision": revision, "pressure": {"g": QUIET | {"queued": n}}} for n in (4, 5)]
    return [json.dumps(message).encode() for message in messages]


def test_n09_holds_for_standing_requests_too() -> None:
    state = apply(driven(), ConfigApplied(at=NOW, config=config(DRIVEN | {"slots_per_slice": 3}, BY_ENTRIES)))
    first, answer = standing(state, 1)
    assert answer == "Standing request me is active; the newest configuration is revision 2, not 1"
    with pytest.raises(BadMessage, match="config_revision: 1 is older than 2"):
        standing(first, 1)
    assert standing(first, 2)[1] == "Standing request me is active"
    assert standing(first)[1] == "Standing request me is active"


def test_a_standing_request_that_only_a_group_driven_by_pressure_could_meet_is_refused() -> None:
    state = cluster(DRIVEN | {"host": {"cpu": 16}}, BY_ENTRIES)
    with pytest.raises(BadMessage, match=r"wants\[0\]: only g could meet it, which pressure reports drive; raise its min_slices"):
        standing(state, resources={"cpu": 8})
    assert standing(state, resources={"cpu": 4})[0].standing


def test_a_group_that_a_standing_request_needs_is_not_given_to_pressure() -> None:
    state, _ = standing(cluster({"name": "g"}))
    message = json.dumps(config(DRIVEN).model_dump(mode="json", by_alias=True)).encode()
    with pytest.raises(BadMessage, match=r"groups\.g\.drive: only g could meet the standing request of me"):
        read_update(state, "apply_config", message, later(6))


# --- the status ---


def test_the_status_has_what_reports_want_and_which_are_stale_and_asks_for_no_usage_of_such_slices() -> None:
    state = decided(told(with_slices(2), 0, stamp=(1, 1), queued=8, slices=2), 1)
    group = status_of(state, now=later(60)).groups[0]
    assert group.driven is not None
    assert (group.driven.desired, group.driven.source, group.driven.at) == (6, "sky", NOW)
    assert (group.driven.stale_since, group.unreported, group.unreported_since) == (None, 0, None)
    silent = status_of(state, now=later(STALE_AFTER + 60)).groups[0]
    assert silent.driven is not None
    assert silent.driven.stale_since == later(STALE_AFTER)
    assert status_of(state, now=later(60)).groups[1].driven is None


def test_a_drain_for_pressure_needs_a_confirmation_and_the_status_says_so() -> None:
    state = decided(told(with_slices(2), 0, slices=2), IDLE_TIMEOUT)
    assert [drain.needs_confirmation for drain in status_of(state).drains] == [True, True]
    assert states(state)[S[0]] is SliceState.READY
    assert [drain.deadline for drain in status_of(state).drains] == [later(IDLE_TIMEOUT + DRAIN)] * 2


def test_a_slice_says_what_reports_want_of_its_group_and_not_what_usage_says() -> None:
    state = signalled(decided(told(with_slices(2), 0, running=1, capacity=8, slices=2), 1), "usage", {"usage": {S[1]: "busy"}})
    assert "reports of pressure drive its group (1 of 8 slots in use: 2 slices wanted)." in explain_slice(state, S[1]).text
    silent = explain_slice(apply(state, TimePassed(at=later(10 * STALE_AFTER))), S[1]).text
    assert "(its pressure report is stale: its slices stay as they are)." in silent
    assert "no pressure report has come" in explain_slice(with_slices(1), S[0]).text
    newer = decided(told(state, 2, running=0, capacity=8, slices=2), IDLE_TIMEOUT + 5)
    assert "Otherwise it returns to READY at its deadline" in explain_slice(newer, S[1]).text
