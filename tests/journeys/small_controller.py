"""The example's controller in a test: its jobs take fractions of a second, and it looks as often."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from temporalio.service import RPCError

from examples.controller import Controller, say
from penstock.client import AutoscalerClient, ClientError
from penstock.config.demand import DemandFile
from tests.workflows.stage import Stage

TASK_SECONDS = 0.3
LOOK_SECONDS = 0.1


@asynccontextmanager
async def controlled(stage: Stage, tasks: Sequence[dict[str, Any]]) -> AsyncIterator[Controller]:
    """A controller that runs these tasks on the stage's slices for as long as the context lasts, whatever is down meanwhile."""
    say.cache_clear()  # It says each line once in a process.
    autoscaler = AutoscalerClient(stage.client, stage.cluster)
    controller = Controller(autoscaler, stage.config, DemandFile.model_validate({"tasks": tasks}), seconds=TASK_SECONDS)
    steps = asyncio.create_task(_steps(controller))
    try:
        yield controller
    finally:
        steps.cancel()
        with suppress(asyncio.CancelledError):
            await steps


async def _steps(controller: Controller) -> None:
    while True:
        with suppress(RPCError, ClientError):
            await controller.step()
        await asyncio.sleep(LOOK_SECONDS)


async def idle(stage: Stage, controller: Controller, *, waiting: Sequence[str] = ()) -> None:
    """Return once nothing runs, and only these jobs wait."""

    async def seen() -> tuple[list[str], bool]:
        return [job.id for job in controller.waiting], any(any(hosts) for hosts in controller.slices.values())

    await stage.eventually(seen, lambda found: found == ([*waiting], False))
