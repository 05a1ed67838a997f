"""`kill -9` in the middle of drains, of the worker and of the controller: every slice goes once, or serves again."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from penstock.model.slices import DrainCause, SliceState
from tests.journeys.facts import agreed_by_command, quiet
from tests.workflows.ledgers import name_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged
from tests.workflows.test_demand import tasks

SOON = group(idle_timeout="200ms")
DYING_CONTROLLER = """
import asyncio, sys
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from penstock.client import AutoscalerClient

async def main(address, cluster, idle, busy):
    autoscaler = AutoscalerClient(await Client.connect(address, data_converter=pydantic_data_converter), cluster)
    began = False
    while True:
        began = began or busy in {drain.slice_id for drain in (await autoscaler.status()).drains}
        await autoscaler.report([], usage={idle: "idle", busy: "busy" if began else "idle"})
        await asyncio.sleep(0.1)

asyncio.run(main(*sys.argv[1:]))
"""
"""It starts a task at the moment at which its two slices begin to drain, and confirms nothing."""


def test_a_worker_killed_at_each_step_of_a_drain(hurt: Machine) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            every = [await stack.enter_async_context(staged(hurt, SOON)) for _ in range(5)]
            due, begun, draining, confirmed, deleting = every
            slices = dict(zip(every, await asyncio.gather(*map(_given, every)), strict=True))
            await asyncio.gather(_until_draining(draining), _until_draining(confirmed), _until_deleting(deleting))
            await _until_begun(begun)
            assert hurt.worker is not None
            hurt.worker.kill()
            await due.autoscaler.usage({slices[due]: "idle"})
            await confirmed.autoscaler.confirm_drain(slices[confirmed])
            await hurt.revive_worker()

            await asyncio.gather(*(_confirmed(stage) for stage in (due, begun, draining)))
            await asyncio.gather(*map(quiet, every))
            for stage in every:
                assert [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()] == [slices[stage]]
            await agreed_by_command(begun)

    asyncio.run(story())


def test_a_controller_that_dies_in_the_middle_of_a_drain(machine: Machine) -> None:
    """At the deadline the slice that it left idle is deleted, and the one on which work began serves again."""

    async def story() -> None:
        given: dict[str, Any] = {"idle_timeout": "200ms", "timeouts": {"drain": "5s"}}
        async with staged(machine, group(**given), usage_stale_after="6s") as stage:
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            idle, busy = (piece.id for piece in await settled(stage, 2))
            with _controller(stage, idle, busy) as controller:
                await stage.eventually(lambda: _idle_by_drain(stage), lambda found: found == {idle: True, busy: False})
                controller.kill()
            found = await stage.eventually(lambda: state_of(stage), lambda state: [piece.id for piece in state.slices] == [busy])
            if found.slices[0].state is not SliceState.READY:
                await settled(stage, 1)
            await quiet(stage, small=1)

    asyncio.run(story())


async def _given(stage: Stage) -> str:
    """The slice of a stage whose demand is over."""
    await stage.autoscaler.submit_demand(tasks(1))
    (piece,) = await settled(stage, 1)
    await stage.autoscaler.submit_demand([])
    return piece.id


async def _until_begun(stage: Stage) -> None:
    """The drain is ordered; the slice may not have heard of it."""
    (piece,) = (await state_of(stage)).slices
    await stage.autoscaler.usage({piece.id: "idle"})
    status = await stage.eventually(stage.autoscaler.status, lambda status: status.drains)
    assert status.drains[0].cause == DrainCause.IDLE


async def _until_draining(stage: Stage) -> None:
    """The slice has heard of it, and waits for the controller."""
    await _until_begun(stage)
    look = stage.autoscaler.slices
    await stage.eventually(look, lambda page: [piece.state for piece in page.slices] == [SliceState.DRAINING])


async def _until_deleting(stage: Stage) -> None:
    """The cloud was asked to delete the slice, and takes its time."""
    (piece,) = (await state_of(stage)).slices
    await stage.cloud.behave(delete_latency="3s")
    await _until_draining(stage)
    await stage.autoscaler.confirm_drain(piece.id)
    name = name_of(stage, piece)
    await stage.eventually(
        stage.cloud.ever_made, lambda items: {i["name"]: i["phase"] for i in items}[name] in ("deleting", "gone")
    )


async def _confirmed(stage: Stage) -> None:
    """Confirm the drain that is under way, or comes."""
    status = await stage.eventually(stage.autoscaler.status, lambda status: status.drains)
    await stage.autoscaler.confirm_drain(*status.drains)


async def _idle_by_drain(stage: Stage) -> dict[str, bool]:
    return {drain.slice_id: drain.idle for drain in (await stage.autoscaler.status()).drains}


@contextmanager
def _controller(stage: Stage, idle: str, busy: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-c", DYING_CONTROLLER, stage.machine.address, stage.cluster, idle, busy]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()
