"""The paths through the workflows that matter, each as a story that ends with golden histories."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError, WorkflowHandle

from activities.providers.port import resource_name
from penstock.contract import names
from penstock.contract.answers import ClusterStatus
from penstock.contract.requests import VerifyRequest
from penstock.contract.slices import ReportCommand
from penstock.model.slices import Slice, SliceState
from tests.replay.golden import save
from tests.workflows.stage import Stage, group


class Story(NamedTuple):
    """A story on some groups; `short_runs` on a server that soon suggests to continue as new."""

    play: Callable[[Stage], Awaitable[None]]
    groups: tuple[dict[str, Any], ...] = (group(),)
    short_runs: bool = False


def tasks(number: int) -> list[dict[str, Any]]:
    """Tasks that fill one small host each."""
    return [{"id": f"task-{i}", "resources": {"cpu": 4}} for i in range(number)]


async def _ended(slice_workflow: "WorkflowHandle[Any, Any]") -> None:
    """Wait for the end of a slice, which is a failed workflow if the slice ended FAILED."""
    with suppress(WorkflowFailureError):
        await slice_workflow.result()


async def _demand_and_drain(stage: Stage) -> None:
    autoscaler = stage.autoscaler
    await autoscaler.submit_demand(tasks(2))
    first, _ = await _ready(stage, 2)
    await autoscaler.pause("a story")
    await autoscaler.resume()
    await autoscaler.apply_config(stage.config.model_copy(update={"max_slices": 7}))
    await autoscaler.report([], usage={first.id: "idle"})
    await autoscaler.drain(first.id)
    await autoscaler.confirm_drain(first.id)
    await stage.eventually(stage.cloud.existing, lambda existing: len(existing) == 1)
    await stage.eventually(autoscaler.status, lambda status: status.slices == 1)
    await save("autoscaler-demand-and-drain", stage.workflow)
    await save("slice-drained", stage.slice_workflow(first.group, first.id))
    await save("inventory-watching", _inventory(stage))


async def _deleted(stage: Stage) -> None:
    await stage.autoscaler.submit_demand(tasks(1))
    await _ready(stage, 1)
    verified = await stage.client.start_workflow(
        names.VERIFY, VerifyRequest(cluster=stage.cluster), id=f"penstock/{stage.cluster}/~verify", task_queue=names.TASK_QUEUE
    )
    await verified.result()
    await save("verify", verified)
    examined = await stage.client.start_workflow(
        names.DOCTOR, id=f"penstock/{stage.cluster}/~doctor", task_queue=names.TASK_QUEUE
    )
    await examined.result()
    await save("doctor", examined)
    await stage.autoscaler.delete(force=True)
    await stage.autoscaler.deleted()
    await save("autoscaler-deleted", stage.workflow)


async def _verified_end(stage: Stage) -> None:
    """The last audit finds an orphan, which is deleted before the cluster ends."""
    patient = stage.config.inventory.model_copy(update={"orphan_grace_seconds": 3600})
    await stage.autoscaler.apply_config(stage.config.model_copy(update={"inventory": patient}))
    await stage.autoscaler.submit_demand(tasks(1))
    await _ready(stage, 1)
    labels = {"penstock-cluster": stage.cluster, "penstock-group": "forgotten", "penstock-slice": "forgotten-1"}
    await stage.cloud.add(resource_name(cluster=stage.cluster, group="forgotten", slice_id="forgotten-1"), labels=labels)
    await stage.autoscaler.delete(force=True)
    await stage.autoscaler.deleted()
    await save("autoscaler-verified-end", stage.workflow)


async def _stockout(stage: Stage) -> None:
    await stage.cloud.behave("a", stockout=True)
    await stage.autoscaler.submit_demand(tasks(1))
    status = await stage.eventually(stage.autoscaler.status, lambda status: status.recent_failures and _count(status) == 1)
    failed = status.recent_failures[0]
    await _ended(stage.slice_workflow(failed.group, failed.slice_id))
    await save("slice-stockout", stage.slice_workflow(failed.group, failed.slice_id))
    await save("autoscaler-overflow", stage.workflow)


async def _rate_limited(stage: Stage) -> None:
    await stage.cloud.behave("a", creates_per_second=1)
    await stage.autoscaler.submit_demand(tasks(2))
    await _ready(stage, 2)
    held = (await stage.autoscaler.status()).recent_failures[0]
    await save("slice-rate-limited", stage.slice_workflow(held.group, held.slice_id))


async def _preempted(stage: Stage) -> None:
    await stage.autoscaler.submit_demand(tasks(1))
    (piece,) = await _ready(stage, 1)
    (made,) = await stage.cloud.ever_made()
    await stage.cloud.preempt(made["name"])
    await _ended(stage.slice_workflow(piece.group, piece.id))
    await save("slice-preempted", stage.slice_workflow(piece.group, piece.id))


async def _queued(stage: Stage) -> None:
    await stage.cloud.behave("a", hold_queue=True)
    await stage.autoscaler.submit_demand(tasks(1))
    await stage.eventually(stage.autoscaler.status, lambda status: status.groups[0].queued == 1)
    (made,) = await stage.cloud.ever_made()
    await stage.cloud.admit(made["name"])
    (piece,) = await _ready(stage, 1)
    await save("slice-queued", stage.slice_workflow(piece.group, piece.id))


async def _overdue(stage: Stage) -> None:
    await stage.cloud.behave("a", boot_latency="1h")
    await stage.autoscaler.submit_demand(tasks(1))
    status = await stage.eventually(stage.autoscaler.status, lambda status: status.recent_failures)
    late = status.recent_failures[0]
    await stage.autoscaler.pause("no more of them")
    await _ended(stage.slice_workflow(late.group, late.slice_id))
    await save("slice-overdue", stage.slice_workflow(late.group, late.slice_id))


async def _cancelled(stage: Stage) -> None:
    await stage.autoscaler.submit_demand(tasks(1))
    (piece,) = await _ready(stage, 1)
    await stage.autoscaler.pause("no other one")
    handle = stage.slice_workflow(piece.group, piece.id)
    await handle.cancel()
    await handle.result()
    await save("slice-cancelled", handle)


async def _continued(stage: Stage) -> None:
    first = await stage.workflow.describe()
    await stage.autoscaler.submit_demand(tasks(3))
    await _ready(stage, 3)
    for number in (2, 3, 4):
        await stage.autoscaler.submit_demand(tasks(number))
    await _ready(stage, 4)
    await stage.eventually(lambda: _run_id(stage.workflow), lambda run_id: run_id != first.run_id)
    await save("autoscaler-first-run", stage.client.get_workflow_handle(stage.workflow.id, run_id=first.run_id))
    await save("autoscaler-later-run", stage.workflow)


async def _long_lived_slice(stage: Stage) -> None:
    """Request reports until the slice continues as new, and reports in that run."""
    await stage.autoscaler.submit_demand(tasks(1))
    (piece,) = await _ready(stage, 1)
    handle = stage.slice_workflow(piece.group, piece.id)
    first = await _run_id(handle)
    command = ReportCommand(slice_id=piece.id).model_dump(mode="json")

    async def reports_in_another_run() -> bool:
        await handle.signal(names.COMMAND, command)
        kind = EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
        return await _run_id(handle) != first and kind in await _event_types(handle)

    await stage.eventually(reports_in_another_run, bool)
    await save("slice-later-run", handle)


async def _long_lived_inventory(stage: Stage) -> None:
    """Change the configuration of the location until the inventory continues as new, and watches in that run."""
    await stage.autoscaler.submit_demand(tasks(1))
    await _ready(stage, 1)
    handle = _inventory(stage)
    first = await _run_id(handle)
    looks = count(50)

    async def reconfigured() -> bool:
        rules = stage.config.inventory.model_copy(update={"look_seconds": next(looks) / 1000})
        await stage.autoscaler.apply_config(stage.config.model_copy(update={"inventory": rules}))
        kind = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        return await _run_id(handle) != first and kind in await _event_types(handle)

    await stage.eventually(reconfigured, bool)
    await save("inventory-later-run", handle)


async def _terminated(stage: Stage) -> None:
    await stage.autoscaler.submit_demand(tasks(2))
    await _ready(stage, 2)
    await stage.workflow.terminate("by hand")
    await stage.autoscaler.start(stage.config)
    await stage.autoscaler.submit_demand(tasks(3))
    await _ready(stage, 3)
    await save("autoscaler-recovered", stage.workflow)


async def _reset(stage: Stage) -> None:
    await stage.autoscaler.submit_demand(tasks(2))
    await _ready(stage, 2)
    events = (await stage.workflow.fetch_history()).events
    done = [event.event_id for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    request = ResetWorkflowExecutionRequest(
        namespace=stage.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=stage.workflow.id),
        workflow_task_finish_event_id=done[1],
        request_id=stage.cluster,
        reason="a story",
    )
    await stage.client.workflow_service.reset_workflow_execution(request)
    await stage.autoscaler.submit_demand(tasks(3))
    await _ready(stage, 3)
    await save("autoscaler-reset", stage.workflow)


async def _ready(stage: Stage, number: int) -> tuple[Slice, ...]:
    """The slices, once so many are READY and nothing is on its way."""

    async def look() -> tuple[Slice, ...]:
        return (await stage.autoscaler.slices()).slices

    return await stage.eventually(
        look, lambda slices: len(slices) == number and all(piece.state is SliceState.READY for piece in slices)
    )


def _inventory(stage: Stage) -> "WorkflowHandle[Any, Any]":
    return stage.client.get_workflow_handle(names.inventory_id(stage.cluster, "sim", stage.cloud.zone()))


async def _run_id(handle: "WorkflowHandle[Any, Any]") -> str:
    """The id of its newest run."""
    return (await handle.describe()).run_id


async def _event_types(handle: "WorkflowHandle[Any, Any]") -> set[int]:
    """The event types of its newest run."""
    return {event.event_type for event in (await handle.fetch_history()).events}


def _count(status: ClusterStatus) -> int:
    return sum(each.slices.get(SliceState.READY, 0) for each in status.groups)


STORIES = {
    "demand and drain": Story(_demand_and_drain),
    "deleted": Story(_deleted),
    "verified end": Story(_verified_end),
    "stockout": Story(_stockout, (group("first", zone="a", priority=1), group("second", zone="b", priority=2))),
    "rate limited": Story(_rate_limited),
    "preempted": Story(_preempted, (group(preemptible=True),)),
    "queued": Story(_queued, (group(queued=True),)),
    "overdue": Story(_overdue, (group(timeouts={"boot": "300ms"}),)),
    "cancelled": Story(_cancelled),
    "continued": Story(_continued, short_runs=True),
    "long-lived slice": Story(_long_lived_slice, short_runs=True),
    "long-lived inventory": Story(_long_lived_inventory, short_runs=True),
    "terminated": Story(_terminated),
    "reset": Story(_reset),
}
