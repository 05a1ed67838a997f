"""Metrics of a worker in this process, as an exporter would get them."""

from collections.abc import Mapping

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import BUFFERED_METRIC_KIND_COUNTER, MetricBuffer, Runtime, TelemetryConfig

from penstock.contract.metrics import Metric


class Meters:
    """The latest value of every series: the sum of a counter, the last value of a gauge."""

    def __init__(self) -> None:
        self._buffer = MetricBuffer(100_000)
        self.runtime = Runtime(telemetry=TelemetryConfig(metrics=self._buffer))
        self._values: dict[str, dict[frozenset[tuple[str, str]], float]] = {}

    async def client(self, address: str) -> Client:
        """A connection whose workers write into these meters."""
        return await Client.connect(address, data_converter=pydantic_data_converter, runtime=self.runtime)

    def of(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """The values by the metric's own labels, in their order; series that differ only in labels of the SDK are added up."""
        self._read()
        found: dict[tuple[str, ...], float] = {}
        for labels, value in self._values.get(metric.name, {}).items():
            key = tuple(dict(labels)[name] for name in metric.labels)
            found[key] = found.get(key, 0) + value
        return found

    async def read(self, metric: Metric) -> Mapping[tuple[str, ...], float]:
        """The same, for tests that wait."""
        return self.of(metric)

    def _read(self) -> None:
        for update in self._buffer.retrieve_updates():
            series = self._values.setdefault(update.metric.name, {})
            labels = frozenset((name, str(label)) for name, label in update.attributes.items())
            before = series.get(labels, 0) if update.metric.kind == BUFFERED_METRIC_KIND_COUNTER else 0
            series[labels] = before + update.value
