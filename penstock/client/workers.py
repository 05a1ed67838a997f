"""The worker processes that poll a task queue."""

from datetime import UTC, datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server still lists it for minutes after it ended."""


async def polling_workers(client: Client, task_queue: str) -> dict[str, float]:
    """Seconds since each worker last polled the task queue, by its identity."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = (await client.workflow_service.describe_task_queue(request)).pollers
    now = datetime.now(UTC).timestamp()
    latest = sorted(found, key=lambda poller: poller.last_access_time.seconds)
    ages = {poller.identity: max(0.0, now - poller.last_access_time.seconds) for poller in latest}
    return {identity: age for identity, age in sorted(ages.items()) if age < POLL_SECONDS}
