"""The process's runtime: the SDK's log beside our own, and metrics served to Prometheus or sent by OTLP if configured."""

import logging
from pathlib import Path

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from worker.settings import BadSettings, Settings

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_FILTER = TelemetryFilter(core_level="WARN", other_level="ERROR")
_CORE = logging.getLogger("temporalio.core")


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
        return PrometheusConfig(bind_address=settings.metrics), f"PENSTOCK_METRICS is {settings.metrics}"
    if settings.otlp_endpoint is not None:
        return OpenTelemetryConfig(url=settings.otlp_endpoint), f"OTEL_EXPORTER_OTLP_ENDPOINT is {settings.otlp_endpoint}"
    return None, ""
