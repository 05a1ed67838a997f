"""Telemetry of a worker process: logs, metrics for Prometheus or by OTLP, and traces."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from penstock.connection import WORKER, can_trace, tracer_provider
from penstock.contract.metrics import METRICS
from worker.log_lines import ACTIVITY_LOGGER, OneLinePerFailure
from worker.settings import BadSettings, Settings

if TYPE_CHECKING:
    from worker.tracing import Tracing

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_FILTER = TelemetryFilter(core_level="WARN", other_level="ERROR")
_CORE = logging.getLogger("temporalio.core")
_BUCKETS = {metric.name: metric.buckets for metric in METRICS if metric.buckets}


def log_to(path: Path | None) -> None:
    """Send every log of this process to a file, or to standard error."""
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT, filename=path)
    logging.getLogger(ACTIVITY_LOGGER).addFilter(OneLinePerFailure())


def configure_runtime(settings: Settings) -> None:
    """Create the SDK's runtime, before anything connects; raises `BadSettings`."""
    metrics, source = _metrics(settings)
    forwarded = LoggingConfig(filter=_FILTER, forwarding=LogForwardingConfig(logger=_CORE))
    try:
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=forwarded, metrics=metrics)))
    except ValueError as error:
        raise BadSettings(f"{source}, which cannot be used: {error}; choose another address") from None


def _metrics(settings: Settings) -> tuple[PrometheusConfig | OpenTelemetryConfig | None, str]:
    """Where metrics go, and the setting that decides it."""
    if settings.metrics is not None:
        prometheus = PrometheusConfig(
            bind_address=settings.metrics, durations_as_seconds=True, histogram_bucket_overrides=_BUCKETS
        )
        return prometheus, f"PENSTOCK_METRICS is {settings.metrics}"
    if settings.otlp_endpoint is not None:
        otlp = OpenTelemetryConfig(
            url=settings.otlp_endpoint,
            headers=dict(settings.otlp_headers),
            durations_as_seconds=True,
            histogram_bucket_overrides=_BUCKETS,
        )
        return otlp, f"OTEL_EXPORTER_OTLP_ENDPOINT is {settings.otlp_endpoint}"
    return None, ""


def tracing(settings: Settings) -> "Tracing | None":
    """The interceptor that makes spans, if traces are on and OpenTelemetry is installed; imported only then."""
    if not (settings.traces and can_trace()):
        return None
    from worker.tracing import Tracing

    return Tracing(tracer_provider(WORKER))
