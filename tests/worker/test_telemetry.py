"""Telemetry: one trace leads from a demand to the slice that serves it, and metrics describe the fleet."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Interceptor, Replayer

from activities.evaluate import EvaluateActivities
from embedded.ports import free_port
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.metrics import (
    CREATE_ERRORS,
    DELETIONS_OVERDUE,
    DRAINS_BEGUN,
    DRAINS_ENDED,
    EVALUATION_FAILURES,
    LOCATION_FAILURES,
    METRICS,
    OF_STATUS,
    UNMET,
)
from penstock.contract.orders import Orders
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.cli.running import Commands
from tests.replay import golden
from tests.worker.collector import Collector, attributes_of, running_collector
from tests.workflows.machine import Machine
from tests.workflows.stage import SECONDS, Stage, group, served_here, staged
from worker import assembly
from worker.assembly import WORKFLOWS
from worker.sandbox import production_runner
from worker.settings import Settings
from worker.telemetry import tracing
from worker.tracing import Tracing

SUBMITTED, REPORTED = "StartWorkflowUpdate:submit_demand", "SignalWorkflow:report"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
"""Send spans at once instead of after five seconds."""
CONTROLLER = """
import asyncio, json, os, sys
from penstock.client import AutoscalerClient
from penstock.connection import connect, flush_traces

async def main(cluster, tasks):
    await AutoscalerClient(await connect(), cluster).report(json.loads(tasks))
    await flush_traces()

asyncio.run(main(*sys.argv[1:]))
os._exit(0)
"""
NOTHING: Mapping[str, str] = {}
INVENTORY = {"look": "50ms", "rest": "200ms", "audit": "1m"}
"""Few audits: one that is in flight when its only worker stops delays the stop by the grace period of 5 s."""
Working = Callable[..., AbstractContextManager[Machine]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Working]:
    """A machine shared by these tests, on which one worker at a time runs with the environment that a test chooses.

    Workflow runs are short, so that traces and metrics continue from run to run.
    """
    machine = Machine(tmp_path_factory.mktemp("watched"), dynamic={"limit.historyCount.suggestContinueAsNew": "20"})
    machine.server.start()
    machine.sim.start()
    started = 0

    @contextmanager
    def working(**environment: str) -> Iterator[Machine]:
        nonlocal started
        started += 1
        worker = machine.new_worker(f"worker-{started}", **environment)
        try:
            machine.start_worker(worker)
            yield machine
        finally:
            worker.stop()

    try:
        machine.await_server()
        yield working
    finally:
        machine.stop()


def _tasks(count: int) -> list[dict[str, Any]]:
    return [{"id": f"task-{i}", "resources": {"cpu": 4}} for i in range(count)]


async def _submitted(stage: Stage, tasks: int = 1, *, environment: Mapping[str, str] = NOTHING) -> None:
    """Submit demand by the command line."""
    file = stage.machine.folder / f"{stage.cluster}.json"
    file.write_text(json.dumps(_tasks(tasks)))
    command = Commands({**stage.machine.environment, **environment})
    done = await asyncio.to_thread(command, "demand", "submit", str(file), "--cluster", stage.cluster)
    assert done.returncode == 0, done.stderr


async def _reported(stage: Stage, tasks: int, *, environment: Mapping[str, str]) -> None:
    """Report demand from a controller in another process."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CONTROLLER, stage.cluster, json.dumps(_tasks(tasks))],
        env={**os.environ, **stage.machine.environment, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr


async def _ready(stage: Stage, count: int = 1) -> None:
    status = stage.autoscaler.status
    await stage.eventually(status, lambda seen: sum(each.slices.get(SliceState.READY, 0) for each in seen.groups) == count)


def _spans(collector: Collector, name: str) -> Callable[[], Awaitable[dict[str, list[dict[str, Any]]]]]:
    """The attributes of every span, by name, in the trace that has a span of this name."""

    async def look() -> dict[str, list[dict[str, Any]]]:
        return {each: [attributes_of(span) for span in spans] for each, spans in collector.trace_of(name).items()}

    return look


def test_one_trace_leads_from_a_message_to_the_slice_that_is_ready(watched: Working, collector: Collector) -> None:
    tracing_on = SOON | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    wanted = {names.EVALUATE, names.CREATE, "REQUESTING", "READY"}

    async def story(machine: Machine) -> None:
        async with staged(machine, inventory=INVENTORY) as stage:
            await _submitted(stage, environment=tracing_on)
            await _ready(stage)
            seen = await until(_spans(collector, SUBMITTED), lambda seen: wanted <= seen.keys())
            (first,) = (await stage.autoscaler.slices()).slices
            assert {ready["penstock.slice"] for ready in seen["READY"]} == {first.id}
            assert "created" in {create.get("penstock.outcome") for create in seen[names.CREATE]}
            assert 1 in {evaluated.get("penstock.launches") for evaluated in seen[names.EVALUATE]}

            await _reported(stage, 2, environment=tracing_on)
            await _ready(stage, 2)
            seen = await until(_spans(collector, REPORTED), lambda seen: wanted <= seen.keys())
            (second,) = (piece for piece in (await stage.autoscaler.slices()).slices if piece.id != first.id)
            assert {ready["penstock.slice"] for ready in seen["READY"]} == {second.id}

            for name in (SUBMITTED, REPORTED):
                trace = collector.trace_of(name)
                (parent,) = trace[name]
                assert {span.parent_span_id for each in wanted for span in trace[each]} == {parent.span_id}
            assert not [span.name for span in collector.spans if span.name in (names.WATCH, "QueryWorkflow:dump")]
            for handle in (stage.workflow, stage.slice_workflow(second.group, second.id)):
                # The SDK's replayer hangs on a run that has not completed a workflow task.
                history = await stage.eventually(handle.fetch_history, _has_completed_a_task)
                assert "_tracer-data" in history.to_json()
                await _replay(history)

    with watched(**tracing_on) as machine:
        asyncio.run(story(machine))


def test_an_evaluation_is_in_the_trace_of_a_message_that_arrived_while_it_ran(
    watched: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a worker in this process, whose first evaluation submits the demand that it then sees."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    async def story(machine: Machine) -> None:
        traced = await Client.connect(
            machine.address,
            data_converter=pydantic_data_converter,
            interceptors=[TracingInterceptor(provider.get_tracer("controller"))],
        )

        class Overtaken(EvaluateActivities):
            @activity.defn(name=names.EVALUATE)
            async def evaluate(self, cluster: str) -> Orders:
                if not spans.get_finished_spans():
                    await AutoscalerClient(traced, cluster).submit_demand(_tasks(1))
                return await super().evaluate(cluster)

        monkeypatch.setattr(assembly, "EvaluateActivities", Overtaken)
        async with staged(machine, start=False, inventory=INVENTORY) as stage, served_here(stage, monkeypatch):
            await _ready(stage)

        message = next(span for span in spans.get_finished_spans() if span.name == SUBMITTED)
        assert message.context is not None
        (evaluated,) = (
            span
            for span in spans.get_finished_spans()
            if span.name == names.EVALUATE and (span.attributes or {}).get("penstock.launches") == 1
        )
        assert evaluated.parent is not None
        assert evaluated.parent.span_id == message.context.span_id
        assert message.start_time is not None
        assert evaluated.start_time is not None
        assert evaluated.start_time > message.start_time

    monkeypatch.setattr(assembly, "tracing", lambda _settings: Tracing(provider))
    with watched() as machine:
        asyncio.run(story(machine))


def test_metrics_are_sent_to_a_collector(watched: Working, collector: Collector) -> None:
    async def story(machine: Machine) -> None:
        async with staged(machine, inventory=INVENTORY) as stage:
            await _submitted(stage)
            await _ready(stage)

            async def names() -> set[str]:
                return {name for name in collector.metrics if name.startswith("penstock_")}

            await until(names, lambda seen: _without_failures() <= seen)
            assert not collector.spans

    with watched(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_TRACES_EXPORTER="none") as machine:
        asyncio.run(story(machine))


def test_prometheus_scrapes_the_state_of_the_fleet(watched: Working) -> None:
    port = free_port()

    async def story(machine: Machine) -> None:
        groups = (group("first", zone="a", max_slices=2, priority=1), group("second", zone="b", max_slices=2, priority=2))
        async with staged(machine, *groups, inventory=INVENTORY) as stage, aiohttp.ClientSession() as session:

            async def lines() -> list[str]:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    return (await response.text()).splitlines()

            def shows(line_of: str, value: str, **labels: str) -> Callable[[list[str]], bool]:
                parts = [f'{name}="{label}"' for name, label in ({"cluster": stage.cluster} | labels).items()]
                return lambda found: any(
                    line.startswith(line_of + "{") and line.endswith(f" {value}") and all(part in line for part in parts)
                    for line in found
                )

            await stage.cloud.behave("a", stockout=True)
            await _submitted(stage, 3)
            await _ready(stage, 2)
            await until(lines, shows("penstock_unmet", "1", reason="no_capacity"))
            await until(lines, shows("penstock_tasks", "2", outcome="ready"))
            await until(lines, shows("penstock_slices", "2", group="second", state="READY"))
            await until(lines, shows("penstock_time_to_ready_seconds_count", "2", group="second"))

            await _submitted(stage, 2)
            await until(lines, shows("penstock_unmet", "0", reason="no_capacity"))
            await until(lines, shows("penstock_tasks", "0", outcome="unmet"))

            found = await lines()
            assert any(
                "penstock_create_errors{" in line and 'kind="stockout"' in line and 'provider="sim"' in line for line in found
            )
            described = {line.split()[2] for line in found if line.startswith("# HELP penstock_")}
            assert described - _OF_STATUS == _without_failures() | {UNMET.name, CREATE_ERRORS.name}
            for metric in METRICS:
                bounds = {
                    float(line.split('le="')[1].split('"')[0]) for line in found if line.startswith(f"{metric.name}_bucket")
                }
                assert bounds - {float("inf")} in (set(), set(metric.buckets))

    with watched(PENSTOCK_METRICS=f"127.0.0.1:{port}") as machine:
        asyncio.run(story(machine))


_OF_STATUS = {metric.name for metric in OF_STATUS}


def _without_failures() -> set[str]:
    """Metrics that exist when nothing fails or drains, without those that workers read from the autoscalers every half minute."""
    failures = (UNMET, CREATE_ERRORS, DELETIONS_OVERDUE, DRAINS_BEGUN, DRAINS_ENDED, EVALUATION_FAILURES, LOCATION_FAILURES)
    return {metric.name for metric in METRICS if metric not in failures} - _OF_STATUS


@pytest.mark.parametrize("name", golden.names())
def test_histories_recorded_without_traces_replay_with_them(name: str) -> None:
    traces = tracing(Settings(traces=True))
    assert traces is not None

    asyncio.run(_replay(golden.load(name), traces))


def _has_completed_a_task(history: WorkflowHistory) -> bool:
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED for event in history.events)


async def _replay(history: WorkflowHistory, *interceptors: Interceptor) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=production_runner(),
        data_converter=pydantic_data_converter,
        interceptors=interceptors,
    )
    await replayer.replay_workflow(history)


def test_without_traces_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys, worker.__main__, worker.assembly, worker.telemetry, worker.settings\n"
        "assert worker.telemetry.tracing(worker.settings.Settings()) is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    command, project = [sys.executable, "-c", code], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=project, timeout=SECONDS)

    assert done.stdout == "[]\n"


def test_every_metric_is_in_the_manual() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
    rows = {row.split("`")[1]: row for row in manual.splitlines() if row.startswith("| `penstock_")}

    assert rows.keys() == {metric.name for metric in METRICS}
    for metric in METRICS:
        assert f"| {', '.join(f'`{label}`' for label in metric.labels)} |" in rows[metric.name]
        assert ("histogram" in rows[metric.name]) == bool(metric.buckets)
