"""OpenTelemetry traces from a controller's message through its evaluation to the cloud calls of the slices.

Imported only if traces are on. Workflows copy the trace header of a message to the calls it causes and never create spans
themselves, so their histories do not depend on tracing.
"""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any, NoReturn

from opentelemetry.context import Context, get_current
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from penstock.contract import names
from penstock.contract.orders import Orders
from penstock.contract.slices import CreateResult
from workflows.slice_telemetry import WRITE_SPAN, StateSpan

HEADER = "_tracer-data"
"""The header in which the SDK's own interceptors carry a trace context, so that any Temporal client can begin a trace."""
_W3C = TraceContextTextMapPropagator()
_WRITE_EVALUATION = "penstock_write_evaluation"
_NANOSECONDS = 1_000_000_000

get_current()  # The first call reads files, which the workflow sandbox forbids.


class Tracing(Interceptor):
    """Spans of activities and slice states, in the traces of the messages that caused them. Without such a message, no spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("penstock")

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name in the SDK
        """Wrap one activity."""
        return _TracedActivity(next, self._tracer)

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type["_CarryTrace"]:  # noqa: A002 - its name in the SDK
        """The interceptor of workflows; gives them the two functions that write spans."""
        input.unsafe_extern_functions[WRITE_SPAN] = self._write
        input.unsafe_extern_functions[_WRITE_EVALUATION] = self._write_evaluation
        return _CarryTrace

    def _write(self, visit: StateSpan) -> None:
        """Write the span of one slice state. Called by the slice's workflow, which knows when it was."""
        parent = _context_of(workflow.info().headers.get(HEADER))
        if parent is None:
            return
        spec = visit.lifecycle.spec
        about = {"penstock.cluster": spec.cluster, "penstock.group": spec.group, "penstock.slice": spec.slice_id}
        span = self._tracer.start_span(visit.state.value, context=parent, attributes=about, start_time=_nanoseconds(visit.began))
        if visit.failure is not None:
            span.set_status(Status(StatusCode.ERROR, visit.failure))
        span.end(_nanoseconds(visit.ended))

    def _write_evaluation(self, header: Payload, orders: Orders) -> None:
        """Write an evaluation into the trace of a message that arrived while it ran, because it may have used that message."""
        ended = orders.at + timedelta(seconds=orders.seconds)
        span = self._tracer.start_span(names.EVALUATE, context=_context_of(header), start_time=_nanoseconds(orders.at))
        _note(span, orders)
        span.end(_nanoseconds(ended))


class _TracedActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, tracer: Tracer) -> None:  # noqa: A002 - its name in the SDK
        super().__init__(next)
        self._tracer = tracer

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name in the SDK
        parent = _context_of(input.headers.get(HEADER))
        if parent is None:
            return await self.next.execute_activity(input)
        info = activity.info()
        about: dict[str, str | int] = {"penstock.attempt": info.attempt, "temporalRunID": info.workflow_run_id or ""}
        about["temporalWorkflowID"] = info.workflow_id or ""
        with self._tracer.start_as_current_span(info.activity_type, parent, SpanKind.SERVER, about) as span:
            result = await self.next.execute_activity(input)
            _note(span, result)
            return result


class _CarryTrace(WorkflowInboundInterceptor):
    """Keep the trace of the last message that had one. Everything that the workflow starts after it belongs to that trace.

    Slices and inventories send no traces. So an autoscaler's trace is that of a controller or an operator, and a slice's is that
    of the message that caused its launch.
    """

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._received: Payload | None = None
        super().init(_PassTrace(outbound, self))

    @property
    def newest(self) -> Payload | None:
        """The newest trace; until a message brings one, the trace with which the workflow or its previous run was started."""
        return self._received or workflow.info().headers.get(HEADER)

    async def handle_signal(self, input: HandleSignalInput) -> None:  # noqa: A002 - its name in the SDK
        self._received = input.headers.get(HEADER, self._received)
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:  # noqa: A002 - its name in the SDK
        self._received = input.headers.get(HEADER, self._received)
        return await super().handle_update_handler(input)


class _PassTrace(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, inbound: _CarryTrace) -> None:  # noqa: A002 - its name in the SDK
        super().__init__(next)
        self._inbound = inbound
        self._evaluated_for: Payload | None = None
        """The newest trace when the last evaluation finished. Its slices start in batches, and newer messages may arrive then."""

    def start_activity(self, input: StartActivityInput) -> "workflow.ActivityHandle[Any]":  # noqa: A002 - its name in the SDK
        requested_for = self._inbound.newest
        _add(input, requested_for)
        call = super().start_activity(input)
        if input.activity == names.EVALUATE:
            call.add_done_callback(lambda done: self._evaluated(done, requested_for))
        return call

    def _evaluated(self, call: "asyncio.Task[Any]", requested_for: Payload | None) -> None:
        newest = self._evaluated_for = self._inbound.newest
        overtaken = newest is not None and newest != requested_for
        if overtaken and not workflow.unsafe.is_replaying() and not call.cancelled() and call.exception() is None:
            workflow.extern_functions()[_WRITE_EVALUATION](newest, call.result())

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> "workflow.ChildWorkflowHandle[Any, Any]":  # noqa: A002
        _add(input, self._evaluated_for or self._inbound.newest)
        return await super().start_child_workflow(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # noqa: A002 - its name in the SDK
        _add(input, self._inbound.newest)
        super().continue_as_new(input)


def _add(outgoing: StartActivityInput | StartChildWorkflowInput | ContinueAsNewInput, header: Payload | None) -> None:
    if header is not None:
        outgoing.headers = {**outgoing.headers, HEADER: header}


def _context_of(header: Payload | None) -> Context | None:
    if header is None:
        return None
    try:
        carrier = json.loads(header.data)
    except ValueError:
        return None  # Encrypted, or not written by the SDK: tracing must never fail a workflow.
    if not isinstance(carrier, dict):
        return None
    return _W3C.extract({name: value for name, value in carrier.items() if isinstance(value, str)})


def _note(span: Span, result: Any) -> None:
    """Add an activity's result to its span, for evaluations and creates."""
    match result:
        case Orders():
            counts = {"launches": len(result.launches), "drains": len(result.drains), "deferred": result.deferred}
            span.set_attributes({f"penstock.{name}": count for name, count in counts.items()})
            span.set_attribute("penstock.unmet", sum(result.unmet.values()))
        case CreateResult():
            span.set_attribute("penstock.outcome", result.outcome)
            if result.failure is not None:
                span.set_status(Status(StatusCode.ERROR, f"{result.failure.kind}: {result.failure.message}"))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * _NANOSECONDS)
