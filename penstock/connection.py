"""Connect to a Temporal server, with settings from the environment as Temporal's own tools read them."""

import asyncio
import logging
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

from temporalio.client import Client, Interceptor
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from penstock.contract.addresses import DEFAULT_ADDRESS
from penstock.exits import finish
from penstock.local_service import read_note as read_note  # Exported: the one way to find a service of `make run`.

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOGGER = logging.getLogger(__name__)
CLIENT, WORKER = "penstock-client", "penstock-worker"
"""Service names in traces, unless OTEL_SERVICE_NAME is set."""
FLUSH_SECONDS = 2.0
"""How long a process that ends waits for its last spans to be sent. The collector may be down."""


TLS_ADVICE = (
    "TLS is on, because an API key, a certificate or TEMPORAL_TLS is set; if the server has no TLS, set TEMPORAL_TLS=false"
)
_CONFIG_VARIABLES = ("TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE", "TEMPORAL_TLS")
"""Prefixes of the variables that name a configuration file, a profile in it, or files with certificates."""


class BadConnection(Exception):
    """A connection setting is unusable: names the setting and its source."""


async def connect(
    *, address: str | None = None, namespace: str | None = None, traced: bool = True, quiet: bool = False
) -> Client:
    """Connect to the given server, else the one in the environment, else the one that `make run` started here.

    Spans are sent if the environment asks for traces and `traced` is true. `quiet` keeps the SDK's warnings off standard error,
    for programs that report failures themselves. Raises `BadConnection`.
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
    """Connection settings by precedence: arguments, the environment or its profile, a running `make run`, the default address.

    Raises `BadConnection`.
    """
    settings = _environment_settings()
    if address is not None:
        settings["target_host"] = address
    if namespace is not None:
        settings["namespace"] = namespace
    if "target_host" not in settings:
        settings["target_host"] = read_note("address") or DEFAULT_ADDRESS
    return settings


def _environment_settings() -> ClientConnectConfig:
    """Connection settings of the environment or its profile; raises `BadConnection`."""
    try:
        return ClientConfig.load_client_connect_config()
    except OSError as error:
        raise BadConnection(f"{error.filename} cannot be read: {error.strerror}; {_fix()}") from None
    except RuntimeError as error:
        raise BadConnection(f"Temporal's settings cannot be used: {' '.join(str(error).split())}; {_fix()}") from None


def _fix() -> str:
    variables = sorted(name for name in os.environ if name.startswith(_CONFIG_VARIABLES))
    return f"correct or unset {', '.join(variables)}" if variables else "correct Temporal's configuration file"


def asks_for_traces(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's own variables in the environment ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter:
        return exporter == "otlp"
    return any(environment.get(name) for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))


@cache
def can_trace() -> bool:
    """Whether the packages for traces are installed. If not, log it once: the variables may be meant for another library."""
    try:
        import opentelemetry.exporter.otlp.proto.grpc.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ModuleNotFoundError as error:
        _LOGGER.warning(
            "no traces are sent: %s; install penstock[traces], or run `make install-traces` in the source tree", error
        )
        return False
    return True


@cache
def tracer_provider(service: str) -> "TracerProvider":
    """A tracer provider that sends spans by OTLP over gRPC. The program's global provider is not changed."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", service)})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


async def flush_traces(service: str = CLIENT) -> None:
    """Send the last spans of a process that is about to end."""
    if not (asks_for_traces() and can_trace()):
        return
    loop, sent = asyncio.get_running_loop(), asyncio.Event()

    def flush() -> None:
        tracer_provider(service).force_flush()
        with suppress(RuntimeError):  # The loop is closed already.
            loop.call_soon_threadsafe(sent.set)

    # A daemon thread: flushing takes no deadline, and asyncio.run would wait for a thread of its own pool.
    Thread(target=flush, daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(sent.wait(), FLUSH_SECONDS)


@cache
def _quiet_runtime() -> Runtime:
    """One per process, because each runtime has its own threads."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR"))))


def _tracing() -> Interceptor:
    from temporalio.contrib.opentelemetry import TracingInterceptor

    return TracingInterceptor(tracer_provider(CLIENT).get_tracer("penstock"))


def run(program: Coroutine[Any, Any, object]) -> NoReturn:
    """Run a program that uses the client until it ends or Ctrl-C ends it, and end the process. Other errors pass."""
    with suppress(KeyboardInterrupt):
        asyncio.run(program)
    finish(0)
