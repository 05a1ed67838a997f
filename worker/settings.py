"""A worker's settings, from the environment. How Temporal is reached is the SDK's own environment configuration."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from activities.providers.registry import LOCAL_URL, SIM_URL
from penstock.contract.names import TASK_QUEUE

_ADDRESS = re.compile(r"^(?P<host>[^:\s]+|\[[^\]\s]+\]):(?P<port>\d{1,5})$")
_LARGEST_PORT = 65535


class BadSettings(Exception):  # noqa: N818 - it says what was given, not what went wrong inside
    """A setting that cannot be used: names the variable and the fix."""


class Settings(NamedTuple):
    """What a worker is told about itself."""

    task_queue: str = TASK_QUEUE
    metrics: str | None = None
    """Where Prometheus finds the metrics, `host:port`; nowhere unless set."""
    otlp_endpoint: str | None = None
    """Where metrics are sent by OTLP over gRPC; nowhere unless set."""


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
        otlp_endpoint=_checked_url(environment, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    )


def _address(environment: Mapping[str, str], name: str) -> str | None:
    told = environment.get(name)
    if not told:
        return None
    read = _ADDRESS.match(told)
    if read is None or not 0 < int(read["port"]) <= _LARGEST_PORT:
        raise BadSettings(f"{name} is {told!r}, which is no address; write host:port, such as 127.0.0.1:9464")
    return told


def _checked_url(environment: Mapping[str, str], name: str) -> str | None:
    told = environment.get(name)
    if not told:
        return None
    if not told.startswith(("http://", "https://")):
        raise BadSettings(f"{name} is {told!r}, which is no URL; write http://host:port")
    return told
