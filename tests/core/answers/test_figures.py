"""The status tells the pressure, the pools, the standing requests and the drains of the last decision, without deciding."""

from typing import Any

import pytest

from penstock.contract.capacity import PoolStatus
from penstock.contract.orders import Orders
from penstock.core.answers import figures
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply
from penstock.core.state.events import CapacityRequested, Closed, Decided, DemandSnapshot, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Code, Pressure
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import HostState, HostUsage, StandingItem, StandingRequest
from tests.core.state.ledgers import NOW, cluster, later, ready

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
V5E: dict[str, Any] = {"device": {"type": "tpu", "variant": "v5litepod-4"}, "host": {"cpu": 8, "tpu": 4}, "pool": "reserved"}


def evaluated(state: AutoscalerState, seconds: float = 1) -> Evaluation:
    return evaluate(state, now=later(seconds), chance=lambda: "0badcafe")


def decided(state: AutoscalerState, seconds: float = 1) -> AutoscalerState:
    return apply(state, Decided(at=later(seconds), orders=evaluated(state, seconds).orders))


def wanting(state: AutoscalerState, tasks: int, **resources: object) -> AutoscalerState:
    demand = build_demand([Task.model_validate({"id": f"t{n}", "resources": resources or {"cpu": 4}}) for n in range(tasks)])
    return apply(state, DemandSnapshot(at=NOW, epoch=1, revision=1, demand=demand))


def asking(state: AutoscalerState, owner: str, count: int = 1, cpu: int = 4) -> AutoscalerState:
    item = StandingItem.model_validate({"resources": {"cpu": cpu}, "count": count})
    return apply(state, CapacityRequested(at=NOW, request=StandingRequest(owner=owner, wants=(item,), expires=later(900))))


def test_the_pressure_on_each_group_is_that_of_the_decision() -> None:
    state = wanting(cluster({"name": "g", "max_slices": 2}), 5)
    evaluation = evaluated(state)
    status = status_of(apply(state, Decided(at=later(1), orders=evaluation.orders)))
    assert [group.pressure for group in status.groups] == [group.pressure for group in evaluation.decision.groups]
    assert status.groups[0].pressure == Pressure(capacity=3, accounted_for=2)


def test_pools_show_what_is_charged_now_and_the_pressure_of_their_groups_in_chips() -> None:
    pools = [{"name": "reserved", "chips": 9, "system": 1}, {"name": "unused", "chips": 4}]
    state = wanting(cluster({"name": "g", "max_slices": 9} | V5E, pools=pools), 5, tpu=4)
    evaluation = evaluated(state)
    status = status_of(apply(state, Decided(at=later(1), orders=evaluation.orders)))
    assert [pool.pressure for pool in status.pools] == [pool.pressure for pool in evaluation.decision.pools]
    assert status.pools == (
        PoolStatus(name="reserved", chips=9, system=1, charged=8, pressure=Pressure(capacity=12, accounted_for=8)),
        PoolStatus(name="unused", chips=4, system=0, charged=0),
    )


def test_each_standing_request_says_whether_the_last_decision_met_it_and_why_not() -> None:
    state = decided(asking(asking(cluster({"name": "g"}), "ana"), "bo", cpu=64))
    state = asking(state, "new")
    ana, bo, new = status_of(state).standing
    assert (ana.owner, ana.met, ana.message, ana.expires) == ("ana", True, "", later(900))
    assert (bo.owner, bo.met, bo.code) == ("bo", False, Code.INSUFFICIENT_RESOURCES)
    assert bo.message.startswith("too big for a host of g")
    assert (new.owner, new.met) == ("new", None)
    assert [request.met for request in status_of(decided(state, 2)).standing] == [True, False, True]


def test_with_observe_the_status_says_how_many_slices_the_last_decision_would_have_drained() -> None:
    state = cluster({"name": "g"}, scale_down="observe")
    for slice_id in "abc":
        state = ready(state, slice_id)
    state = apply(state, UsageReported(at=NOW, usage={"a": IDLE, "b": IDLE, "c": BUSY}))
    assert status_of(decided(state)).observed_drains == 0
    status = status_of(decided(state, 700))
    assert (status.scale_down, status.observed_drains, status.drains) == ("observe", 2, ())


def test_orders_that_are_carried_out_are_not_counted_as_observed() -> None:
    state = apply(ready(cluster({"name": "g"})), UsageReported(at=NOW, usage={"a": IDLE}))
    status = status_of(decided(state, 700))
    assert (status.scale_down, status.observed_drains, len(status.drains)) == ("on", 0, 1)


def test_a_cluster_that_is_deleted_has_no_pressure_and_no_standing_requests() -> None:
    state = decided(asking(wanting(cluster({"name": "g", "max_slices": 1}), 5), "ana"))
    status = status_of(apply(state, Closed(at=later(2))))
    assert (status.groups[0].pressure, status.standing, status.observed_drains) == (Pressure(), (), 0)


def test_what_the_state_keeps_of_a_decision_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MOST_GROUPS", 2)
    monkeypatch.setattr(figures, "MOST_UNMET", 1)
    monkeypatch.setattr(figures, "LONGEST_REASON", 20)
    state = cluster(*({"name": f"g{n}", "min_slices": 1, "priority": n} for n in range(4)))
    for n in range(3):
        state = asking(state, f"o{n}", cpu=64)
    orders = evaluated(state).orders
    assert list(orders.figures) == ["g0", "g1"]
    assert [len(outcome.message) for outcome in orders.standing_unmet] == [20]
    assert Orders.model_validate_json(orders.model_dump_json()) == orders


def test_groups_without_figures_take_no_room() -> None:
    assert evaluated(cluster({"name": "g"}, {"name": "h", "min_slices": 1})).orders.figures.keys() == {"h"}
