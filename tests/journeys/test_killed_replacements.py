"""`kill -9` of the worker in the middle of replacements: one slice takes the place of the other, once."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainCause, SliceState
from tests.journeys.facts import agreed_by_command, quiet
from tests.workflows.ledgers import settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged
from tests.workflows.test_configuration import changed

KEPT: dict[str, Any] = {"min_slices": 1, "idle_timeout": "1h", "timeouts": {"drain": "1h"}}


def test_a_worker_killed_at_each_step_of_a_replacement(hurt: Machine) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            every = [await stack.enter_async_context(staged(hurt, group(**KEPT))) for _ in range(4)]
            ordered, booting, drained, confirmed = every
            old = dict(zip(every, await asyncio.gather(*map(_busy, every)), strict=True))
            await ordered.cloud.behave(create_latency="2s")
            await booting.cloud.behave(boot_latency="2s")
            await asyncio.gather(*map(_renew, every))
            await asyncio.gather(_until_ordered(ordered), _until_booting(booting), _until_drained(drained))
            await _until_drained(confirmed)
            assert hurt.worker is not None
            hurt.worker.kill()
            await confirmed.autoscaler.confirm_drain(old[confirmed])
            await hurt.revive_worker()

            await asyncio.gather(*(_work_moves(stage, old[stage]) for stage in every))
            for stage, found in zip(every, await asyncio.gather(*(quiet(stage, small=1) for stage in every)), strict=True):
                (new,) = found.ledger
                assert new.replaces == old[stage]
                made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
                assert sorted(made) == sorted([old[stage], new.id])
            await agreed_by_command(ordered)

    asyncio.run(story())


async def _busy(stage: Stage) -> str:
    """The slice of a stage, with work on it."""
    (piece,) = await settled(stage, 1)
    await stage.autoscaler.usage({piece.id: "busy"})
    await stage.eventually(lambda: state_of(stage), lambda state: piece.id in state.usage)
    return piece.id


async def _renew(stage: Stage) -> None:
    """Apply a configuration with another image."""
    await stage.autoscaler.apply_config(changed(stage, group(provider={"kind": "sim", "image": "of-today"}, **KEPT)))


def _replacements(state: AutoscalerState) -> list[SliceState]:
    return [piece.state for piece in state.slices if piece.replaces]


async def _until_ordered(stage: Stage) -> None:
    await stage.eventually(lambda: state_of(stage), _replacements)


async def _until_booting(stage: Stage) -> None:
    await stage.eventually(lambda: state_of(stage), lambda state: _replacements(state) == [SliceState.BOOTING])


async def _until_drained(stage: Stage) -> None:
    """The replacement is READY, and the drain of the old slice is ordered."""
    status = await stage.eventually(stage.autoscaler.status, lambda status: status.drains)
    assert status.drains[0].cause == DrainCause.DRIFT
    assert _replacements(await state_of(stage)) == [SliceState.READY]


async def _work_moves(stage: Stage, old: str) -> None:
    """Confirm the drain of the old slice once it comes, unless it was confirmed before."""

    async def leaving() -> bool:
        piece = (await state_of(stage)).by_id.get(old)
        return piece is None or piece.drain is not None

    await stage.eventually(leaving, bool)
    await stage.autoscaler.confirm_drain(old)
