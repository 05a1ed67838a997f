"""Metrics of what a status tells, as an exporter gets them."""

from datetime import datetime

from temporalio.common import MetricMeter

from activities.status_metrics import StatusMetrics
from penstock.contract import metrics
from penstock.contract.answers import LocationProblem, ProblemKind
from penstock.contract.metrics import Metric
from penstock.core.answers.evaluate import evaluate
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import Decided, DemandSnapshot, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Pressure
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, later, ordered, ready, report
from tests.workflows.meters import Meters

IDLE, BUSY = (HostUsage(state=HostState.IDLE),), (HostUsage(state=HostState.BUSY),)
GPUS = {"device": {"type": "gpu", "variant": "l4"}, "host": {"cpu": 4, "gpu": 4}, "pool": "reserved"}


def fleet() -> AutoscalerState:
    """Of a group at six an hour: one slice busy, one idle, one booting, one that nobody named."""
    state = cluster({"name": "g", "price_per_hour": 6}, {"name": "h"})
    state = ready(ready(ready(state, "a"), "b"), "c")
    state = after_reports(ordered(state, "d"), report("d", SliceState.BOOTING, 2))
    return apply(state, UsageReported(at=NOW, source="ray", usage={"a": BUSY, "b": IDLE}))


def recorded(state: AutoscalerState, now: datetime) -> Meters:
    meters = Meters()
    StatusMetrics(meters.runtime.metric_meter).record("test", state, now)
    return meters


def of(meters: Meters, metric: Metric) -> dict[tuple[str, ...], float]:
    """The series of the cluster, without its name."""
    return {labels[1:]: value for labels, value in meters.of(metric).items()}


def test_money_is_told_by_group_and_use_and_what_idleness_has_cost_goes_on_without_evaluations() -> None:
    meters = recorded(fleet(), later(7200))
    assert of(meters, metrics.COST_BY_USE) == {
        ("g", "busy"): 6,
        ("g", "idle"): 6,
        ("g", "on_the_way"): 6,
        ("g", "unreported"): 6,
    }
    assert of(meters, metrics.IDLE_COST_OF_DAY) == {(): 12}


def test_a_source_was_heard_when_its_last_message_came_and_one_that_names_nothing_is_not_told() -> None:
    heard = [UsageReported(at=later(60), source="ray", usage={}), UsageReported(at=later(60), source="idler", usage={})]
    meters = recorded(replay(heard, fleet()), later(7200))
    assert of(meters, metrics.SOURCE_HEARD) == {("ray",): later(60).timestamp()}


def test_slices_that_nobody_names_are_told_once_their_grace_is_over() -> None:
    assert of(recorded(fleet(), later(119)), metrics.SLICES_UNREPORTED) == {("g",): 0, ("h",): 0}
    assert of(recorded(fleet(), later(120)), metrics.SLICES_UNREPORTED) == {("g",): 1, ("h",): 0}


def test_slices_that_did_not_join_are_told_by_group() -> None:
    state = fleet()
    lost = tuple(piece.changed(unclaimed=NOW) if piece.id == "c" else piece for piece in state.slices)
    meters = recorded(state.model_copy(update={"slices": lost}), NOW)
    assert of(meters, metrics.SLICES_UNCLAIMED) == {("g",): 1, ("h",): 0}


def test_pressure_is_told_by_group_and_pool() -> None:
    demand = build_demand([Task.model_validate({"id": f"t{n}", "resources": {"gpu": 4}}) for n in range(5)])
    state = cluster({"name": "g"} | GPUS, pools=[{"name": "reserved", "chips": 8}])
    state = apply(state, DemandSnapshot(at=NOW, epoch=1, revision=1, demand=demand))
    orders = evaluate(state, now=NOW, chance=lambda: "0badcafe").orders
    meters = recorded(apply(state, Decided(at=NOW, orders=orders)), NOW)
    assert of(meters, metrics.GROUP_PRESSURE) == {("g", "capacity"): 3, ("g", "logical"): 0, ("g", "accounted_for"): 2}
    in_chips = {("reserved", "capacity"): 12, ("reserved", "logical"): 0, ("reserved", "accounted_for"): 8}
    assert of(meters, metrics.POOL_PRESSURE) == in_chips


def test_what_is_no_longer_so_and_a_cluster_that_ended_are_zero() -> None:
    meters = Meters()
    gauges = StatusMetrics(meters.runtime.metric_meter)
    problem = LocationProblem(kind=ProblemKind.REFUSED, since=NOW)
    gauges.record("test", fleet().model_copy(update={"location_problems": {"sim/a": problem}}), later(3600))
    assert of(meters, metrics.LOCATION_PROBLEM) == {("sim/a", "refused"): 1}
    gauges.record("test", fleet(), later(3600))
    assert of(meters, metrics.LOCATION_PROBLEM) == {("sim/a", "refused"): 0}
    assert gauges.shown == {"test"}
    gauges.clear("test")
    for metric in metrics.OF_STATUS:
        assert not any(meters.of(metric).values())
    assert gauges.shown == set()


def test_without_an_exporter_nothing_is_computed() -> None:
    gauges = StatusMetrics(MetricMeter.noop)
    gauges.record("test", fleet(), NOW)
    assert gauges.shown == set()


def test_every_kind_of_pressure_is_a_label() -> None:
    assert tuple(Pressure.model_fields) == metrics.PRESSURE_KINDS
