"""What a worker is made of: every workflow and activity, on one connection."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.worker import Worker

from activities.audit import AuditActivities
from activities.doctor import DoctorActivities
from activities.evaluate import EvaluateActivities
from activities.providers.registry import Providers
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
"""Every workflow, for workers and for those who replay histories."""

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long the workflows of a worker that was killed wait for it before another one takes them over."""
GRACE = timedelta(seconds=5)
"""For activities under way when the worker is stopped: one call to a cloud."""
CACHED_WORKFLOWS = 2000
"""About 0.2 MB each: those of a cluster of that many slices are never read from their histories while they are awake."""
CONCURRENT_ACTIVITIES = 500
"""They wait for clouds most of the time; each location's look-out holds one for good."""


class Assembly(NamedTuple):
    """A worker, those of paced creates, what it does beside its tasks, and how what it holds is closed."""

    worker: Worker
    paced: PacedCreates
    guard: Callable[[], Awaitable[object]]
    close: Callable[[], Awaitable[object]]


def assembled(client: Client, settings: Settings) -> Assembly:
    """A worker on a connection, ready to run."""
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


def _activities(client: Client, providers: Providers, rolls: RecoveryActivities) -> list[Callable[..., Any]]:
    return [
        EvaluateActivities(client).evaluate,
        AuditActivities(client, providers).audit,
        rolls.collect_reports,
        rolls.keep_inventories,
        VerifyActivities(client, providers).verify_cluster,
        DoctorActivities(client, providers).doctor,
    ]
