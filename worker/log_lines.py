"""Logs of expected failures: one line each, without the traceback that the SDK adds to every failed activity."""

import asyncio
import logging

from temporalio.exceptions import ApplicationError

ACTIVITY_LOGGER = "temporalio.activity"
"""The SDK's logger of activities."""


class OneLinePerFailure(logging.Filter):
    """Shortens the SDK's record of an activity that was cancelled, or raised `ApplicationError`: its author worded that failure.

    Any other exception is a defect and keeps its traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, expected failures shortened."""
        error = record.exc_info[1] if record.exc_info else None
        known = getattr(record, "temporal_activity", {})
        what = f"{known.get('activity_type')} of {known.get('workflow_id')}"
        if isinstance(error, ApplicationError):
            _shorten(record, f"{what} failed in attempt {known.get('attempt')}: {error.type}: {error.message}")
        elif isinstance(error, asyncio.CancelledError):
            _shorten(record, f"{what} was cancelled: its workflow has ended or no longer needs it")
        return True


def _shorten(record: logging.LogRecord, line: str) -> None:
    record.msg, record.args = "%s", (" ".join(line.split()),)
    record.exc_info = record.exc_text = None
