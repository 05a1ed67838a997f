"""`kill -9` of a worker, wherever it is: what it was about is taken up again, once."""

import asyncio

from penstock.contract import names
from penstock.core.state.state import AutoscalerState
from tests.journeys.facts import agreed_by_command, attempts, quiet
from tests.workflows.ledgers import name_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged
from tests.workflows.test_demand import tasks

SECOND = "second-worker"


def test_a_worker_killed_while_slices_are_created_boot_and_are_deleted(hurt: Machine) -> None:
    async def story() -> None:
        async with staged(hurt, start=False) as creating, staged(hurt, start=False) as booting, staged(hurt) as deleting:
            await asyncio.gather(_create_without_reply(creating), _boot(booting), _delete_slowly(deleting))
            assert hurt.worker is not None
            hurt.worker.kill()
            await creating.cloud.behave()
            await hurt.revive_worker()

            adopted, booted, _ = await asyncio.gather(quiet(creating, small=2), quiet(booting, small=2), quiet(deleting))
            tries = [await attempts(creating, piece, names.CREATE) for piece in adopted.ledger]
            assert all(len(calls) == 1 and calls[0] > 1 for calls in tries), tries
            assert len(await creating.cloud.ever_made()) == len(adopted.ledger)
            assert len(await booting.cloud.ever_made()) == len(booted.ledger)
            assert len(await deleting.cloud.ever_made()) == 1
            await agreed_by_command(creating)

    asyncio.run(story())


def test_of_two_workers_the_one_that_is_left_goes_on_alone(hurt: Machine) -> None:
    async def story() -> None:
        second = hurt.new_worker(SECOND)
        try:
            await hurt.revive_worker(second)
            async with staged(hurt, start=False) as stage:
                await stage.cloud.behave(create_latency="300ms", boot_latency="1s")
                await stage.autoscaler.start(stage.config)
                await stage.autoscaler.submit_demand(tasks(3, cpu=4))
                await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 3)
                assert hurt.worker is not None
                hurt.worker.kill()
                await quiet(stage, small=3)
                await stage.autoscaler.submit_demand(tasks(4, cpu=4))
                await quiet(stage, small=4)
                assert len(await stage.cloud.ever_made()) == 4
        finally:
            second.kill()

    asyncio.run(story())


def test_a_worker_killed_during_the_last_look_of_a_deletion(hurt: Machine) -> None:
    """Questions asked before it, by people and by decisions, leave nothing that the worker after it would not find."""

    async def story() -> None:
        async with staged(hurt, group(min_slices=8, max_slices=8)) as stage:
            await settled(stage, 8)
            await stage.cloud.behave(partial_lists=True)
            await stage.autoscaler.delete(force=True)
            before = await stage.eventually(lambda: state_of(stage), _looks_for_the_last_time)
            assert hurt.worker is not None
            hurt.worker.kill()
            await hurt.revive_worker()

            after = await state_of(stage)
            assert (after.version, after.recovery, after.blocks) == (before.version, before.recovery, before.blocks)
            await stage.cloud.behave()
            await stage.workflow.result()
            assert await stage.cloud.existing() == []

    asyncio.run(story())


def _looks_for_the_last_time(state: AutoscalerState) -> bool:
    return state.recovery is not None and state.recovery.closing and state.recovery.reports_collected


async def _create_without_reply(stage: Stage) -> None:
    """The cloud has stored what was ordered, and holds its replies back."""
    await stage.cloud.behave(reply_latency="1h")
    await stage.autoscaler.start(stage.config)
    await stage.autoscaler.submit_demand(tasks(2, cpu=4))
    await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 2)


async def _boot(stage: Stage) -> None:
    """Resources exist, and their hosts take their time."""
    await stage.cloud.behave(boot_latency="3s", init_latency="1s")
    await stage.autoscaler.start(stage.config)
    await stage.autoscaler.submit_demand(tasks(2, cpu=4))
    await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 2)


async def _delete_slowly(stage: Stage) -> None:
    """The cloud was asked to delete, and takes its time."""
    await stage.autoscaler.submit_demand(tasks(1))
    (piece,) = await settled(stage, 1)
    await stage.cloud.behave(delete_latency="3s")
    await stage.autoscaler.submit_demand([])
    await stage.autoscaler.drain(piece.id)
    await stage.autoscaler.confirm_drain(piece.id)
    name = name_of(stage, piece)
    await stage.eventually(
        stage.cloud.ever_made, lambda items: {i["name"]: i["phase"] for i in items}[name] in ("deleting", "gone")
    )
