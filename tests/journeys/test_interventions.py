"""What people do to workflows by hand, in the middle of things: every slice is known afterwards, none is doubled."""

import asyncio

from temporalio.client import WorkflowExecutionStatus

from activities.temporal_reads import running_slices
from penstock.contract.names import slice_workflow_id
from tests.journeys.facts import Accounts, agreed_by_command, ended, quiet
from tests.workflows.ledgers import made, name_of, reset, run_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged
from tests.workflows.test_demand import tasks


def test_an_autoscaler_and_slices_terminated_while_slices_are_on_their_way(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, start=False) as stage:
            await stage.cloud.behave(reply_latency="1s", boot_latency="500ms")
            await stage.autoscaler.start(stage.config)
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            items = await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 3)
            ordered = sorted(item["labels"]["penstock-slice"] for item in items)
            await stage.workflow.terminate("by hand")
            await _terminated(stage, ordered[0])
            await stage.autoscaler.start(stage.config)
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            assert _ids(await quiet(stage, small=3)) == ordered
            assert await made(stage) == ordered

            ended_run = await _terminated(stage, ordered[1])
            handle = stage.slice_workflow("small", ordered[1])
            await stage.eventually(lambda: run_of(handle), lambda run: run not in (None, ended_run))
            assert _ids(await quiet(stage, small=3)) == ordered
            assert await made(stage) == ordered
            await agreed_by_command(stage)

    asyncio.run(story())


def test_an_autoscaler_reset_while_slices_come_and_go(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine) as stage:
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            first, second = await settled(stage, 2)
            await stage.cloud.behave(boot_latency="1s", delete_latency="1s")
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            await stage.autoscaler.drain(first.id)
            await stage.autoscaler.report(confirmed=[first.id])
            before = await run_of(stage.workflow)
            await reset(stage)
            after = await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
            await stage.eventually(lambda: state_of(stage), lambda state: state.recovered_in == after)

            await stage.autoscaler.confirm_drain(
                first.id
            )  # A reset delivers signals before updates: the drain may be the later one.
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            found = await stage.eventually(lambda: quiet(stage, small=3), lambda seen: first.id not in _ids(seen))
            assert second.id in _ids(found)
            made_in_all = await made(stage)
            assert set(made_in_all) >= {first.id, *_ids(found)}

    asyncio.run(story())


def test_a_cancelled_autoscaler_keeps_its_slices_and_a_new_one_finds_them(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine) as stage:
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            before = await quiet(stage, small=2)
            await stage.workflow.cancel()
            assert await ended(stage) is WorkflowExecutionStatus.CANCELED
            await stage.autoscaler.start(stage.config)
            after = await quiet(stage, small=2)
            assert _ids(after) == _ids(before) == await made(stage)
            for piece in after.ledger:
                described = await stage.slice_workflow(piece.group, piece.id).describe()
                assert described.status is WorkflowExecutionStatus.RUNNING

    asyncio.run(story())


def test_a_cancelled_slice_is_deleted_and_replaced_if_it_is_still_wanted(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine) as stage:
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            kept, cancelled = (await quiet(stage, small=2)).ledger
            await stage.slice_workflow(cancelled.group, cancelled.id).cancel()
            await ended(stage, slice_workflow_id(stage.cluster, cancelled.group, cancelled.id))
            found = await quiet(stage, small=2)
            assert kept.id in _ids(found)
            assert cancelled.id not in _ids(found)
            assert sorted([cancelled.id, *_ids(found)]) == await made(stage)

    asyncio.run(story())


def test_lost_replies_are_adopted_and_a_preempted_slice_is_made_anew(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, start=False) as stage:
            await stage.cloud.behave(lost_replies=2)
            await stage.autoscaler.start(stage.config)
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            kept, taken = (await quiet(stage, small=2)).ledger
            assert len(await made(stage)) == 2
            await stage.cloud.preempt(name_of(stage, taken))
            await stage.eventually(lambda: made(stage), lambda ids: len(ids) == 3)
            found = await quiet(stage, small=2)
            assert kept.id in _ids(found)
            assert taken.id not in _ids(found)
            assert len(await made(stage)) == 3

    asyncio.run(story())


def test_a_deleted_cluster_leaves_nothing(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(), group("slow", zone="b", min_slices=1), start=False) as stage:
            await stage.cloud.behave("b", reply_latency="1s", boot_latency="1h", delete_latency="500ms")
            await stage.autoscaler.start(stage.config)
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            await stage.eventually(stage.cloud.ever_made, lambda items: len(items) >= 2)
            await stage.autoscaler.delete(force=True)
            await stage.autoscaler.deleted()
            assert await stage.cloud.existing() == []
            await stage.eventually(lambda: running_slices(stage.client, stage.cluster), lambda running: not running)
            await agreed_by_command(stage)

    asyncio.run(story())


def _ids(seen: Accounts) -> list[str]:
    return sorted(piece.id for piece in seen.ledger)


async def _terminated(stage: Stage, slice_id: str) -> str | None:
    """Terminate a slice's workflow; the run that was ended."""
    handle = stage.slice_workflow("small", slice_id)
    run = await run_of(handle)
    await handle.terminate("by hand")
    return run
