"""A worker's settings, from the environment. How Temporal is reached is the SDK's own environment configuration."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock.contract.names import TASK_QUEUE

_ADDRESS = re.compile(r"^(?P<host>[^:\s]+|\[[^\]\s]+\]):(?P<port>\d{1,5})$")


class BadSettings(Exception):  # noqa: N818
    """A setting that cannot be used: names the variable and the fix."""


class Settings(NamedTuple):
    """What a worker is told about itself."""

    task_queue: str = TASK_QUEUE
    metrics: str | None = None
    """Where Prometheus finds the SDK's and Penstock's metrics, `host:port`; nowhere unless set."""


def settings_from(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment; raises `BadSettings`."""
    queue = environment.get("PENSTOCK_TASK_QUEUE", TASK_QUEUE)
    if not queue.strip():
        raise BadSettings(f"PENSTOCK_TASK_QUEUE is empty; unset it to use {TASK_QUEUE!r}, or name a queue")
    return Settings(task_queue=queue, metrics=_address(environment, "PENSTOCK_METRICS", "127.0.0.1:9464"))


def _address(environment: Mapping[str, str], name: str, example: str) -> str | None:
    told = environment.get(name)
    if not told:
        return None
    read = _ADDRESS.match(told)
    if read is None or not 0 < int(read["port"]) < 65536:
        raise BadSettings(f"{name} is {told!r}, which is no address; write host:port, such as {example}")
    return told
