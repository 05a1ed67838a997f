"""Timeouts of calls to Google, intervals for polling operations, and log levels that keep secrets out of logs."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

CALL_SECONDS = 30.0
"""Timeout of one call: Google answers reads within 1 s and creates within 10 s. Its clients have no timeout by default."""
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_GROWTH = 1.5

_REQUEST_LOGGERS = (
    "google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio",
    "google.cloud.compute_v1.services.instances.transports.rest",
    "google.cloud.compute_v1.services.zone_operations.transports.rest",
    "google.auth.transport.requests",
)
"""Loggers that write whole requests at DEBUG level, with start-up scripts and their secrets."""


def keep_requests_out_of_logs() -> None:
    """Keep these loggers at INFO whatever GOOGLE_SDK_PYTHON_LOGGING_SCOPE sets: requests may hold secrets."""
    for name in _REQUEST_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)


async def poll_times(seconds: float) -> AsyncIterator[None]:
    """Yield when an operation is due to be polled: at once, then at growing intervals for `seconds`; never if that is 0."""
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    if seconds:
        yield
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
        yield
