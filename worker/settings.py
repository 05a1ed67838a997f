"""A worker's settings, from the environment. How Temporal is reached is the SDK's own environment configuration."""

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
    """A setting that cannot be used: names the variable and the fix."""


class Settings(NamedTuple):
    """What a worker is told about itself."""

    task_queue: str = TASK_QUEUE
    metrics: str | None = None
    """Where Prometheus finds the metrics, `host:port`; nowhere unless set."""
    otlp_endpoint: str | None = None
    """Where metrics are sent by OTLP over gRPC, unless Prometheus fetches them; nowhere unless set."""
    otlp_headers: tuple[tuple[str, str], ...] = ()
    """What is sent along with them, such as a key."""
    traces: bool = False
    """Whether spans are sent; where to, the exporter reads for itself."""
    creates_per_second: tuple[tuple[str, float], ...] = ()
    """Rates of accounts that have one of their own."""


def settings_from(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment; raises `BadSettings`."""
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
    told = environment.get(name)
    if not told:
        return None
    read = _ADDRESS.match(told)
    if read is None or not 0 < int(read["port"]) <= _LARGEST_PORT:
        raise BadSettings(f"{name} is {told!r}, which is no address; write host:port, such as 127.0.0.1:9464")
    return told


def _metrics_endpoint(environment: Mapping[str, str]) -> str | None:
    """Where OTLP metrics go. One address serves metrics and traces; either can be declined."""
    told = _checked_url(environment, "OTEL_EXPORTER_OTLP_ENDPOINT")
    declined = environment.get("OTEL_METRICS_EXPORTER") == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return None if declined else told


def _headers(environment: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    pairs = [pair.partition("=") for pair in environment.get(name, "").split(",") if pair.strip()]
    if any(not key.strip() or not sign for key, sign, _ in pairs):
        raise BadSettings(f"{name} cannot be read; write name=value, with commas between several")
    return tuple((key.strip(), unquote(value.strip())) for key, _, value in pairs)


def _rates(environment: Mapping[str, str], name: str) -> tuple[tuple[str, float], ...]:
    """Creates a second by account, `KIND:PROJECT=RATE`."""
    found = []
    for part in filter(None, map(str.strip, environment.get(name, "").split(","))):
        account, _, told = part.rpartition("=")
        try:
            rate = float(told)
        except ValueError:
            rate = math.nan
        if not account.strip() or not 0 < rate < math.inf:
            told_so = f"{name} has {part!r}; write KIND:PROJECT=RATE with a rate above 0, such as gcp-tpu:my-project=2"
            raise BadSettings(f"{told_so}, and commas between several")
        found.append((account.strip(), rate))
    return tuple(found)


def _checked_url(environment: Mapping[str, str], name: str) -> str | None:
    told = environment.get(name)
    if not told:
        return None
    if not told.startswith(("http://", "https://")):
        raise BadSettings(f"{name} is {told!r}, which is no URL; write http://host:port")
    return told
