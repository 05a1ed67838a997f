"""Traces: from a controller's message through the evaluation it led to, to the calls and the moves of the slices it ordered.

Imported only where traces are wanted. Workflows hand the header of a message on, as it came, and never make spans themselves:
what they do is the same with and without it.
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
"""Where the SDK's own interceptors put the context of a trace, so that any client can begin one."""
_W3C = TraceContextTextMapPropagator()
_WRITE_DECISION = "penstock_write_decision"
_NANOSECONDS = 1_000_000_000

get_current()  # It reads files when first called, which the sandbox of workflows would not allow.


class Tracing(Interceptor):
    """Spans of activities, and of slices' moves, in the traces of the messages that led to them. No message, no span."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("penstock")

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name in the SDK
        """Between the worker and the activity."""
        return _TracedActivity(next, self._tracer)

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type["_Carrying"]:  # noqa: A002 - its name in the SDK
        """Between the worker and the workflow."""
        input.unsafe_extern_functions[WRITE_SPAN] = self._write
        input.unsafe_extern_functions[_WRITE_DECISION] = self._write_decision
        return _Carrying

    def _write(self, stay: StateSpan) -> None:
        """A span of a slice's life. Called by its workflow, which says when it was."""
        parent = _context_of(workflow.info().headers.get(HEADER))
        if parent is None:
            return
        spec = stay.lifecycle.spec
        about = {"penstock.cluster": spec.cluster, "penstock.group": spec.group, "penstock.slice": spec.slice_id}
        span = self._tracer.start_span(stay.state.value, context=parent, attributes=about, start_time=_nanoseconds(stay.began))
        if stay.failure is not None:
            span.set_status(Status(StatusCode.ERROR, stay.failure))
        span.end(_nanoseconds(stay.ended))

    def _write_decision(self, header: Payload, orders: Orders) -> None:
        """A decision once more, in the trace of a message that came while it was being made and may have been decided on."""
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


class _Carrying(WorkflowInboundInterceptor):
    """Remembers the trace of the last message that had one: what is done from then on belongs to it.

    Slices and inventories send none, so an autoscaler's is that of a controller or an operator, and a slice's that of its order.
    """

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._told: Payload | None = None
        super().init(_HandingOn(outbound, self))

    @property
    def heard(self) -> Payload | None:
        """The newest trace; to begin with, that of whoever started the workflow or of the run before."""
        return self._told or workflow.info().headers.get(HEADER)

    async def handle_signal(self, input: HandleSignalInput) -> None:  # noqa: A002 - its name in the SDK
        self._told = input.headers.get(HEADER, self._told)
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:  # noqa: A002 - its name in the SDK
        self._told = input.headers.get(HEADER, self._told)
        return await super().handle_update_handler(input)


class _HandingOn(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, carrying: _Carrying) -> None:  # noqa: A002 - its name in the SDK
        super().__init__(next)
        self._carrying = carrying
        self._decided_for: Payload | None = None
        """The newest trace when the last decision came: its slices are started in batches, and more may be heard meanwhile."""

    def start_activity(self, input: StartActivityInput) -> "workflow.ActivityHandle[Any]":  # noqa: A002 - its name in the SDK
        asked_for = self._carrying.heard
        _add(input, asked_for)
        call = super().start_activity(input)
        if input.activity == names.EVALUATE:
            call.add_done_callback(lambda done: self._decided(done, asked_for))
        return call

    def _decided(self, call: "asyncio.Task[Any]", asked_for: Payload | None) -> None:
        newest = self._decided_for = self._carrying.heard
        overtaken = newest is not None and newest != asked_for
        if overtaken and not workflow.unsafe.is_replaying() and not call.cancelled() and call.exception() is None:
            workflow.extern_functions()[_WRITE_DECISION](newest, call.result())

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> "workflow.ChildWorkflowHandle[Any, Any]":  # noqa: A002
        _add(input, self._decided_for or self._carrying.heard)
        return await super().start_child_workflow(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # noqa: A002 - its name in the SDK
        _add(input, self._carrying.heard)
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
        return None  # Encrypted, or not of the SDK's making: a workflow must not stumble over it.
    if not isinstance(carrier, dict):
        return None
    return _W3C.extract({name: value for name, value in carrier.items() if isinstance(value, str)})


def _note(span: Span, result: Any) -> None:
    """What an activity answered, where that is what one looks for."""
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
