"""Metrics of what `penstock status` tells: locations, money, sources, slices that nobody names, pressure.

Every worker reads them from the autoscalers. Evaluations do not export them: a cluster may rest, be paused or recover for as long
as there is something to tell.
"""

from datetime import datetime

from temporalio.common import MetricMeter

from activities.metrics import Gauges, Labels
from penstock.contract import metrics
from penstock.contract.answers import ClusterStatus, GroupStatus
from penstock.contract.cost import Use
from penstock.contract.metrics import Metric
from penstock.core.answers.status import status_of
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Pressure

Series = dict[Labels, float]


class StatusMetrics:
    """Gauges of the clusters whose autoscalers this process reads."""

    def __init__(self, meter: MetricMeter) -> None:
        self._meter = meter
        self._gauges = Gauges()
        self.shown: set[str] = set()
        """Clusters that were recorded and not cleared."""

    def record(self, cluster: str, state: AutoscalerState, now: datetime) -> None:
        """Record a cluster as it is now; costs nothing if no metrics are exported."""
        if self._meter is MetricMeter.noop:
            return
        self.shown.add(cluster)
        for metric, values in _series(status_of(state, now=now)).items():
            self._gauges.set(self._meter, metric, cluster, values)

    def clear(self, cluster: str) -> None:
        """Set everything of a cluster that ended to zero."""
        self.shown.discard(cluster)
        for metric in metrics.OF_STATUS:
            self._gauges.set(self._meter, metric, cluster, {})


def _series(status: ClusterStatus) -> dict[Metric, Series]:
    """The values of every gauge, by the labels behind the cluster's."""
    return {
        metrics.LOCATION_PROBLEM: {(key, problem.kind.value): 1 for key, problem in status.locations.items()},
        metrics.COST_BY_USE: {(group.name, use.value): group.cost.of(use) for group in status.groups for use in _uses(group)},
        metrics.IDLE_COST_OF_DAY: {(): status.idle_cost_of_day},
        metrics.SOURCE_HEARD: {(name,): source.at.timestamp() for name, source in status.usage.items() if source.slices},
        metrics.SLICES_UNREPORTED: {(group.name,): _unreported(group, status) for group in status.groups},
        metrics.SLICES_UNCLAIMED: {(group.name,): group.unclaimed for group in status.groups},
        metrics.GROUP_PRESSURE: _pressure({group.name: group.pressure for group in status.groups}),
        metrics.POOL_PRESSURE: _pressure({pool.name: pool.pressure for pool in status.pools}),
    }


def _uses(group: GroupStatus) -> list[Use]:
    """Uses that cost something: most groups have one or two."""
    return [use for use in Use if use is not Use.REQUESTED and group.cost.of(use)]


def _unreported(group: GroupStatus, status: ClusterStatus) -> int:
    """Slices that no source has named, once that is an alert: a new slice is named a moment later."""
    since = group.unreported_since
    overdue = since is not None and status.now is not None and (status.now - since).total_seconds() >= status.ready_grace_seconds
    return group.unreported if overdue else 0


def _pressure(of: dict[str, Pressure]) -> Series:
    kinds = metrics.PRESSURE_KINDS
    return {(name, kind): getattr(found, kind) for name, found in of.items() if found != Pressure() for kind in kinds}
