"""Metrics of the SDK and of the workflows: served to Prometheus or sent by OTLP, off unless configured."""

from temporalio.runtime import OpenTelemetryConfig, PrometheusConfig, Runtime, TelemetryConfig

from worker.settings import BadSettings, Settings


def configure_metrics(settings: Settings) -> None:
    """Make the process's runtime, before anything connects; raises `BadSettings`."""
    if settings.metrics is not None:
        metrics: PrometheusConfig | OpenTelemetryConfig = PrometheusConfig(bind_address=settings.metrics)
        told = f"PENSTOCK_METRICS is {settings.metrics}"
    elif settings.otlp_endpoint is not None:
        metrics = OpenTelemetryConfig(url=settings.otlp_endpoint)
        told = f"OTEL_EXPORTER_OTLP_ENDPOINT is {settings.otlp_endpoint}"
    else:
        return
    try:
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=metrics)))
    except ValueError as error:
        raise BadSettings(f"{told}, which cannot be used: {error}; choose another address") from None
