"""Build a worker: every workflow and activity on one connection, with its limits and interceptors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.runtime import Runtime
from temporalio.worker import Worker

from activities.audit import AuditActivities
from activities.comeback import EndedAutoscalers
from activities.doctor import DoctorActivities
from activities.evaluate import EvaluateActivities
from activities.handover import HandedOver
from activities.providers.open_providers import Providers
from activities.provision import ProvisionActivities
from activities.recovery import RecoveryActivities, guard_inventories
from activities.slice_messages import CommandActivities, SliceMessages
from activities.slice_reports import Reporter
from activities.status_metrics import StatusMetrics
from activities.temporal_reads import CachedReadings
from activities.verify import VerifyActivities
from activities.wakeups import Wakeups
from activities.watch import WatchActivities
from penstock.connection import WORKER, flush_traces
from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from worker.activity_guard import ActivityGuard
from worker.credentials import CredentialsCheck
from worker.handing_over import HandingOver
from worker.pacing import PacedCreates
from worker.sandbox import production_runner
from worker.search_attributes import SearchAttributes
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
CONCURRENT_WORKFLOW_TASKS = 8
"""Python runs one thread at a time, so more would not be faster; but each would take longer, and the SDK gives it two seconds of
wall time: with its default of 100, a hundred workflows that a new worker replays at once exceed them together."""
CONCURRENT_ACTIVITIES = 500
"""They mostly wait for clouds."""
CONCURRENT_WATCHES = 10_000
"""Each location's watch occupies one all the time, so they have a queue and slots of their own: however many locations there
are, deciding, creating and verifying find a slot."""
WATCH_POLLS = 4
"""Concurrent polls for watches: each lasts ten minutes, so few begin at a time."""


class Assembly(NamedTuple):
    """Three workers of one process, its paced creates, its periodic checks, and what closes its resources.

    `watches` polls the queue of watches and audits, `own` the queue that only this process polls.
    """

    worker: Worker
    watches: Worker
    own: Worker
    paced: PacedCreates
    guards: Mapping[str, Callable[[], Awaitable[object]]]
    """What is checked from time to time, each by the name of what it checks."""
    close: Callable[[], Awaitable[object]]


def assembled(client: Client, settings: Settings) -> Assembly:
    """Build a worker on a connection; it is not started yet."""
    providers, wakeups, traces, handed_over = Providers(), Wakeups(), tracing(settings), HandedOver()
    interceptors = [ActivityGuard(), HandingOver(handed_over), *([traces] if traces else [])]
    reporter = Reporter(client)
    messages = SliceMessages(client, reporter)
    provisioning = ProvisionActivities(providers, wakeups, reporter)
    credentials, doctor = CredentialsCheck(), DoctorActivities(client, providers)
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
            CommandActivities(messages).send_commands,
            EvaluateActivities(client, handed_over).evaluate,
            *_activities(client, providers, RecoveryActivities(client, on_locations=on_locations), doctor),
        ],
        workflow_runner=production_runner(),
        interceptors=interceptors,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=CACHED_WORKFLOWS,
        max_concurrent_workflow_tasks=CONCURRENT_WORKFLOW_TASKS,
        max_concurrent_activities=CONCURRENT_ACTIVITIES,
    )
    readings = CachedReadings(client)
    watches = Worker(
        client,
        task_queue=names.watches_queue(settings.task_queue),
        activities=[
            WatchActivities(client, providers, wakeups, readings, messages, on_locations=on_locations).watch,
            AuditActivities(client, providers, readings).audit,
        ],
        interceptors=interceptors,
        graceful_shutdown_timeout=GRACE,
        max_concurrent_activities=CONCURRENT_WATCHES,
        max_concurrent_activity_task_polls=WATCH_POLLS,
    )

    async def close() -> None:
        credentials.stop()
        await providers.close()
        await flush_traces(WORKER)

    ended = EndedAutoscalers(client, task_queue=settings.task_queue)
    metrics = StatusMetrics(_meter(client, settings))
    guards = {
        "search attributes": SearchAttributes(client).keep,
        "ended autoscalers": ended.restart,
        "inventories": lambda: guard_inventories(
            client, task_queue=settings.task_queue, on_locations=on_locations, metrics=metrics
        ),
    }
    return Assembly(worker, watches, _own_worker(client, settings, doctor), paced, guards, close)


def _meter(client: Client, settings: Settings) -> MetricMeter:
    """The meter of the process, with the labels that the SDK gives to all others."""
    runtime = client.service_client.config.runtime or Runtime.default()
    return runtime.metric_meter.with_additional_attributes({"namespace": client.namespace, "task_queue": settings.task_queue})


def _own_worker(client: Client, settings: Settings, doctor: DoctorActivities) -> Worker:
    """The worker of the queue that only this process polls, for questions to each process."""
    return Worker(
        client,
        task_queue=names.worker_queue(settings.task_queue, client.identity),
        activities=[doctor.read_clock],
        max_concurrent_activities=1,
        max_concurrent_activity_task_polls=1,
        graceful_shutdown_timeout=GRACE,
    )


def _activities(
    client: Client, providers: Providers, recovery: RecoveryActivities, doctor: DoctorActivities
) -> list[Callable[..., Any]]:
    return [
        recovery.collect_reports,
        recovery.keep_inventories,
        VerifyActivities(client, providers).verify_cluster,
        doctor.doctor,
        doctor.list_workers,
    ]
