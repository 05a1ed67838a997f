"""Timeouts and retry policies of all activities, and pauses of workflows."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

ALIVE = timedelta(seconds=10)
"""Heartbeat timeout: an activity that is silent for longer died with its worker and is retried on another."""

EVALUATE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10)),
}
"""A decision takes a second at most; one that hangs is retried."""

KEEP_INVENTORIES: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
}
"""Calls to Temporal itself."""

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
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
}
"""Thousands of slices are queried, some hundred a second."""
VERIFY: dict[str, Any] = COLLECT_REPORTS | {"retry_policy": RetryPolicy(maximum_attempts=3)}
"""An operator waits for the answer, so a lasting error is reported instead of retried for ever."""

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
