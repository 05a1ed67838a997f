"""How long calls to Google may take, how often operations are looked at, and what never reaches a log."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

CALL_SECONDS = 30.0
"""For one call: Google answers reads within a second and takes an order within ten. Its clients set no limit of their own."""
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_GROWTH = 1.5

_SPEAKING = (
    "google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio",
    "google.cloud.compute_v1.services.instances.transports.rest",
    "google.cloud.compute_v1.services.zone_operations.transports.rest",
    "google.auth.transport.requests",
)
"""The loggers that write whole requests, start-up scripts and their secrets included, when asked to debug."""


def keep_requests_out_of_logs() -> None:
    """Whatever level others are set to, also by GOOGLE_SDK_PYTHON_LOGGING_SCOPE: requests may hold secrets."""
    for name in _SPEAKING:
        logging.getLogger(name).setLevel(logging.INFO)


async def looks(seconds: float) -> AsyncIterator[None]:
    """Times to look at an operation, from at once to so many seconds on, less and less often; none if there are none."""
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    if seconds:
        yield
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
        yield
