"""What a worker is made of: every workflow and activity, on one connection."""

import importlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.worker import Worker

from worker.sandbox import production_runner
from worker.settings import Settings

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long the workflows of a worker that was killed wait for it before another one takes them over."""
GRACE = timedelta(seconds=5)
"""For activities under way when the worker is stopped: one call to a cloud."""
CACHED_WORKFLOWS = 2000
"""About 0.2 MB each: those of a cluster of that many slices are never read from their histories while they are awake."""
CONCURRENT_ACTIVITIES = 500
"""They wait for clouds most of the time; each location's look-out holds one for good."""


class Assembly(NamedTuple):
    """A worker, what it does beside its tasks, and how what it holds is closed."""

    worker: Worker
    guard: Callable[[], Awaitable[object]]
    close: Callable[[], Awaitable[object]]


def _present(module: str, name: str) -> Any | None:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise


async def _nothing() -> None:
    return None


def workflows() -> list[type]:
    """Every workflow."""
    found = [
        _present("workflows.autoscaler", "AutoscalerWorkflow"),
        _present("workflows.slice_lifecycle", "SliceLifecycleWorkflow"),
        _present("workflows.inventory", "InventoryWorkflow"),
        _present("workflows.verification", "VerifyWorkflow"),
    ]
    return [each for each in found if each is not None]


def assembled(client: Client, settings: Settings) -> Assembly:
    """A worker on a connection, ready to run."""
    found: list[Callable[..., Any]] = []
    providers_class = _present("activities.providers.registry", "Providers")
    nudges_class = _present("activities.nudges", "Nudges")
    providers = providers_class() if providers_class else None
    nudges = nudges_class() if nudges_class else None
    if deciding := _present("activities.deciding", "Deciding"):
        found.append(deciding(client).decide)
    if provisioning := _present("activities.provisioning", "Provisioning"):
        each = provisioning(providers, nudges)
        found += [each.create, each.observe, each.delete]
    if watching := _present("activities.watching", "Watching"):
        found.append(watching(client, providers, nudges).watch)
    if auditing := _present("activities.auditing", "Auditing"):
        found.append(auditing(client, providers).audit)
    if rolls := _present("activities.rolls", "Rolls"):
        each = rolls(client)
        found += [each.call_the_roll, each.keep_inventories]
    if verifying := _present("activities.verifying", "Verifying"):
        found.append(verifying(client, providers).verify_cluster)
    guard = _present("activities.rolls", "guard_inventories")
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=workflows(),
        activities=found,
        workflow_runner=production_runner(),
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=CACHED_WORKFLOWS,
        max_concurrent_activities=CONCURRENT_ACTIVITIES,
    )
    return Assembly(worker, (lambda: guard(client)) if guard else _nothing, providers.close if providers else _nothing)
