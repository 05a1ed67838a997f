"""An OpenTelemetry collector in this process: receives spans and metrics by OTLP over gRPC."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(trace_service_pb2_grpc.TraceServiceServicer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """Every span received, and the last value of each metric."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - its name in the protocol
        """Receive spans or metrics: both services name the method so."""
        if isinstance(request, metrics_service_pb2.ExportMetricsServiceRequest):
            found = [metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
            self.metrics |= {metric.name: metric for metric in found}
            return metrics_service_pb2.ExportMetricsServiceResponse()
        self.spans += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace_of(self, name: str) -> dict[str, list[Span]]:
        """The spans, by name, of the one trace that has a span of this name; empty until it arrives."""
        traces = {span.trace_id for span in self.spans if span.name == name}
        assert len(traces) <= 1, f"{len(traces)} traces have a span {name}"
        found: dict[str, list[Span]] = {}
        for span in self.spans:
            if span.trace_id in traces:
                found.setdefault(span.name, []).append(span)
        return found


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector on a free port."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(grace=None)


def attributes_of(span: Span) -> dict[str, Any]:
    """A span's attributes as plain values."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in span.attributes}
