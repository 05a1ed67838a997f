"""Whoever wants to watch can: one trace leads from a demand to the slice that serves it, and metrics tell how the fleet is."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from penstock.contract.metrics import CREATE_ERRORS, DELETIONS_OVERDUE, METRICS, UNMET
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.cli.running import Commands
from tests.replay import golden
from tests.service.machine import Machine
from tests.service.stage import Stage, group, staged
from tests.worker.collector import Collector, attributes_of, running_collector
from worker.assembly import WORKFLOWS
from worker.ports import free_port
from worker.sandbox import production_runner
from worker.settings import Settings
from worker.telemetry import tracing

SUBMITTED = "StartWorkflowUpdate:submit_demand"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
"""Spans are sent at once, instead of after five seconds."""
NOTHING: Mapping[str, str] = {}
Working = Callable[..., AbstractContextManager[Machine]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Working]:
    """A machine of these tests' own, on which one worker at a time runs, in an environment of a test's choice."""
    machine = Machine(tmp_path_factory.mktemp("watched"))
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


async def _submitted(stage: Stage, tasks: int = 1, *, environment: Mapping[str, str] = NOTHING) -> None:
    """A controller, a process of its own, says what waits."""
    file = stage.machine.folder / f"{stage.cluster}.json"
    file.write_text(json.dumps([{"id": f"task-{i}", "resources": {"cpu": 4}} for i in range(tasks)]))
    command = Commands({**stage.machine.environment, **environment})
    done = await asyncio.to_thread(command, "demand", "submit", str(file), "--cluster", stage.cluster)
    assert done.returncode == 0, done.stderr


async def _ready(stage: Stage, count: int = 1) -> None:
    status = stage.autoscaler.status
    await stage.eventually(status, lambda seen: sum(each.slices.get(SliceState.READY, 0) for each in seen.groups) == count)


def test_one_trace_leads_from_the_demand_to_the_slice_that_is_ready(watched: Working, collector: Collector) -> None:
    telling = SOON | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}

    async def story(machine: Machine) -> None:
        async with staged(machine) as stage:
            await _submitted(stage, environment=telling)
            await _ready(stage)

            async def trace() -> dict[str, list[dict[str, Any]]]:
                return {name: [attributes_of(span) for span in spans] for name, spans in collector.trace_of(SUBMITTED).items()}

            wanted = {"decide", "create", "REQUESTING", "READY"}
            seen = await until(trace, lambda seen: wanted <= seen.keys())
            (piece,) = (await stage.autoscaler.slices()).slices
            assert [ready["penstock.slice"] for ready in seen["READY"]] == [piece.id]
            assert [create["penstock.outcome"] for create in seen["create"]] == ["created"]
            assert sum(decided["penstock.launches"] for decided in seen["decide"]) == 1

            (parent,) = (span for span in collector.spans if span.name == SUBMITTED)
            caused = [span for name in wanted for span in collector.trace_of(SUBMITTED)[name]]
            assert {span.parent_span_id for span in caused} == {parent.span_id}
            assert not [span.name for span in collector.spans if span.name in ("watch", "QueryWorkflow:dump")]

    with watched(**telling) as machine:
        asyncio.run(story(machine))


def test_metrics_are_sent_to_a_collector(watched: Working, collector: Collector) -> None:
    async def story(machine: Machine) -> None:
        async with staged(machine) as stage:
            await _submitted(stage)
            await _ready(stage)

            async def names() -> set[str]:
                return {name for name in collector.metrics if name.startswith("penstock_")}

            await until(names, lambda seen: _always_there() <= seen)
            assert not collector.spans

    with watched(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_TRACES_EXPORTER="none") as machine:
        asyncio.run(story(machine))


def test_prometheus_finds_how_the_fleet_is(watched: Working) -> None:
    port = free_port()

    async def story(machine: Machine) -> None:
        groups = (group("first", zone="a", max_slices=2, priority=1), group("second", zone="b", max_slices=2, priority=2))
        async with staged(machine, *groups) as stage, aiohttp.ClientSession() as session:

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
            await until(lines, shows("penstock_entries", "2", outcome="ready"))
            await until(lines, shows("penstock_slices", "2", group="second", state="READY"))
            await until(lines, shows("penstock_time_to_ready_seconds_count", "2", group="second"))

            await _submitted(stage, 2)
            await until(lines, shows("penstock_unmet", "0", reason="no_capacity"))
            await until(lines, shows("penstock_entries", "0", outcome="unmet"))

            found = await lines()
            assert any(
                "penstock_create_errors{" in line and 'kind="stockout"' in line and 'provider="sim"' in line for line in found
            )
            described = {line.split()[2] for line in found if line.startswith("# HELP penstock_")}
            assert described == _always_there() | {UNMET.name, CREATE_ERRORS.name}
            for metric in METRICS:
                bounds = {
                    float(line.split('le="')[1].split('"')[0]) for line in found if line.startswith(f"{metric.name}_bucket")
                }
                assert bounds - {float("inf")} in (set(), set(metric.buckets))

    with watched(PENSTOCK_METRICS=f"127.0.0.1:{port}") as machine:
        asyncio.run(story(machine))


def _always_there() -> set[str]:
    """Metrics that there are when everything goes well."""
    return {metric.name for metric in METRICS} - {UNMET.name, CREATE_ERRORS.name, DELETIONS_OVERDUE.name}


@pytest.mark.parametrize("name", golden.names())
def test_histories_recorded_without_traces_replay_with_them(name: str) -> None:
    traces = tracing(Settings(traces=True))
    assert traces is not None

    async def story() -> None:
        replayer = Replayer(
            workflows=WORKFLOWS,
            workflow_runner=production_runner(),
            data_converter=pydantic_data_converter,
            interceptors=[traces],
        )
        await replayer.replay_workflow(golden.load(name))

    asyncio.run(story())


def test_without_traces_nothing_of_opentelemetry_is_loaded() -> None:
    code = (
        "import sys, worker.__main__, worker.assembly, worker.telemetry, worker.settings\n"
        "assert worker.telemetry.tracing(worker.settings.Settings()) is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])

    assert done.stdout == "[]\n"
