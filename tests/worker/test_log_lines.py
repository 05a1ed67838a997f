"""The log of a worker: an expected failure is one line, a defect keeps its traceback."""

import asyncio
import io
import logging

import pytest
from temporalio.exceptions import ApplicationError

from worker.log_lines import OneLinePerFailure

KNOWN = {"activity_type": "create", "workflow_id": "penstock/demo/small/small-1", "attempt": 3}


def logged(error: BaseException) -> list[str]:
    """The lines that a failed activity leaves in the log."""
    written = io.StringIO()
    logger, handler = logging.Logger("temporalio.activity"), logging.StreamHandler(written)
    logger.addHandler(handler)
    logger.addFilter(OneLinePerFailure())
    try:
        raise error
    except BaseException:
        logger.warning("Completing activity as failed", exc_info=True, extra={"temporal_activity": KNOWN})
    return written.getvalue().splitlines()


@pytest.mark.parametrize("message", ["503: 100 % busy", "503: 100 % busy,\n  try later"])
def test_an_expected_failure_of_a_cloud_is_one_line_with_its_cause(message: str) -> None:
    (line,) = logged(ApplicationError(message, type="Transient"))

    said = "create of penstock/demo/small/small-1 failed in attempt 3: Transient: 503: 100 % busy"
    assert line == said + (", try later" if "later" in message else "")


def test_a_cancelled_activity_is_one_line() -> None:
    (line,) = logged(asyncio.CancelledError("Activity cancelled"))

    assert line == "create of penstock/demo/small/small-1 was cancelled: its workflow has ended or no longer needs it"


def test_a_defect_keeps_its_traceback() -> None:
    lines = logged(ZeroDivisionError("division by zero"))

    assert lines[0] == "Completing activity as failed"
    assert lines[1].startswith("Traceback")
