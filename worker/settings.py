"""A worker's settings from environment variables; the connection to Temporal is in `penstock.connection`."""

import math
import os
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from activities.providers.local import LOCAL_URL
from activities.providers.sim import SIM_URL
from penstock.connection import asks_for_traces
from penstock.contract.names import TASK_QUEUE

_ADDRESS = re.compile(r"^(?P<host>[^:\s]+|\[[^\]\s]+\]):(?P<port>\d{1,5})$")
_LARGEST_PORT = 65535
CREATES_PER_SECOND = "PENSTOCK_CREATES_PER_SECOND"


class BadSettings(Exception):
    """An unusable setting: names the variable and the fix."""


class Settings(NamedTuple):
    """The settings of a worker."""

    task_queue: str = TASK_QUEUE
    metrics: str | None = None
    """Address on which metrics are served to Prometheus, `host:port`; off unless set."""
    otlp_endpoint: str | None = None
    """Endpoint to which metrics are sent by OTLP over gRPC, unless `metrics` is set; off unless set."""
    otlp_headers: tuple[tuple[str, str], ...] = ()
    """Headers sent to the endpoint, such as an API key."""
    traces: bool = False
    """Whether spans are sent. The exporter reads its endpoint itself."""
    creates_per_second: tuple[tuple[str, float], ...] = ()
    """Rates of accounts that do not use the default."""


def settings_from(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings from an environment; raises `BadSettings`."""
    queue = environment.get("PENSTOCK_TASK_QUEUE", TASK_QUEUE)
    if not queue.strip():
        raise BadSettings(f"PENSTOCK_TASK_QUEUE is empty; unset it to use {TASK_QUEUE!r}, or name a queue")
    for variable in (SIM_URL, LOCAL_URL):
        _checked_url(environment, variable)
    return Settings(
        task_queue=queue,
        metrics=_address(environment, "PENSTOCK_METRICS"),
        otlp_endpoint=_metrics_endpoint(environment),
        otlp_headers=_headers(environment, "OTEL_EXPORTER_OTLP_HEADERS"),
        traces=asks_for_traces(environment),
        creates_per_second=_rates(environment, CREATES_PER_SECOND),
    )


def _address(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if not value:
        return None
    parsed = _ADDRESS.match(value)
    if parsed is None or not 0 < int(parsed["port"]) <= _LARGEST_PORT:
        raise BadSettings(f"{name} is {value!r}, which is no address; write host:port, such as 127.0.0.1:9464")
    return value


def _metrics_endpoint(environment: Mapping[str, str]) -> str | None:
    """The endpoint for OTLP metrics. It is the same as for traces; either can be switched off."""
    endpoint = _checked_url(environment, "OTEL_EXPORTER_OTLP_ENDPOINT")
    off = environment.get("OTEL_METRICS_EXPORTER") == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return None if off else endpoint


def _headers(environment: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    pairs = [pair.partition("=") for pair in environment.get(name, "").split(",") if pair.strip()]
    if any(not key.strip() or not sign for key, sign, _ in pairs):
        raise BadSettings(f"{name} cannot be read; write name=value, with commas between several")
    return tuple((key.strip(), unquote(value.strip())) for key, _, value in pairs)


def _rates(environment: Mapping[str, str], name: str) -> tuple[tuple[str, float], ...]:
    """Create calls per second by account, written `KIND:PROJECT=RATE`."""
    found = []
    for part in filter(None, map(str.strip, environment.get(name, "").split(","))):
        account, _, number = part.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not account.strip() or not 0 < rate < math.inf:
            example = "write KIND:PROJECT=RATE with a rate above 0, such as gcp-tpu:my-project=2"
            raise BadSettings(f"{name} has {part!r}; {example}, and commas between several")
        found.append((account.strip(), rate))
    return tuple(found)


def _checked_url(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if not value:
        return None
    if not value.startswith(("http://", "https://")):
        raise BadSettings(f"{name} is {value!r}, which is no URL; write http://host:port")
    return value
