"""Build a worker: every workflow and activity on one connection, with its limits and interceptors."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.worker import Worker

from activities.audit import AuditActivities
from activities.doctor import DoctorActivities
from activities.evaluate import EvaluateActivities
from activities.providers.open_providers import Providers
from activities.provision import ProvisionActivities
from activities.recovery import RecoveryActivities, guard_inventories
from activities.verify import VerifyActivities
from activities.wakeups import Wakeups
from activities.watch import WatchActivities
from penstock.connection import WORKER, flush_traces
from penstock.contract.inventories import WatchedLocation
from worker.activity_guard import ActivityGuard
from worker.credentials import CredentialsCheck
from worker.pacing import PacedCreates
from worker.sandbox import production_runner
from worker.settings import Settings
from worker.telemetry import tracing
from workflows.autoscaler import AutoscalerWorkflow
from workflows.doctor import DoctorWorkflow
from workflows.inventory import InventoryWorkflow
from workflows.slice_lifecycle import SliceLifecycleWorkflow
from workflows.verification import VerifyWorkflow

WORKFLOWS: tuple[type, ...] = (AutoscalerWorkflow, SliceLifecycleWorkflow, InventoryWorkflow, VerifyWorkflow, DoctorWorkflow)
"""Every workflow type, for workers and for replay."""

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long a workflow task waits for the worker that has the workflow cached, before any worker may take it."""
GRACE = timedelta(seconds=5)
"""For activities in flight when the worker stops: enough for one call to a cloud."""
CACHED_WORKFLOWS = 2000
"""About 0.2 MB each. A cluster of that many slices runs without replaying histories."""
CONCURRENT_ACTIVITIES = 500
"""They mostly wait for clouds; each location's watch occupies one all the time."""


class Assembly(NamedTuple):
    """A worker, its paced creates, its periodic check of inventories, and the function that closes its resources."""

    worker: Worker
    paced: PacedCreates
    guard: Callable[[], Awaitable[object]]
    close: Callable[[], Awaitable[object]]


def assembled(client: Client, settings: Settings) -> Assembly:
    """Build a worker on a connection; it is not started yet."""
    providers, wakeups, traces = Providers(), Wakeups(), tracing(settings)
    interceptors = [ActivityGuard(), *([traces] if traces else [])]
    provisioning = ProvisionActivities(providers, wakeups)
    credentials = CredentialsCheck()
    paced = PacedCreates(
        client,
        provisioning.create,
        task_queue=settings.task_queue,
        rates=dict(settings.creates_per_second),
        interceptors=interceptors,
        grace=GRACE,
    )

    def on_locations(locations: Sequence[WatchedLocation]) -> None:
        paced.serve(locations)
        credentials.on_locations(locations)

    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=WORKFLOWS,
        activities=[
            provisioning.create,
            provisioning.observe,
            provisioning.delete,
            WatchActivities(client, providers, wakeups, on_locations=on_locations).watch,
            *_activities(client, providers, RecoveryActivities(client, on_locations=on_locations)),
        ],
        workflow_runner=production_runner(),
        interceptors=interceptors,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=CACHED_WORKFLOWS,
        max_concurrent_activities=CONCURRENT_ACTIVITIES,
    )

    async def close() -> None:
        credentials.stop()
        await providers.close()
        await flush_traces(WORKER)

    return Assembly(
        worker, paced, lambda: guard_inventories(client, task_queue=settings.task_queue, on_locations=on_locations), close
    )


def _activities(client: Client, providers: Providers, recovery: RecoveryActivities) -> list[Callable[..., Any]]:
    return [
        EvaluateActivities(client).evaluate,
        AuditActivities(client, providers).audit,
        recovery.collect_reports,
        recovery.keep_inventories,
        VerifyActivities(client, providers).verify_cluster,
        DoctorActivities(client, providers).doctor,
    ]
