"""The process's runtime: the SDK's log beside our own; metrics for Prometheus or by OTLP, and traces, if configured."""

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

from penstock.connection import WORKER, tracer_provider
from penstock.contract.metrics import METRICS
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


def configure_runtime(settings: Settings) -> None:
    """Make the runtime, before anything connects; raises `BadSettings`."""
    metrics, told = _metrics(settings)
    forwarded = LoggingConfig(filter=_FILTER, forwarding=LogForwardingConfig(logger=_CORE))
    try:
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=forwarded, metrics=metrics)))
    except ValueError as error:
        raise BadSettings(f"{told}, which cannot be used: {error}; choose another address") from None


def _metrics(settings: Settings) -> tuple[PrometheusConfig | OpenTelemetryConfig | None, str]:
    """Where metrics go, and the setting that says so."""
    if settings.metrics is not None:
        served = PrometheusConfig(bind_address=settings.metrics, durations_as_seconds=True, histogram_bucket_overrides=_BUCKETS)
        return served, f"PENSTOCK_METRICS is {settings.metrics}"
    if settings.otlp_endpoint is not None:
        sent = OpenTelemetryConfig(
            url=settings.otlp_endpoint,
            headers=dict(settings.otlp_headers),
            durations_as_seconds=True,
            histogram_bucket_overrides=_BUCKETS,
        )
        return sent, f"OTEL_EXPORTER_OTLP_ENDPOINT is {settings.otlp_endpoint}"
    return None, ""


def tracing(settings: Settings) -> "Tracing | None":
    """What makes spans, if they are wanted: only then is OpenTelemetry loaded."""
    if not settings.traces:
        return None
    from worker.tracing import Tracing

    return Tracing(tracer_provider(WORKER))
