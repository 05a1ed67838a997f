"""Activities heartbeat while they run, and do not delay a worker that stops."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from penstock.contract import names
from tests.activities.waiting import until
from worker.activity_guard import ActivityGuard


class Patient(ActivityInboundInterceptor):
    """An activity that runs until the test releases it."""

    def __init__(self) -> None:
        self.begun, self.go, self.cancelled = asyncio.Event(), asyncio.Event(), False

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name in the SDK
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "done"


def _environment(kind: str, beats: list[tuple[Any, ...]]) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, activity_type=kind, heartbeat_timeout=timedelta(milliseconds=30))
    environment.on_heartbeat = lambda *details: beats.append(details)
    return environment


async def _run(patient: Patient, environment: ActivityEnvironment) -> Any:
    call = ExecuteActivityInput(fn=_run, args=(), executor=None, headers={})
    return await environment.run(ActivityGuard().intercept_activity(patient).execute_activity, call)


def test_a_long_activity_heartbeats_and_is_finished() -> None:
    async def story() -> None:
        patient, beats = Patient(), list[tuple[Any, ...]]()
        running = asyncio.create_task(_run(patient, _environment(names.COLLECT_REPORTS, beats)))

        async def count() -> int:
            return len(beats)

        await until(count, lambda beaten: beaten >= 3)
        patient.go.set()
        assert await running == "done"

    asyncio.run(story())


def test_an_activity_that_queries_workflows_is_left_to_another_worker_when_this_one_stops() -> None:
    async def story() -> None:
        patient, environment = Patient(), _environment(names.EVALUATE, [])
        running = asyncio.create_task(_run(patient, environment))
        await patient.begun.wait()
        environment.worker_shutdown()
        with pytest.raises(ApplicationError, match="the worker is stopping") as caught:
            await running
        assert not caught.value.non_retryable

        async def cancelled() -> bool:
            return patient.cancelled

        await until(cancelled, bool)

    asyncio.run(story())


def test_a_call_to_a_cloud_is_finished_though_the_worker_stops() -> None:
    async def story() -> None:
        patient, environment = Patient(), _environment(names.CREATE, [])
        running = asyncio.create_task(_run(patient, environment))
        await patient.begun.wait()
        environment.worker_shutdown()
        patient.go.set()
        assert await running == "done"

    asyncio.run(story())
