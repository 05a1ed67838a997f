"""A stand-in for a Temporal server with clusters on it, so that what a command line names reaches those who read it."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import to_json
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from penstock.contract import names
from penstock.contract.problems import BadMessage
from penstock.core.state.apply import apply
from penstock.core.state.state import AutoscalerState
from tests.bad_input.queries import answer_of
from tests.bad_input.states import AT, states
from tests.bad_input.valid import ENDED, RUNS
from workflows.queries import QueryAnswers

MOST_QUERIES = 5
"""Queries before Ctrl-C ends a command that would ask for ever."""

T = TypeVar("T", bound=BaseModel)


class Service:
    """Temporal's client as commands use it: the autoscaler of `RUNS` works, that of `ENDED` was terminated."""

    namespace = "default"
    data_converter = pydantic_data_converter
    service_client = SimpleNamespace(config=SimpleNamespace(target_host="127.0.0.1:7233"))

    def __init__(self, signals: Sequence[tuple[str, bytes]]) -> None:
        """`signals` were sent to the autoscaler that ended."""
        self.state = states()[1]
        self.answers = QueryAnswers(RUNS)
        self.signals = tuple(signals)
        self.queries = 0
        self.started: list[AutoscalerState] = []
        """States with which autoscalers were started."""

    @property
    def workflow_service(self) -> "Service":
        """The calls for which the SDK has no methods."""
        return self

    def get_workflow_handle(self, workflow_id: str, **_: Any) -> "Handle":
        """A workflow, which may not exist."""
        return Handle(self, workflow_id)

    async def list_workflows(self, _query: str, **_: Any) -> AsyncIterator[Any]:
        """The cluster that runs."""
        yield await self.get_workflow_handle(names.autoscaler_id(RUNS)).describe()

    async def describe_workflow_execution(self, request: Any) -> Any:
        """The workflow of a raw request."""
        return await self.get_workflow_handle(request.execution.workflow_id).describe()

    async def describe_task_queue(self, _request: Any) -> Any:
        """No workers: nobody looks for them here."""
        return SimpleNamespace(pollers=[])

    async def start_workflow(self, _name: str, state: AutoscalerState, **_: Any) -> None:
        """Take the state of an autoscaler, as it arrives."""
        self.started.append(AutoscalerState.model_validate_json(state.model_dump_json()))


class Handle:
    """A workflow of the service."""

    def __init__(self, service: Service, workflow_id: str) -> None:
        self.service, self.id = service, workflow_id

    async def describe(self) -> Any:
        """Its status."""
        if self.id == names.autoscaler_id(ENDED):
            status = WorkflowExecutionStatus.TERMINATED
        else:
            self._must_run()
            status = WorkflowExecutionStatus.COMPLETED if self.service.state.closing else WorkflowExecutionStatus.RUNNING
        known = {"run_id": "1", "task_queue": names.TASK_QUEUE, "start_time": AT, "close_time": None}
        return SimpleNamespace(id=self.id, status=status, raw_info=SimpleNamespace(first_run_id=""), **known)

    async def query(self, name: str, *given: Any, args: Sequence[Any] = (), result_type: type[T], **_: Any) -> T:
        """The answer of the autoscaler."""
        self._must_run()
        self.service.queries += 1
        if self.service.queries > MOST_QUERIES:
            raise KeyboardInterrupt
        if name == names.DUMP:
            return result_type.model_validate_json(self.service.state.model_dump_json())
        raw = b"".join(to_json(each) for each in (*given, *args))
        try:
            answer = answer_of(self.service.answers, self.service.state, name, raw, datetime.now(UTC))
        except (BadMessage, ApplicationError) as bad:
            raise WorkflowQueryFailedError(str(bad)) from None
        return result_type.model_validate_json(answer.model_dump_json())

    async def execute_update(self, name: str, message: Any, *, result_type: type[T]) -> T:
        """The answer of the autoscaler, whose state changes."""
        self._must_run()
        try:
            events, answer_in = self.service.answers.checked(self.service.state, name, to_json(message), AT)
        except BadMessage as bad:
            refused = ApplicationError(str(bad), type="Refused")
            raise WorkflowUpdateFailedError(refused) from refused
        for event in events:
            self.service.state = apply(self.service.state, event)
        return result_type.model_validate_json(answer_in(self.service.state).model_dump_json())

    async def fetch_history_events(self, **_: Any) -> AsyncIterator[HistoryEvent]:
        """The history of the autoscaler that ended: its state, and the signals that it was sent."""
        started = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
        payloads = await pydantic_data_converter.encode([self.service.state])
        started.workflow_execution_started_event_attributes.input.payloads.extend(payloads)
        yield started
        for name, raw in self.service.signals:
            signal = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
            signal.workflow_execution_signaled_event_attributes.signal_name = name
            signal.workflow_execution_signaled_event_attributes.input.payloads.add(data=raw)
            yield signal
        yield HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)

    def _must_run(self) -> None:
        if self.id != names.autoscaler_id(RUNS):
            raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
