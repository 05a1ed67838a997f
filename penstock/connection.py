"""The way to a Temporal server: address, namespace, keys and certificates from the environment, as its own tools read them."""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

from temporalio.client import Client, Interceptor
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from penstock.contract.addresses import DEFAULT_ADDRESS
from penstock.notes import read_note as read_note  # Exported: the one way to find a service of `make run`.

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOGGER = logging.getLogger(__name__)
CLIENT, WORKER = "penstock-client", "penstock-worker"
"""The services that spans come from, unless OTEL_SERVICE_NAME says otherwise."""
FLUSH_SECONDS = 2.0
"""For the spans of a process that ends: a collector that is down is not waited for any longer."""


TLS_ADVICE = "TLS is used, for a key, a certificate or TEMPORAL_TLS is set; if the server has none, set TEMPORAL_TLS=false"
_BESIDES = ("TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE", "TEMPORAL_TLS")
"""How the variables begin that name other places where settings are."""


class BadConnection(Exception):
    """What is said about the server cannot be used: names it, and where it was said."""


async def connect(
    *, address: str | None = None, namespace: str | None = None, traced: bool = True, quiet: bool = False
) -> Client:
    """A client of the server that the environment names, or the one given; traced if the environment asks for traces.

    Raises `BadConnection`. `quiet` keeps the SDK's warnings off standard error, for a program that has words of its own for them.
    """
    settings = connect_settings(address=address, namespace=namespace)
    interceptors = [_tracing()] if traced and asks_for_traces() and can_trace() else []
    runtime = _quiet_runtime() if quiet else None
    try:
        return await Client.connect(
            **settings, data_converter=pydantic_data_converter, interceptors=interceptors, runtime=runtime
        )
    except ValueError as error:
        raise BadConnection(f"{settings['target_host']} cannot be connected to: {error}") from None


def connect_settings(*, address: str | None = None, namespace: str | None = None) -> ClientConnectConfig:
    """Where the server is and how one is let in: what is given here, else what the environment or its profile says."""
    settings = told_settings()
    if address is not None:
        settings["target_host"] = address
    if namespace is not None:
        settings["namespace"] = namespace
    if "target_host" not in settings:
        settings["target_host"] = read_note("address") or DEFAULT_ADDRESS
    return settings


def told_settings() -> ClientConnectConfig:
    """What the environment or its profile says about the server; raises `BadConnection`."""
    try:
        return ClientConfig.load_client_connect_config()
    except OSError as error:
        raise BadConnection(f"{error.filename} cannot be read: {error.strerror}; {_where_told()}") from None
    except RuntimeError as error:
        raise BadConnection(f"Temporal's settings cannot be used: {' '.join(str(error).split())}; {_where_told()}") from None


def _where_told() -> str:
    told = sorted(name for name in os.environ if name.startswith(_BESIDES))
    return f"correct or unset {', '.join(told)}" if told else "correct Temporal's configuration file"


def asks_for_traces(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether an environment asks for traces, in OpenTelemetry's own variables."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter:
        return exporter == "otlp"
    return any(environment.get(name) for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))


@cache
def can_trace() -> bool:
    """Whether the packages that traces need are here. A program may ask for traces of its own, so it is only told if not."""
    try:
        import opentelemetry.exporter.otlp.proto.grpc.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ModuleNotFoundError as error:
        _LOGGER.warning("no traces are sent: %s; install penstock[traces]", error)
        return False
    return True


@cache
def tracer_provider(service: str) -> "TracerProvider":
    """The process's own way to a collector, by OTLP over gRPC. It leaves the program's global provider alone."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", service)})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


async def flush_traces(service: str = CLIENT) -> None:
    """Send the spans of a process that is about to end at once."""
    if not (asks_for_traces() and can_trace()):
        return
    loop, sent = asyncio.get_running_loop(), asyncio.Event()

    def flush() -> None:
        tracer_provider(service).force_flush()
        with suppress(RuntimeError):  # Too late: the loop is closed.
            loop.call_soon_threadsafe(sent.set)

    # A thread of its own, because flushing knows no deadline and a loop would not end before a thread of its own.
    Thread(target=flush, daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(sent.wait(), FLUSH_SECONDS)


@cache
def _quiet_runtime() -> Runtime:
    """One for the process: each has threads of its own."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR"))))


def _tracing() -> Interceptor:
    from temporalio.contrib.opentelemetry import TracingInterceptor

    return TracingInterceptor(tracer_provider(CLIENT).get_tracer("penstock"))
