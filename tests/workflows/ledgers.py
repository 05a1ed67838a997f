"""Readings of a stage's ledger, workflows and cloud, for tests of inventories and recovery."""

import uuid
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from activities.providers.port import resource_name
from activities.temporal_reads import running_slices
from penstock.contract import names
from penstock.contract.answers import Verdict
from penstock.contract.requests import VerifyRequest
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import FailureKind
from penstock.model.slices import Slice, SliceState
from tests.workflows.stage import Stage


async def state_of(stage: Stage) -> AutoscalerState:
    """The whole state of the autoscaler."""
    state: AutoscalerState = await stage.workflow.query(names.DUMP, result_type=AutoscalerState)
    return state


async def settled(stage: Stage, count: int) -> tuple[Slice, ...]:
    """The slices, once the ledger is trusted and holds exactly so many, all of them READY."""
    state = await stage.eventually(lambda: state_of(stage), lambda state: _is_settled(state, count))
    return state.slices


async def all_listed(stage: Stage, count: int) -> None:
    """Return once the server lists so many running slice workflows; its list lags."""
    await stage.eventually(lambda: running_slices(stage.client, stage.cluster), lambda found: len(found) == count)


def _is_settled(state: AutoscalerState, count: int) -> bool:
    ready = [piece for piece in state.slices if piece.state is SliceState.READY]
    return state.recovery is None and not state.unstarted and len(ready) == len(state.slices) == count


async def recent_failures(stage: Stage) -> set[tuple[str, FailureKind]]:
    """Which slices failed, and how."""
    return {(failed.slice_id, failed.failure.kind) for failed in (await state_of(stage)).recent_failures}


def name_of(stage: Stage, piece: Slice) -> str:
    """A slice's name in the cloud."""
    return resource_name(cluster=stage.cluster, group=piece.group, slice_id=piece.id)


async def made(stage: Stage) -> list[str]:
    """The slice of each resource that was ever created."""
    return sorted(item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made())


def inventory(stage: Stage, command: str = "a") -> "WorkflowHandle[Any, Any]":
    """The inventory of a zone."""
    return stage.client.get_workflow_handle(names.inventory_id(stage.cluster, "sim", stage.cloud.zone(command)))


async def run_of(handle: "WorkflowHandle[Any, Any]") -> str | None:
    """The id of the workflow's run, if it runs."""
    try:
        described = await handle.describe()
    except RPCError:
        return None
    return described.run_id if described.status is WorkflowExecutionStatus.RUNNING else None


async def scheduled(handle: "WorkflowHandle[Any, Any]") -> list[str]:
    """Names of the activities of the newest run."""
    kind = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    events = [event for event in (await handle.fetch_history()).events if event.event_type == kind]
    return [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]


async def reset(
    stage: Stage,
    handle: "WorkflowHandle[Any, Any] | None" = None,
    *,
    after: int = 0,
    forgotten: "Sequence[ResetReapplyExcludeType.ValueType]" = (),
) -> None:
    """Reset a workflow, or the autoscaler, to the first task that ended after an event, as an operator can."""
    handle = handle or stage.workflow
    run_id = (await handle.describe()).run_id  # A history names the run of its first event, which a reset copied.
    history = await handle.fetch_history()
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    first = next(event for event in history.events if event.event_type == completed and event.event_id > after)
    await stage.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=stage.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id),
            reason="a test",
            workflow_task_finish_event_id=first.event_id,
            request_id=uuid.uuid4().hex,
            reset_reapply_exclude_types=forgotten,
        )
    )


async def verified(stage: Stage) -> Verdict:
    """The verdict of `penstock verify`."""
    verdict: Verdict = await stage.client.execute_workflow(
        names.VERIFY,
        VerifyRequest(cluster=stage.cluster),
        id=f"verify-{stage.cluster}-{uuid.uuid4().hex[:8]}",
        task_queue=stage.machine.task_queue,
        result_type=Verdict,
    )
    return verdict
