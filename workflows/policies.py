"""How long each activity may take, and how often it is tried: one location for these numbers."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

ALIVE = timedelta(seconds=10)
"""An activity that was not heard of for so long went down with its worker: what it did is begun again elsewhere."""

EVALUATE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10)),
}
"""A decision takes a second at most; one that hangs is begun again elsewhere."""

KEEP_INVENTORIES: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": ALIVE,
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
}
"""Calls to Temporal itself."""

WATCH_ROUND = timedelta(minutes=10)
"""How long one look-out lasts: six an hour cost 36 events, and its heartbeats tell much sooner that a worker died."""
WATCH: dict[str, Any] = {
    "start_to_close_timeout": WATCH_ROUND + timedelta(minutes=2),
    "heartbeat_timeout": timedelta(seconds=15),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=15)),
}
AUDIT: dict[str, Any] = WATCH | {"start_to_close_timeout": timedelta(hours=1)}
"""A recovery waits for it for as long as the location gives no complete list."""
AUDIT_AGAIN = timedelta(seconds=15)
"""Before an audit that failed for good is begun anew."""
COLLECT_REPORTS: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=10),
    "heartbeat_timeout": timedelta(seconds=15),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
}
"""Thousands of slices are asked, some hundred a second."""
VERIFY: dict[str, Any] = COLLECT_REPORTS | {"retry_policy": RetryPolicy(maximum_attempts=3)}
"""Somebody waits for the answer: a fault that lasts is the answer."""

_ASKING: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=120),
    "heartbeat_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""One call to a cloud about one slice, repeated without end: the slice's own deadlines say when it is enough.

Who cancels one waits for the call under way: what it did would otherwise not be known. Its heartbeats tell that a worker died.
"""
CREATE: dict[str, Any] = _ASKING
LAST_LOOK = timedelta(seconds=60)
"""A cloud that shows nothing even after a deadline cannot keep a slice for ever."""
OBSERVE: dict[str, Any] = _ASKING | {"start_to_close_timeout": LAST_LOOK / 2, "schedule_to_close_timeout": LAST_LOOK}
DELETE: dict[str, Any] = _ASKING | {
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=60)),
}

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""A slice asks a cloud that is still deleting or wants peace, and writes to an autoscaler that is not there, ever less often."""
DELETION_OVERDUE = timedelta(minutes=15)
"""Clouds delete within minutes; a slice that is still there after this is worth a look, and still paid for."""
