"""Timeouts and retry policies of all activities, and pauses of workflows."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.workflow import ActivityCancellationType

ALIVE = timedelta(seconds=10)
"""Heartbeat timeout: an activity that is silent for longer died with its worker and is retried on another."""

ATTEMPTS = 5
"""Of an activity that the autoscaler awaits: it then ends, its failure is shown, and it is asked for anew after a pause.

Attempts are counted and no total time is set, because time passes also while no worker runs.
"""

EVALUATE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=100),
        maximum_interval=timedelta(seconds=10),
        maximum_attempts=ATTEMPTS,
        non_retryable_error_types=["TemporalTimeout:StartToClose"],
    ),
}
"""A decision takes a second, and is bounded in work. One that takes a minute would take as long again, so it is not repeated."""
EVALUATE_AGAIN, LONGEST_EVALUATION_PAUSE = timedelta(seconds=15), timedelta(minutes=10)
"""Before an evaluation that failed is repeated, doubled up to the longest; the status says meanwhile that it failed."""


def pause_after(failures: int) -> timedelta:
    """The pause before an evaluation is repeated that has failed once more after so many failures."""
    return min(EVALUATE_AGAIN * (1 << min(failures, 20)), LONGEST_EVALUATION_PAUSE)


def problem_of(error: ActivityError) -> str:
    """Why an evaluation failed, in words."""
    cause = error.cause
    if isinstance(cause, ActivityTimeout) and cause.type is TimeoutType.START_TO_CLOSE:
        return f"the evaluation took longer than {EVALUATE['start_to_close_timeout'].total_seconds():g}s and was stopped"
    return str(cause or error)


SEND_COMMANDS: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10), maximum_attempts=ATTEMPTS
    ),
}
"""Some dozen messages, of which each may wait for some seconds."""

KEEP_INVENTORIES: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=5),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10), maximum_attempts=ATTEMPTS
    ),
}
"""Calls to Temporal itself, some hundred a second, for thousands of locations."""
ERRAND_AGAIN, LONGEST_ERRAND_PAUSE = timedelta(seconds=15), timedelta(minutes=10)
"""Before inventories that could not be started, or slices that did not answer, are tried again: doubled up to the longest."""
RECOVERY_PATIENCE = timedelta(minutes=5)
"""How long a recovery holds the whole cluster up. After it, what was listed goes on."""

WATCH_ROUND = timedelta(minutes=10)
"""One round of a watch: six rounds an hour cost 36 events. Heartbeats detect a dead worker much sooner."""
WATCH: dict[str, Any] = {
    "start_to_close_timeout": WATCH_ROUND + timedelta(minutes=2),
    "heartbeat_timeout": timedelta(seconds=15),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=15)),
}
AUDIT: dict[str, Any] = WATCH | {"start_to_close_timeout": timedelta(hours=1)}
"""A recovery waits until the location gives a complete listing."""
AUDIT_AGAIN = timedelta(seconds=15)
"""Before a failed audit is repeated."""
COLLECT_REPORTS: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=10),
    "heartbeat_timeout": timedelta(seconds=15),
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10), maximum_attempts=ATTEMPTS
    ),
}
"""Thousands of slices are queried, some hundred a second."""
VERIFY: dict[str, Any] = COLLECT_REPORTS | {"retry_policy": RetryPolicy(maximum_attempts=3)}
"""An operator waits for the answer, so a lasting error is reported instead of retried for ever."""

READ_CLOCK: dict[str, Any] = {
    "schedule_to_close_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(maximum_attempts=1),
}
"""A worker answers at once, or has ended."""

_CLOUD_CALL: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=120),
    "heartbeat_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""One call to a cloud for one slice, retried without limit: the deadlines of the slice's states end it.

Cancellation waits for the call in flight, whose effect would otherwise be unknown. Heartbeats detect a dead worker.
"""
CREATE: dict[str, Any] = _CLOUD_CALL
LAST_LOOK = timedelta(seconds=60)
"""Limit of the look at the cloud after a deadline: a cloud that does not answer must not delay the deadline for ever."""
OBSERVE: dict[str, Any] = _CLOUD_CALL | {"start_to_close_timeout": LAST_LOOK / 2, "schedule_to_close_timeout": LAST_LOOK}
DELETE: dict[str, Any] = _CLOUD_CALL | {
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=60)),
}

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Pauses between repeated deletes, creates after rate limits, and undelivered reports: doubled up to the longest."""
DELETION_OVERDUE = timedelta(minutes=15)
"""Clouds delete within minutes. A resource that still exists after this is still paid for and needs an operator."""
