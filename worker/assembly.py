"""What a worker is made of: every workflow and activity, on one connection."""

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from worker.sandbox import production_runner
from worker.settings import Settings

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long the workflows of a worker that was killed wait for it before another one takes them over."""
GRACE = timedelta(seconds=5)
"""For activities under way when the worker is stopped: one call to a cloud."""


def _present(module: str, name: str) -> Any | None:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise


def workflows() -> list[type]:
    """Every workflow."""
    found = [
        _present("workflows.autoscaler", "AutoscalerWorkflow"),
        _present("workflows.slice_lifecycle", "SliceLifecycleWorkflow"),
        _present("workflows.inventory", "InventoryWorkflow"),
        _present("workflows.verification", "VerifyWorkflow"),
    ]
    return [each for each in found if each is not None]


def activities(client: Client) -> list[Callable[..., Any]]:
    """Every activity."""
    found: list[Callable[..., Any]] = []
    providers_class, nudges_class = (
        _present("activities.providers.registry", "Providers"),
        _present("activities.nudges", "Nudges"),
    )
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
    return found


def worker_of(client: Client, settings: Settings) -> Worker:
    """A worker on a connection, ready to run."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=workflows(),
        activities=activities(client),
        workflow_runner=production_runner(),
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=2000,
        max_concurrent_activities=500,
    )
