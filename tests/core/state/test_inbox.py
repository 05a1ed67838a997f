"""A batch of signals is read as one: what a later message replaces costs nothing, and nothing else is lost."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.contract import names
from penstock.contract.slices import ConfirmEmptyCommand
from penstock.contract.tasks import demand_of
from penstock.core.state import inbox
from penstock.core.state.apply import replay
from penstock.core.state.events import ConfigApplied, DrainOrdered
from penstock.core.state.inbox import BYTES_PARSED, PER_MESSAGE, WORK, Received, fold, read_batch
from penstock.core.state.state import AutoscalerState
from penstock.core.state.usage import combined
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.resources import Resources
from penstock.model.slices import DrainTerms, HostState, HostUsage, Slice, SliceState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GROUP = {"name": "g", "max_slices": 9, "host": {"cpu": 4}}
DRIVEN = [GROUP | {"name": name, "drive": "pressure", "slots_per_slice": 2} for name in "pq"]
CONFIG = ClusterConfig.model_validate({"cluster": "x", "groups": [GROUP, *DRIVEN]})
SLICES = tuple(Slice(id=f"g-{n}", group="g", state=SliceState.READY) for n in range(4))
STATE = replay([ConfigApplied(at=NOW, config=CONFIG)]).model_copy(update={"slices": SLICES})


def batch(*messages: tuple[str, Any]) -> list[Received]:
    return [Received(name, json.dumps(said).encode(), NOW + timedelta(seconds=i)) for i, (name, said) in enumerate(messages)]


def one_by_one(state: AutoscalerState, received: list[Received]) -> AutoscalerState:
    for each in received:
        state = fold(state, [each])
    return state


def some_message(chance: random.Random) -> tuple[str, Any]:
    stamp: dict[str, Any] = {"source": chance.choice("ab"), "epoch": chance.randrange(2), "revision": chance.randrange(8)}
    tasks = [{"id": f"t{n}"} for n in range(chance.randrange(4))]
    usage = {f"g-{n}": chance.choice(["idle", "busy", "lazy"]) for n in chance.sample(range(4), 2)}
    return chance.choice(
        [
            ("demand", {**stamp, "tasks": tasks}),
            ("demand", {**stamp, "tasks": tasks, "part": chance.choice([1, 2]), "parts": 2}),
            ("demand", {**stamp, "tasks": tasks, "base": max(0, stamp["revision"] - 1), "removed": []}),
            ("demand", {"source": "plain", "tasks": tasks}),
            ("demand", {"source": "plain", "tasks": 7}),
            ("usage", {"usage": usage}),
            ("report", {"usage": usage}),
            ("report", {"usage": usage, "complete": chance.random() < 0.5, "confirmed": ["g-0"]}),
            ("report", {"demand": {"tasks": [{"id": "t"}, {"id": "t"}]}, "usage": usage}),
            ("confirm_drain", [f"g-{chance.randrange(4)}"]),
            ("slices_reported", {"what": 1}),
        ]
    )


def known(state: AutoscalerState) -> dict[str, Any]:
    """The demand of every source, whatever resync it needs."""
    return {name: source.model_copy(update={"resync_needed": None}) for name, source in state.demand.items()}


@pytest.mark.parametrize("seed", range(300))
def test_a_batch_means_what_its_messages_mean_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    received = batch(*(some_message(chance) for _ in range(chance.randrange(2, 12))))
    together, apart = fold(STATE, received), one_by_one(STATE, received)
    assert known(together) == known(apart)
    assert together.resync_needed.keys() <= apart.resync_needed.keys()  # A delta that is replaced needs none.
    assert together.usage == apart.usage
    assert together.now == apart.now


def some_pressure(chance: random.Random) -> tuple[str, Any]:
    report = {"queued": chance.choice([0, 1, 2, -1]), "running": 1, "capacity": 2, "slices": 1}
    said: dict[str, Any] = {"pressure": dict.fromkeys(chance.choice(["p", "q", "pq", "g"]), report)}
    stamp = {"epoch": chance.randrange(2), "revision": chance.randrange(8)}
    return chance.choice(
        [
            ("pressure", said),
            ("pressure", said | stamp | {"source": "numbered"}),
            ("pressure", said | {"source": "old", "config_revision": chance.randrange(3)}),
            ("report", said),
            ("report", {"usage": {"g-0": "idle"}}),
        ]
    )


@pytest.mark.parametrize("seed", range(100))
def test_reports_of_pressure_mean_the_same_in_a_batch(seed: int) -> None:
    chance = random.Random(seed)
    received = batch(*(some_pressure(chance) for _ in range(chance.randrange(2, 12))))
    together, apart = fold(STATE, received), one_by_one(STATE, received)
    words = [{name: (said.report, said.source) for name, said in state.pressure.items()} for state in (together, apart)]
    assert words[0] == words[1]
    assert together.used_old_config == apart.used_old_config


def test_only_the_newest_snapshot_of_a_source_is_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    unfolded: list[Any] = []

    def noted(tasks: Any) -> Demand:
        unfolded.append(tasks)
        return demand_of(tasks)

    monkeypatch.setattr(inbox, "demand_of", noted)
    sent = [("report", {"demand": {"epoch": 1, "revision": n, "tasks": [{"id": "t", "count": n}]}}) for n in range(1, 200)]
    state = fold(STATE, batch(*sent))
    assert len(state.demand["default"].demand.task_ids) == 199
    assert len(unfolded) == 1


def test_a_snapshot_that_cannot_be_used_replaces_nothing() -> None:
    good, bad = {"epoch": 1, "revision": 1, "tasks": [{"id": "t"}]}, {"epoch": 1, "revision": 2, "tasks": 7}
    twice = {"epoch": 1, "revision": 3, "tasks": [{"id": "t"}, {"id": "t"}]}
    state = fold(STATE, batch(("demand", good), ("demand", bad), ("demand", twice)))
    assert state.demand["default"].demand.task_ids == ("t",)
    assert state.rejected_in_all == 2


def test_a_slice_whose_newest_usage_cannot_be_read_keeps_the_one_before() -> None:
    state = fold(STATE, batch(("usage", {"usage": {"g-0": "busy", "g-1": "idle"}}), ("usage", {"usage": {"g-0": "lazy"}})))
    assert [state.usage[one][0].state for one in ("g-0", "g-1")] == [HostState.BUSY, HostState.IDLE]
    assert "usage.g-0" in state.rejected[0].problem


def test_complete_usage_that_cannot_be_read_withdraws_nothing_that_came_before_it() -> None:
    good, bad = ("usage", {"usage": {"g-0": "busy"}}), ("usage", {"usage": {"g-1": "lazy"}, "complete": True})
    for received in (batch(good, bad), batch(good, bad, ("report", {}))):
        state = fold(STATE, received)
        assert state.usage["g-0"][0].state is HostState.BUSY
        assert "usage.g-1" in state.rejected[0].problem


def test_every_confirmation_of_a_batch_counts() -> None:
    draining = replay([DrainOrdered(at=NOW, slice_id=piece.id, terms=DrainTerms(cause="test")) for piece in SLICES], STATE)
    state = fold(draining, batch(*(("report", {"confirmed": [piece.id]}) for piece in SLICES)))
    assert [command.slice_id for command in state.outbox if isinstance(command, ConfirmEmptyCommand)] == [
        piece.id for piece in SLICES
    ]


def test_usage_holds_by_revision_and_not_by_arrival() -> None:
    def said(revision: int, word: str, *slices: str, epoch: int = 1) -> tuple[str, Any]:
        return ("usage", {"source": "s", "epoch": epoch, "revision": revision, "usage": dict.fromkeys(slices, word)})

    newer = fold(STATE, batch(said(2, "busy", "g-0")))
    for state in (
        fold(newer, batch(said(1, "idle", "g-0", "g-1"))),
        fold(STATE, batch(said(2, "busy", "g-0"), said(1, "idle", "g-0", "g-1"))),
    ):
        assert [state.usage[one][0].state for one in ("g-0", "g-1")] == [HostState.BUSY, HostState.IDLE]
        assert state.usage_sources["s"].stamp == (1, 2)
    restarted = fold(newer, batch(said(0, "idle", "g-0", epoch=2), said(9, "busy", "g-0", epoch=1)))
    assert restarted.usage["g-0"][0].idle
    assert restarted.usage_sources["s"].stamp == (2, 0)


def test_the_newest_word_of_a_source_holds_whichever_signal_brings_it() -> None:
    said = [(name, {"usage": {"g-0": word}}) for name, word in (("usage", "busy"), ("report", "idle"), ("usage", "busy"))]
    assert not fold(STATE, batch(*said)).usage["g-0"][0].idle
    withdrawn = ("report", {"usage": {}, "complete": True})
    assert fold(STATE, batch(said[0], withdrawn, said[1])).usage["g-0"][0].idle


def test_a_slice_is_idle_only_if_every_source_that_named_it_says_so() -> None:
    def said(source: str, word: Any) -> tuple[str, Any]:
        return ("usage", {"source": source, "usage": {"g-0": word}})

    shared = fold(STATE, batch(said("a", [{"reserved": {"cpu": 1}}]), said("b", [{"reserved": {"cpu": 2}}])))
    (host,) = shared.usage["g-0"]
    assert host.reserved == Resources(cpu=3)
    assert not host.do_not_disrupt
    assert fold(shared, batch(said("a", {"state": "idle", "do_not_disrupt": True}))).usage["g-0"][0].do_not_disrupt
    one_left = fold(shared, batch(said("a", "idle")))
    assert one_left.usage["g-0"][0].reserved == Resources(cpu=2)
    withdrawn = fold(one_left, batch(("usage", {"source": "b", "complete": True, "usage": {}})))
    assert withdrawn.usage["g-0"][0].idle
    assert fold(withdrawn, batch(("report", {"source": "a", "complete": True, "usage": {}}))).usage == {}


def test_a_source_of_usage_is_known_with_its_slices_and_the_time_of_its_last_word() -> None:
    named = fold(STATE, batch(("report", {"source": "s", "epoch": 1, "revision": 1, "usage": {"g-1": "idle"}})))
    later = NOW + timedelta(minutes=1)
    renewed = fold(named, [Received("report", b'{"source": "s"}', later)])
    source = renewed.usage_sources["s"]
    assert (source.named, source.stamp, source.at) == (("g-1",), (1, 1), later)
    assert renewed.input_version == named.input_version
    assert AutoscalerState.model_validate_json(renewed.model_dump_json()) == renewed


def test_a_degraded_host_is_degraded_whoever_else_calls_it_idle() -> None:
    words = [(HostUsage(state=HostState.DEGRADED),), (HostUsage(state=HostState.IDLE), HostUsage(state=HostState.BUSY))]
    assert [host.state for host in combined(words)] == [HostState.DEGRADED, HostState.DEGRADED]


def test_a_batch_is_bounded_in_work_and_never_empty() -> None:
    heartbeats = [Received("report", b"{}", NOW)] * 99_999
    assert WORK // PER_MESSAGE // 2 < read_batch(STATE, heartbeats).messages <= WORK // PER_MESSAGE + 1
    large = Received("report", b'{"source": "' + b"x" * WORK * BYTES_PARSED + b'"}', NOW)
    assert read_batch(STATE, [large, *heartbeats]).messages == 1
    assert read_batch(STATE, heartbeats, work=0).messages == 1


def test_what_costs_more_in_a_larger_cluster_is_read_in_smaller_batches() -> None:
    small, large = (
        STATE.model_copy(update={"slices": tuple(Slice(id=f"g-{n}", group="g", state=SliceState.READY) for n in range(count))})
        for count in (10, 5_000)
    )
    audits = batch(*((names.LOCATION_REPORTED, {}) for _ in range(900)))
    usage = batch(*(("usage", {"source": f"s{n}", "usage": {"g-1": "busy"}}) for n in range(900)))
    for messages in (audits, usage):
        assert read_batch(large, messages).messages < read_batch(small, messages).messages / 5


def test_deltas_to_a_large_demand_are_read_a_few_at_a_time() -> None:
    whole = {"epoch": 1, "revision": 0, "tasks": [{"id": "t", "count": 20_000}]}
    deltas = [("demand", {"epoch": 1, "revision": n, "base": n - 1, "tasks": [{"id": f"new-{n}"}]}) for n in range(1, 60)]
    state = fold(STATE, batch(("demand", whole)))
    first = read_batch(state, batch(*deltas))
    assert first.messages < 30
    assert len(fold(first.state, batch(*deltas)[first.messages :]).demand["default"].demand.task_ids) == 20_059


def test_a_message_that_breaks_its_batch_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "_coalesced", lambda *_: 1 / 0)
    state = fold(STATE, batch(("demand", [{"id": "t"}]), ("usage", {"usage": {"g-0": "busy"}})))
    assert (state.demand["default"].demand.task_ids, len(state.usage)) == (("t",), 1)
