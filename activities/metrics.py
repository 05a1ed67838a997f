"""Metrics of activities: evaluations, create errors, failed listings; on the meter of the worker's runtime."""

from collections.abc import Mapping
from datetime import UTC, datetime

from temporalio import activity
from temporalio.common import MetricMeter

from penstock.contract import metrics
from penstock.contract.inventories import WatchedLocation
from penstock.contract.metrics import Metric
from penstock.contract.orders import Orders
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision, Tier

Labels = tuple[str, ...]


class Gauges:
    """Gauges of this process. A gauge keeps its last value, so labels that disappeared are set to zero."""

    def __init__(self) -> None:
        self._known: dict[tuple[Metric, str], dict[Labels, None]] = {}

    def set(self, meter: MetricMeter, metric: Metric, cluster: str, values: Mapping[Labels, float]) -> None:
        """Set a gauge for all labels of a cluster."""
        gauge = meter.create_gauge_float(metric.name, metric.description, metric.unit)
        known = self._known.setdefault((metric, cluster), {})
        known |= dict.fromkeys(values)
        for labels in known:
            gauge.set(float(values.get(labels, 0)), dict(zip(metric.labels, (cluster, *labels), strict=True)))


class EvaluationMetrics:
    """Metrics of this process's evaluations."""

    def __init__(self) -> None:
        self._gauges = Gauges()

    def record(self, cluster: str, state: AutoscalerState, decision: Decision, orders: Orders) -> None:
        """Record one evaluation; costs nothing if no metrics are exported."""
        meter = activity.metric_meter()
        if meter is MetricMeter.noop:
            return
        histogram = meter.create_histogram_float(
            metrics.EVALUATION_SECONDS.name, metrics.EVALUATION_SECONDS.description, metrics.EVALUATION_SECONDS.unit
        )
        histogram.record(orders.seconds, {"cluster": cluster})
        self._gauges.set(meter, metrics.TASKS, cluster, _outcomes(orders))
        self._gauges.set(meter, metrics.UNMET, cluster, {(code.value,): tasks for code, tasks in orders.unmet.items()})
        self._gauges.set(meter, metrics.SLICES, cluster, _slices(state))
        self._gauges.set(meter, metrics.COST_PER_HOUR, cluster, {(): decision.cost_per_hour.before})
        self._gauges.set(meter, metrics.EVALUATED, cluster, {(): datetime.now(UTC).timestamp()})


def count_create_error(provider: str, kind: str) -> None:
    """Count one create call that failed."""
    metric = metrics.CREATE_ERRORS
    counter = activity.metric_meter().create_counter(metric.name, metric.description, metric.unit)
    counter.add(1, {"provider": provider, "kind": kind})


def count_failed_look(location: WatchedLocation, kind: str) -> None:
    """Count one look at a location that failed."""
    metric = metrics.LOCATION_FAILURES
    counter = activity.metric_meter().create_counter(metric.name, metric.description, metric.unit)
    counter.add(1, {"cluster": location.cluster, "location": location.key, "kind": kind})


def _outcomes(orders: Orders) -> dict[Labels, int]:
    placed: dict[Labels, int] = {(tier.value,): orders.placed.get(tier, 0) for tier in Tier}
    return placed | {(metrics.UNMET_OUTCOME,): sum(orders.unmet.values())}


def _slices(state: AutoscalerState) -> dict[Labels, int]:
    counts: dict[Labels, int] = {}
    for piece in state.slices:
        labels = (piece.group, piece.state.value)
        counts[labels] = counts.get(labels, 0) + 1
    return counts
