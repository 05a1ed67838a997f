"""What cannot be carried from run to run is refused with its fix, and what stood before stands."""

import json
import random
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client.demand_messages import as_demand, in_parts
from penstock.contract.inventories import LocationReport
from penstock.core.state import size_limits
from penstock.core.state.apply import KEPT_EMPTY_SOURCES, apply, replay
from penstock.core.state.events import (
    AnyEvent,
    Closed,
    ConfigApplied,
    DemandDelta,
    DemandRefused,
    DemandSnapshot,
    DrainOrdered,
    LocationReported,
)
from penstock.core.state.signals import read_signal
from penstock.core.state.size_limits import LARGEST_DEMAND, MOST_DRAINS, exceeds_limits
from penstock.core.state.state import MOST_ADDRESSES, AutoscalerState
from penstock.core.state.updates import read_update
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.failures import Failure, FailureKind
from penstock.model.location import Location
from penstock.model.shape import MOST_TASKS
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, Slice, SliceState
from tests.core.state.ledgers import after_reports, orphan, report

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TEMPORALS_LIMIT = 2 * 1024 * 1024
"""Bytes of one payload, and so of a state that is carried or shown."""
SMALL_LIMIT = 40_000
"""Bytes that demand may take in most of these tests."""
AT_ONCE = 50
"""Reports of one batch."""
HEAVY = 2_000
"""Random ids that are more than that."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "LARGEST_DEMAND", SMALL_LIMIT)


def random_ids(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(count)]


def waiting(ids: list[str]) -> Demand:
    return as_demand([{"id": name} for name in ids])


def snapshot(demand: Demand, revision: int = 1, source: str = "default", part: int = 1, parts: int = 1) -> DemandSnapshot:
    stamp = {"epoch": 1, "revision": revision, "part": part, "parts": parts}
    return DemandSnapshot(at=NOW, source=source, **stamp, demand=demand)


def sent(state: AutoscalerState, demand: Demand, **stamp: Any) -> tuple[AnyEvent, ...]:
    message = {"demand": json.loads(demand.model_dump_json()), "epoch": 1} | stamp
    return read_signal(state, "demand", json.dumps(message).encode(), NOW)


def test_sources_that_want_nothing_any_more_are_forgotten_in_the_end() -> None:
    state = AutoscalerState()
    for number in range(3 * KEPT_EMPTY_SOURCES):
        for tasks in ([{"id": "t"}], []):
            message = {"source": f"job-{number}", "tasks": tasks}
            state = replay(read_signal(state, "demand", json.dumps(message).encode(), NOW), state)
    assert [*state.demand] == [f"job-{number}" for number in range(2 * KEPT_EMPTY_SOURCES, 3 * KEPT_EMPTY_SOURCES)]


def test_a_source_that_wants_something_is_never_forgotten() -> None:
    state = apply(AutoscalerState(), snapshot(waiting(["a"]), source="steady"))
    for number in range(2 * KEPT_EMPTY_SOURCES):
        state = apply(state, snapshot(Demand(), source=f"job-{number}"))
    assert list(state.demand["steady"].demand.task_ids) == ["a"]


@pytest.mark.parametrize(
    ("update", "message", "field"),
    [("drain_slice", {"slice_id": "a", "cause": "x" * 501}, "cause"), ("pause", {"reason": "x" * 501}, "reason")],
)
def test_reasons_are_as_long_as_people_read(update: str, message: dict[str, str], field: str) -> None:
    (event,) = read_update(ready(1), update, json.dumps(message).encode(), NOW).events
    refusal = exceeds_limits(ready(1), event)
    assert refusal == f"{field}: has 501 characters, the limit is 500; shorten it"


def test_a_cluster_of_full_size_is_carried_while_it_is_deleted_or_drained() -> None:
    state = apply(ready(5_000), snapshot(waiting(random_ids(60_000))))
    assert exceeds_limits(AutoscalerState(), snapshot(waiting(random_ids(60_000)))) is None
    assert len(apply(state, Closed(at=NOW)).model_dump_json()) < TEMPORALS_LIMIT
    drained = state
    orders = [DrainOrdered(at=NOW, slice_id=piece.id, terms=DrainTerms(cause="operator")) for piece in state.slices]
    for order in orders[:MOST_DRAINS]:
        assert exceeds_limits(drained, order) is None
        drained = apply(drained, order)
    assert len(drained.draining) == MOST_DRAINS
    assert len(drained.model_dump_json()) < TEMPORALS_LIMIT
    refusal = exceeds_limits(drained, orders[MOST_DRAINS])
    assert refusal == "slice_id: 2000 slices drain already; wait until some of them are gone, or delete the cluster"


def test_five_thousand_slices_found_at_once_are_carried() -> None:
    """The autoscaler and every slice workflow were terminated."""
    settings = {"project": "my-research-project", "startup_script": "echo hello\n" * 50}
    group = {"name": "v5e-16", "host": {"cpu": 4}, "max_slices": 6_000, "zone": "us-west4-a"}
    configured = [group | {"provider": {"kind": "gcp-tpu", **settings}}]
    state = apply(AutoscalerState(), ConfigApplied(at=NOW, config=ClusterConfig(cluster="c", groups=configured)))
    where = Location(provider="gcp-tpu", account="gcp-tpu:my-research-project", name="us-west4-a", settings=settings)
    found = tuple(orphan(piece.id, group="v5e-16", hosts=4) for piece in ready(5_000).slices)
    report = LocationReport(location=where, at=NOW, complete=True, orphans=found)
    state = apply(state, LocationReported(at=NOW, report=report))
    assert len(state.unstarted) == 5_000
    assert len(state.model_dump_json()) < TEMPORALS_LIMIT


def test_a_ledger_with_all_the_addresses_it_may_hold_is_carried_and_further_addresses_are_left_out() -> None:
    chance = random.Random(3)

    def hosts(piece: Slice) -> tuple[HostAddress, ...]:
        ips = [f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}" for _ in range(10)]
        return tuple(
            HostAddress(name=f"{piece.id}-w-{i}", address=ip, external_address=f"34{ip[2:]}") for i, ip in enumerate(ips)
        )

    state = apply(ready(5_000), snapshot(waiting(random_ids(60_000))))
    reports = [report(piece.id, SliceState.READY, 1, group="v5e-16", hosts=hosts(piece)) for piece in state.slices]
    for first in range(0, len(reports), AT_ONCE):
        state = after_reports(state, *reports[first : first + AT_ONCE])
    assert sum(len(piece.hosts) for piece in state.slices) == MOST_ADDRESSES
    assert len(state.model_dump_json()) < TEMPORALS_LIMIT


def ready(count: int) -> AutoscalerState:
    """So many READY slices, called as slices are; the first of them is a."""
    chance = random.Random(1)
    names = ["a", *(f"v5e-16-261118-010203-{chance.getrandbits(32):08x}" for _ in range(count - 1))]
    slices = tuple(Slice(id=name, group="v5e-16", state=SliceState.READY) for name in names)
    return AutoscalerState(slices=slices)


def test_sixty_thousand_random_ids_are_carried() -> None:
    (event,) = sent(AutoscalerState(), waiting(random_ids(60_000)), revision=1)
    assert isinstance(event, DemandSnapshot)
    assert len(apply(AutoscalerState(), event).model_dump_json()) < LARGEST_DEMAND < TEMPORALS_LIMIT


@pytest.mark.usefixtures("small")
def test_demand_that_is_too_heavy_leaves_the_old_one_and_asks_for_a_snapshot() -> None:
    state = replay([snapshot(waiting(["a", "b"]))])
    (event,) = sent(state, waiting(random_ids(HEAVY)), revision=2)
    assert isinstance(event, DemandRefused)
    after = apply(state, event)
    source = after.demand["default"]
    assert (source.demand.task_ids, source.revision, source.latest) == (("a", "b"), 1, (1, 2))
    assert source.resync_needed is not None
    assert "shorter ids or ids that count up" in source.resync_needed
    assert [(kept.message, kept.problem) for kept in after.rejected] == [("demand", source.resync_needed)]
    assert after.input_version == state.input_version + 1
    mended = replay(sent(after, waiting(["a", "c"]), revision=3), after).demand["default"]
    assert (mended.demand.task_ids, mended.resync_needed) == (("a", "c"), None)


@pytest.mark.usefixtures("small")
def test_what_came_too_late_is_ignored_however_heavy_it_is() -> None:
    state = replay([snapshot(waiting(["a"]), revision=5)])
    (event,) = sent(state, waiting(random_ids(HEAVY)), revision=4)
    assert apply(state, event).demand == state.demand


@pytest.mark.usefixtures("small")
def test_an_update_that_is_too_large_is_refused() -> None:
    raw = json.dumps({"demand": json.loads(waiting(random_ids(HEAVY)).model_dump_json())}).encode()
    (event,) = read_update(AutoscalerState(), "submit_demand", raw, NOW).events
    assert f"the limit is {SMALL_LIMIT}" in (exceeds_limits(AutoscalerState(), event) or "")


@pytest.mark.usefixtures("small")
def test_the_demand_of_all_sources_counts_together() -> None:
    half = HEAVY * 2 // 3
    state = replay([snapshot(waiting(random_ids(half, seed=1)), source="one")])
    two = snapshot(waiting(random_ids(half, seed=2)), source="two")
    assert exceeds_limits(AutoscalerState(), two) is None
    assert exceeds_limits(state, two) is not None
    assert exceeds_limits(state, two.model_copy(update={"source": "one", "revision": 2})) is None


@pytest.mark.usefixtures("small")
def test_parts_of_a_snapshot_count_together_and_are_dropped_once_it_is_refused() -> None:
    parts = in_parts(waiting(random_ids(HEAVY)), largest=SMALL_LIMIT)
    assert len(parts) == 2
    state = AutoscalerState()
    for number, part in enumerate(parts, start=1):
        state = replay(sent(state, part, revision=1, part=number, parts=2), state)
    source = state.demand["default"]
    assert source.partial is None
    assert source.resync_needed is not None
    assert len(state.model_dump_json()) < 10_000


@pytest.mark.usefixtures("small")
def test_a_delta_is_refused_if_it_adds_too_much_and_never_for_what_it_takes_away() -> None:
    ids = random_ids(HEAVY + 100)
    state = replay([snapshot(waiting(ids[:HEAVY]))])
    delta = DemandDelta(at=NOW, epoch=1, base=1, revision=2, removed=tuple(ids[:9]))
    assert exceeds_limits(state, delta) is None
    assert exceeds_limits(state, delta.model_copy(update={"added": waiting(ids[HEAVY:])})) is not None
    assert exceeds_limits(state, snapshot(waiting(ids[: HEAVY - 1]), revision=2)) is None


def test_tasks_of_a_source_are_as_many_as_one_message_may_hold_however_they_came() -> None:
    most = snapshot(as_demand([{"id": "many", "count": MOST_TASKS}]))
    assert exceeds_limits(AutoscalerState(), most) is None
    one_more = DemandDelta(at=NOW, epoch=1, base=1, revision=2, added=waiting(["one"]))
    assert "one source has 200001 tasks" in (exceeds_limits(replay([most]), one_more) or "")


def test_a_configuration_and_a_standing_request_are_refused_if_they_cannot_be_carried() -> None:
    groups = [{"name": f"group-{i}", "max_slices": 1, "host": {"cpu": 4}} for i in range(2_000)]
    config = ClusterConfig.model_validate({"cluster": "x", "groups": groups})
    assert "configure fewer" in (exceeds_limits(AutoscalerState(), ConfigApplied(at=NOW, config=config)) or "")
    wants = [{"resources": {"cpu": 1 + i % 7}} for i in range(20_000)]
    raw = json.dumps({"owner": "someone", "wants": wants}).encode()
    (event,) = read_update(AutoscalerState(), "request_capacity", raw, NOW).events
    assert "write `count`" in (exceeds_limits(AutoscalerState(), event) or "")


def with_slices(count: int) -> AutoscalerState:
    """So many READY slices of one host."""
    config = ClusterConfig.model_validate({"cluster": "x", "groups": [{"name": "g", "max_slices": 100, "host": {"cpu": 4}}]})
    pieces = tuple(Slice(id=f"g-{i}", group="g", state=SliceState.READY) for i in range(count))
    return replay([ConfigApplied(at=NOW, config=config)], AutoscalerState(slices=pieces))


def after_usage(state: AutoscalerState, usage: dict[str, Any], source: str = "default") -> AutoscalerState:
    raw = json.dumps({"source": source, "usage": usage}).encode()
    return replay(read_signal(state, "usage", raw, NOW), state)


@pytest.mark.parametrize("names", ["tasks", "gangs"])
@pytest.mark.parametrize("host", [{}, {"reserved": {"cpu": 1}}, {"state": "degraded"}])
def test_usage_counts_without_names_if_there_are_too_many(host: dict[str, Any], names: str) -> None:
    ids = random_ids(20_000)
    after = after_usage(with_slices(100), {f"g-{i}": [host | {names: ids[i * 200 : i * 200 + 200]}] for i in range(100)})
    assert [kept.problem.partition(";")[0] for kept in after.rejected] == [
        "usage: the names of running tasks exceed the size limit, so usage counts without them"
    ]
    hosts = [one for hosts in after.usage.values() for one in hosts]
    assert len(hosts) == 100
    assert not any(one.tasks or one.gangs or one.idle for one in hosts)
    assert len(after.model_dump_json()) < 20_000


def test_names_that_several_sources_give_one_slice_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "LARGEST_NAMES", 10_000)
    state = with_slices(1)
    for number in range(10):
        state = after_usage(state, {"g-0": [{"tasks": random_ids(100, seed=number)}]}, source=f"s{number}")
    (host,) = state.usage["g-0"]
    assert 0 < len(host.tasks) < 1_000
    assert state.rejected_in_all > 0
    assert len(state.model_dump_json()) < 30_000


def test_a_failure_keeps_the_beginning_and_the_end_of_what_a_cloud_says() -> None:
    """A proxy may answer with a whole page, and the state holds dozens of failures."""
    message = Failure(kind=FailureKind.PERMISSION, message=f"403 {'<p>' * 100_000} (rpc 7)").message
    assert (len(message), message[:4], message[-7:]) == (500, "403 ", "(rpc 7)")
