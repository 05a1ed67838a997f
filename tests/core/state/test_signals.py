"""Signals: whatever is sent becomes events, or a rejection that says what to mend. Nothing raises."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.contract import problems, tasks
from penstock.contract.messages import Confirmation
from penstock.contract.problems import describe_errors
from penstock.contract.tasks import invalid_in
from penstock.core.state import size_limits
from penstock.core.state.apply import replay
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    ConfigApplied,
    DemandDelta,
    DemandSnapshot,
    DrainsConfirmed,
    MessageRejected,
    RecoveryBegan,
    SlicesReported,
    UsageReported,
)
from penstock.core.state.signals import read_signal
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import DrainTerms, Slice, SliceState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CONFIG = ClusterConfig.model_validate(
    {"cluster": "x", "groups": [{"name": "pair", "max_slices": 2, "hosts_per_slice": 2, "host": {"cpu": 4}}]}
)
PAIR = Slice(id="pair-1", group="pair", state=SliceState.READY)
STATE = replay([ConfigApplied(at=NOW, config=CONFIG)]).model_copy(update={"slices": (PAIR,)})


def received(name: str, message: Any, state: AutoscalerState = STATE) -> tuple[AnyEvent, ...]:
    return read_signal(state, name, json.dumps(message).encode(), NOW)


def rejection(name: str, message: Any) -> str:
    (event,) = received(name, message)
    assert isinstance(event, MessageRejected)
    assert event.message == name
    return event.problem


def test_a_list_of_tasks_is_a_snapshot_newer_than_anything_heard() -> None:
    (first,) = received("demand", [{"id": "a", "resources": {"cpu": 1}}])
    assert isinstance(first, DemandSnapshot)
    state = replay([first], STATE)
    (second,) = received("demand", {"tasks": []}, state)
    assert isinstance(second, DemandSnapshot)
    after = replay([second], state).demand["default"]
    assert (after.revision, after.demand.task_ids, after.resync_needed) == (1, (), None)


def test_one_bad_task_is_an_entry_that_says_why_and_costs_the_others_nothing() -> None:
    written = [{"id": "good"}, {"id": "bad", "resources": {"cpus": 1}}, "what", {"resources": {"cpu": -1}}, {"id": "also good"}]
    (event,) = received("demand", {"tasks": written})
    assert isinstance(event, DemandSnapshot)
    assert event.demand.task_ids == ("good", "also good", "bad", "task 2 of its message", "task 3 of its message")
    faults = [run.fault for run in event.demand.workload.runs]
    assert faults[0] is None
    assert "did you mean cpu?" in (faults[1].message if faults[1] else "")


def test_the_first_of_many_bad_tasks_say_why_and_the_others_cost_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    described = []

    def counted(*args: Any) -> str:
        described.append(args)
        return describe_errors(*args)

    monkeypatch.setattr(tasks, "describe_errors", counted)
    bad = 5_000
    written = [{"id": f"task-{i}", "resources": {"cpu": f"{i} or so"}, "nodes": i} for i in range(bad)]
    (event,) = received("demand", [{"id": "good"}, *written])
    assert isinstance(event, DemandSnapshot)
    assert event.demand.task_ids == ("good", *(f"task-{i}" for i in range(bad)))
    assert invalid_in(event.demand) == bad
    assert len(described) == tasks.DESCRIBED_FAULTS
    faults = [run.fault.message for run in event.demand.workload.runs if run.fault]
    assert len(faults) == tasks.DESCRIBED_FAULTS + 1
    assert "'0 or so'" in faults[0]
    assert "nodes: unknown key; known keys: " in faults[0]
    assert faults[-1] == "it is invalid; the first invalid tasks of its message say why"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("demand", {"k" * 1_000_000: 3}),
        ("demand", [{"id": "a", "k" * 1_000_000: 3}]),
        ("demand", [{"id": "a", "resources": {"memory": "1" * 1_000_000}}]),
        ("usage", {"usage": {"k" * 1_000_000: 3}}),
        ("x" * 100_000, {}),
    ],
)
def test_little_is_kept_of_a_mistake_as_large_as_a_message(name: str, message: Any) -> None:
    state = replay(received(name, message), STATE)
    assert len(state.model_dump_json()) < len(STATE.model_dump_json()) + 2_000


def test_demand_may_name_any_configuration_there_was_and_none_that_was_not() -> None:
    state = replay([ConfigApplied(at=NOW, config=CONFIG.model_copy(update={"max_slices": 9}))], STATE)
    assert state.config_revision == 2
    for revision in (1, 2):
        (event,) = received("demand", {"tasks": [{"id": "a"}], "config_revision": revision}, state)
        assert isinstance(event, DemandSnapshot)
    (event,) = received("demand", {"tasks": [], "config_revision": 3}, state)
    assert isinstance(event, MessageRejected)
    assert "config_revision: 3 does not exist, the cluster is at revision 2" in event.problem


def test_a_delta_names_its_base() -> None:
    (event,) = received("demand", {"epoch": 3, "base": 4, "revision": 5, "removed": ["a"], "tasks": [{"id": "b"}]})
    assert isinstance(event, DemandDelta)
    assert (event.epoch, event.base, event.revision, event.removed) == (3, 4, 5, ("a",))
    assert event.added.task_ids == ("b",)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"tasks": [{"id": "a"}, {"id": "a"}]}, "task id 'a' occurs twice"),
        ({"base": 3, "tasks": []}, "a delta needs epoch and revision"),
        ({"task": []}, "task: unknown key; did you mean tasks?"),
        ({"tasks": [{"id": "many", "count": 10**9}]}, "check count"),
        ({"tasks": [{"id": "many", "count": 10**5, "gang": {"size": 10**5}}]}, "check count"),
        ({"demand": {"workload": {"shapes": "?", "runs": []}}}, "not a packed column"),
        (7, "should be an object"),
        (None, "should be an object"),
    ],
)
def test_demand_that_cannot_be_used_is_rejected_with_its_fix(message: Any, problem: str) -> None:
    assert problem in rejection("demand", message)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"tasks": [{"id": "\\ud800"}]}'])
def test_bytes_that_are_no_json_are_rejected(raw: bytes) -> None:
    for name in ("report", "demand", "usage", "confirm_drain", "slices_reported", "location_reported"):
        (event,) = read_signal(STATE, name, raw, NOW)
        assert isinstance(event, MessageRejected | DemandSnapshot)


def test_usage_of_one_slice_that_cannot_be_read_costs_the_others_nothing() -> None:
    state = STATE.model_copy(update={"slices": (PAIR, PAIR.model_copy(update={"id": "pair-2"}))})
    usage = {"pair-1": "idle", "pair-2": ["idle", "busy", "busy"], "pair-3": "asleep", "pair-4": []}
    good, bad = received("usage", {"usage": usage}, state)
    assert isinstance(good, UsageReported)
    assert list(good.usage) == ["pair-1"]
    assert isinstance(bad, MessageRejected)
    assert "usage.pair-2: 3 given, but a slice of its group has 2 hosts" in bad.problem
    assert "usage.pair-3[0].state: should be 'idle', 'busy' or 'degraded', not 'asleep'" in bad.problem


def test_a_report_says_everything_of_one_moment() -> None:
    report = {"demand": {"tasks": [{"id": "a"}]}, "usage": {"pair-1": ["idle", {"tasks": ["b"]}]}, "confirmed": ["pair-1"]}
    assert [type(event) for event in received("report", report)] == [DemandSnapshot, UsageReported, DrainsConfirmed]


def test_demand_that_contradicts_itself_costs_its_report_neither_usage_nor_confirmations() -> None:
    twice = {"tasks": [{"id": "a"}, {"id": "a"}]}
    rejected, usage, confirmed = received("report", {"demand": twice, "usage": {"pair-1": "idle"}, "confirmed": ["pair-1"]})
    assert isinstance(rejected, MessageRejected)
    assert "task id 'a' occurs twice" in rejected.problem
    assert (isinstance(usage, UsageReported), isinstance(confirmed, DrainsConfirmed)) == (True, True)


def test_a_confirmed_drain_may_be_one_id_or_a_list_with_a_number_or_without() -> None:
    plain: list[Any] = ["pair-1", ["pair-1"], {"slices": ["pair-1"]}, {"slice_id": "pair-1"}]
    for message in plain:
        assert confirmations(message) == (Confirmation(slice_id="pair-1"),)
    numbered = {"slice_id": "pair-1", "number": 3}
    for message in (numbered, [numbered], {"slices": [numbered]}):
        state = STATE.model_copy(update={"slices": (PAIR.changed(drain=DrainTerms(cause="idle", number=3)),)})
        assert confirmations(message, state) == (Confirmation(slice_id="pair-1", number=3),)


def confirmations(message: Any, state: AutoscalerState = STATE) -> tuple[Confirmation, ...]:
    (event,) = received("confirm_drain", message, state)
    assert isinstance(event, DrainsConfirmed)
    return event.confirmed


@pytest.mark.parametrize(
    ("drain", "number", "problem"),
    [
        (None, 3, "drain 3 of 'pair-1' is over, and the slice serves again"),
        (5, 3, "drain 3 of 'pair-1' is over, and drain 5 is under way; confirm that one once it is empty"),
        (5, 7, "there is no drain 7 of 'pair-1' yet; the status lists the drains under way"),
    ],
)
def test_a_confirmation_of_another_drain_than_the_one_under_way_is_refused(drain: int | None, number: int, problem: str) -> None:
    terms = None if drain is None else DrainTerms(cause="idle", number=drain)
    state = STATE.model_copy(update={"slices": (PAIR.changed(drain=terms),)})
    for name, message in (
        ("confirm_drain", {"slice_id": "pair-1", "number": number}),
        ("report", {"confirmed": [{"slice_id": "pair-1", "number": number}]}),
    ):
        rejected = received(name, message, state)[-1]
        assert isinstance(rejected, MessageRejected)
        assert rejected.problem == problem


def test_a_confirmation_for_a_slice_that_is_being_deleted_is_no_mistake() -> None:
    state = STATE.model_copy(update={"slices": (PAIR.changed(state=SliceState.DELETING),)})
    assert len(received("confirm_drain", {"slice_id": "pair-1", "number": 3}, state)) == 1


def test_a_thousand_late_confirmations_are_one_rejection() -> None:
    pairs = tuple(PAIR.model_copy(update={"id": f"pair-{n}"}) for n in range(1000))
    message = [{"slice_id": piece.id, "number": 3} for piece in pairs]
    _, rejected = received("confirm_drain", message, STATE.model_copy(update={"slices": pairs}))
    assert isinstance(rejected, MessageRejected)
    assert rejected.problem.endswith("; and 997 more confirmations")


def test_slices_report_and_a_bad_report_is_rejected() -> None:
    report = {"slice_id": "pair-1", "group": "pair", "state": "READY", "since": NOW.isoformat()}
    complete = report | {"ordered_at": NOW.isoformat(), "sequence": 3}
    (event,) = received("slices_reported", {"reports": [complete]})
    assert isinstance(event, SlicesReported)
    assert "reports[0].sequence: is missing" in rejection("slices_reported", {"reports": [report]})
    assert "complete: is missing" in rejection("location_reported", {"account": "a"})


def test_what_a_newer_worker_says_beyond_what_is_known_here_is_passed_over() -> None:
    report = {"slice_id": "pair-9", "group": "pair", "state": "READY", "since": NOW.isoformat(), "ordered_at": NOW.isoformat()}
    (event,) = received("slices_reported", {"reports": [report | {"sequence": 3, "mood": "fine"}], "from": "tomorrow"})
    assert isinstance(event, SlicesReported)


def test_queue_lengths_and_unknown_signals_are_rejected_differently() -> None:
    lengths = {"queued": 3, "running": 1, "capacity": 2, "slices": 1}
    assert "pair is driven by the tasks that are placed on it" in rejection("pressure", {"pressure": {"pair": lengths}})
    assert "did you mean demand?" in rejection("demnd", [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("usage", {"usage": {f"host{i}": "idle" for i in range(5)}}),
        ("confirm_drain", [f"host{i}" for i in range(5)]),
        ("report", {"confirmed": [f"host{i}" for i in range(5)]}),
    ],
)
def test_ids_that_are_no_slices_are_rejected(name: str, message: Any) -> None:
    problem = received(name, message)[-1]
    assert isinstance(problem, MessageRejected)
    assert problem.message == name
    assert problem.problem == "there is no slice 'host0', 'host1', 'host2' and 2 more; `penstock slices` lists the ids"


@pytest.mark.parametrize(
    "invented", ["pair-7", "pair-300101-000000", "pair-300101-000000-0123ABCD", "pair-2-300101-000000-0123abcd"]
)
def test_ids_that_only_begin_like_those_of_a_group_are_rejected(invented: str) -> None:
    (_, problem) = received("usage", {"usage": {invented: "idle"}})
    assert isinstance(problem, MessageRejected)
    assert problem.problem == f"there is no slice '{invented}'; `penstock slices` lists the ids"


def test_slices_that_have_just_gone_are_not_rejected() -> None:
    gone = "pair-300101-000000-0123abcd"
    assert [type(event) for event in received("usage", {"usage": {gone: "idle"}})] == [UsageReported]
    assert [type(event) for event in received("confirm_drain", [gone, "pair-1"])] == [DrainsConfirmed]


def test_nobody_is_a_stranger_to_a_ledger_that_is_incomplete() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="it was reset")
    found = "pair-300101-000000-0123abcd"
    for state in (AutoscalerState(), replay([began], STATE)):
        (event,) = received("usage", {"usage": {found: "idle"}}, state)
        assert isinstance(event, UsageReported)


def test_what_runs_on_slices_that_are_still_to_be_found_is_kept_as_far_as_it_can_be_carried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = replay([RecoveryBegan(at=NOW, id="r", reason="it was reset")], STATE)
    to_be_found = [f"pair-300101-000000-{number:08x}" for number in range(300)]
    (kept,) = received("usage", {"usage": dict.fromkeys(to_be_found, "idle")}, state)
    assert isinstance(kept, UsageReported)
    assert len(replay([kept], state).usage) == 300

    (problem,) = received("usage", {"usage": {"x" * 100_000: "idle"}}, state)
    assert isinstance(problem, MessageRejected)
    assert len(problem.problem) < 300
    assert problem.problem.endswith("are not known yet; report it again once the cluster has recovered its ledger")
    (problem,) = received("usage", {"usage": {to_be_found[0]: ["idle"] * 3}}, state)
    assert isinstance(problem, MessageRejected)
    assert "3 given, but a slice of its group has 2 hosts" in problem.problem

    monkeypatch.setattr(size_limits, "LARGEST_USAGE", 100)
    known, problem = received("usage", {"usage": dict.fromkeys([*to_be_found, "pair-1"], "busy")}, state)
    assert isinstance(known, UsageReported)
    assert list(known.usage) == ["pair-1"]
    assert isinstance(problem, MessageRejected)


def test_drains_confirmed_before_their_slices_are_found_are_to_be_confirmed_again() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="it was reset")
    (_, problem) = received("confirm_drain", ["other-1"], replay([began], STATE))
    assert isinstance(problem, MessageRejected)
    assert problem.problem.startswith("slices 'other-1' are not known yet")
    assert "confirm again once the status lists their drains" in problem.problem


def test_drains_of_known_slices_that_a_recovery_may_still_find_are_to_be_confirmed_again() -> None:
    began = RecoveryBegan(at=NOW, id="r", reason="the autoscaler was reset")
    state = replay([began], STATE.model_copy(update={"slices": (PAIR.changed(drain=DrainTerms(cause="idle", number=3)),)}))
    for number, answer in ((7, "confirm again once the status lists their drains"), (2, "drain 2 of 'pair-1' is over")):
        _, rejected = received("confirm_drain", {"slice_id": "pair-1", "number": number}, state)
        assert isinstance(rejected, MessageRejected)
        assert answer in rejected.problem
    assert len(received("confirm_drain", {"slice_id": "pair-1", "number": 3}, state)) == 1


def test_a_cluster_that_is_being_deleted_wants_nothing_any_more() -> None:
    state = replay([*received("demand", [{"id": "a"}]), Closed(at=NOW)], STATE)
    assert not state.demand
    (problem,) = received("demand", [{"id": "b"}], state)
    assert isinstance(problem, MessageRejected)
    assert problem.problem.startswith("the cluster is being deleted")


def test_packed_demand_holds_no_more_tasks_than_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MOST_TASKS", 100)
    demand = tasks.demand_of([{"id": "a", "count": 101}])
    assert "more than 100 values" in rejection("demand", {"demand": json.loads(demand.model_dump_json())})
