"""The last run of an autoscaler that has ended: how it ended, and its last state, folded from its history without a worker."""

import asyncio
from datetime import UTC, datetime
from typing import Any, NamedTuple

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.update.v1 import Request
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowHistoryEventFilterType
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from penstock.contract import names
from penstock.contract.orders import Orders
from penstock.contract.problems import BadMessage
from penstock.core.state.apply import apply
from penstock.core.state.events import Decided, ReportsCollected
from penstock.core.state.signals import read_signal
from penstock.core.state.size_limits import exceeds_limits
from penstock.core.state.state import BEFORE_TIME, AutoscalerState
from penstock.core.state.updates import read_update

SERVER_IDENTITY = "history-service"
"""Identity in the last event of a run that the server terminated itself; otherwise it is that of a person or a program."""


class LastRun(NamedTuple):
    """The newest run of an autoscaler. `by_server` if the server ended it, or it failed: nobody wanted it to end."""

    run_id: str
    status: WorkflowExecutionStatus | None
    task_queue: str
    by_server: bool = False
    reason: str = ""


async def last_run(client: Client, cluster: str) -> LastRun | None:
    """The newest run of the cluster's autoscaler; None if Temporal knows none."""
    handle = client.get_workflow_handle(names.autoscaler_id(cluster))
    try:
        described = await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    run = LastRun(described.run_id, described.status, described.task_queue)
    ended = client.get_workflow_handle(handle.id, run_id=run.run_id)
    match described.status:
        case WorkflowExecutionStatus.TERMINATED:
            closed = (await _close_event(ended)).workflow_execution_terminated_event_attributes
            return run._replace(by_server=closed.identity == SERVER_IDENTITY, reason=closed.reason)
        case WorkflowExecutionStatus.FAILED:
            failure = (await _close_event(ended)).workflow_execution_failed_event_attributes.failure
            return run._replace(by_server=True, reason=failure.message)
        case WorkflowExecutionStatus.TIMED_OUT:
            return run._replace(by_server=True, reason="it timed out")
    return run


async def last_state(client: Client, cluster: str, run_id: str) -> AutoscalerState:
    """The last state of a run, from the state that it began with and every message and decision in its history.

    No worker replays it: one that must take 50 MB of messages at once may not be able to. The ledger lacks what only the run
    knew, such as which slices were started, so it must be recovered.
    """
    fold = _Fold(client)
    async for event in client.get_workflow_handle(names.autoscaler_id(cluster), run_id=run_id).fetch_history_events():
        await fold.take(event)
    return await fold.end()


async def _close_event(handle: "WorkflowHandle[Any, Any]") -> HistoryEvent:
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    return [event async for event in events][-1]


def _time_of(event: HistoryEvent) -> datetime:
    """The time of an event, rounded as the SDK rounds it for workflows."""
    return datetime.fromtimestamp(event.event_time.ToNanoseconds() / 1e9, UTC)


class _Fold:
    """The state while a history is read. Large messages are parsed in a thread, so that a worker goes on meanwhile."""

    def __init__(self, client: Client) -> None:
        self._converter = client.data_converter
        self._state = AutoscalerState()
        self._activities: dict[int, str] = {}
        """Names of scheduled activities, by the id of the event."""
        self._admitted: dict[str, Request] = {}
        """Updates that a reset delivered again, by their ids: the event of their acceptance does not repeat them."""
        self._waiting: list[HistoryEvent] = []
        """Events that the next workflow task takes, at its time."""
        self._at = BEFORE_TIME
        """When the last workflow task started: the time of what it takes."""

    async def take(self, event: HistoryEvent) -> None:
        """Fold the next event of the history."""
        at = _time_of(event)
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                payloads = event.workflow_execution_started_event_attributes.input.payloads
                (self._state,) = await self._converter.decode(payloads[:1], [AutoscalerState])
            case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                self._at = at
                await self._take_waiting()
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED | EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                self._waiting.append(event)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED:
                request = event.workflow_execution_update_admitted_event_attributes.request
                self._admitted[request.meta.update_id] = request
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
                accepted = event.workflow_execution_update_accepted_event_attributes
                request = self._admitted.get(accepted.protocol_instance_id, accepted.accepted_request)
                await asyncio.to_thread(self._update, request.input.name, await self._raw(request.input.args.payloads))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                self._activities[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name

    async def end(self) -> AutoscalerState:
        """The state, with what no workflow task took any more."""
        if self._waiting:
            self._at = _time_of(self._waiting[-1])
        await self._take_waiting()
        return self._state

    async def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                signal = event.workflow_execution_signaled_event_attributes
                await asyncio.to_thread(self._signal, signal.signal_name, await self._raw(signal.input.payloads))
            else:
                completed = event.activity_task_completed_event_attributes
                await self._completed(self._activities.pop(completed.scheduled_event_id), completed.result.payloads)

    async def _raw(self, payloads: Any) -> bytes:
        if not payloads:
            return b""
        (value,) = await self._converter.decode(payloads[:1], [RawValue])
        data: bytes = value.payload.data
        return data

    def _signal(self, name: str, raw: bytes) -> None:
        for event in read_signal(self._state, name, raw, self._at):
            self._state = apply(self._state, event)

    def _update(self, name: str, raw: bytes) -> None:
        try:
            events = read_update(self._state, name, raw, self._at).events
        except BadMessage:
            return  # It was refused in its turn, or names a slice that only the run's own ledger had.
        for event in events:
            if exceeds_limits(self._state, event) is None:
                self._state = apply(self._state, event)

    async def _completed(self, activity: str, payloads: Any) -> None:
        """Decisions count, and the end of a recovery, before which no decision does."""
        if activity == names.EVALUATE:
            (orders,) = await self._converter.decode(payloads[:1], [Orders])
            self._state = apply(self._state, Decided(at=self._at, orders=orders))
        elif activity == names.COLLECT_REPORTS and self._state.recovery is not None:
            self._state = apply(self._state, ReportsCollected(at=self._at, id=self._state.recovery.id))
