"""An autoscaler that the server ended comes back with its last state; one that a person ended comes back on request."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.console import Console
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.comeback import EndedAutoscalers
from penstock.cli import delete
from penstock.cli.delete import _until_gone
from penstock.cli.failures import CommandFailed
from penstock.client import AutoscalerClient, ErrorCode, NoSuchCluster, Refused
from penstock.client.last_run import SERVER_IDENTITY, last_run, last_state
from penstock.contract import names
from penstock.core.state.state import AutoscalerState
from tests.conftest import Machines
from tests.workflows.ledgers import made, reset, run_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, served_here, staged
from tests.workflows.test_demand import tasks
from worker import serving

SMALL_HISTORIES = {"limit.historySize.error": "400000"}
"""The server ends a run at 400 kB instead of 50 MB."""
GROUPS = (group(), group("dry", zone="b", priority=200))
FLOOD = {"junk": "x" * 20_000}


@pytest.fixture
def small(machines: Machines) -> Machine:
    """A machine whose server ends runs early."""
    return machines(**SMALL_HISTORIES)


@asynccontextmanager
async def guarded(stage: Stage, patched: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A worker in this process that looks for ended autoscalers every moment."""
    patched.setattr(serving, "GUARD_SECONDS", 0.1)
    async with served_here(stage, patched):
        yield


async def operated(stage: Stage) -> AutoscalerState:
    """The state of a cluster with a second configuration, a standing request, demand, a block and a pause."""
    await stage.autoscaler.submit_demand(tasks(1, cpu=4))
    await settled(stage, 1)
    await stage.autoscaler.apply_config(stage.config.model_copy(update={"max_slices": 7}))
    await stage.autoscaler.request_capacity("notebooks", [{"count": 1, "resources": {"cpu": 1}}])
    await stage.cloud.behave("b", stockout=True)
    dry = [{"attribute": "zone", "op": "eq", "value": stage.cloud.zone("b")}]
    await stage.autoscaler.report(tasks(1, cpu=4, name="stuck", constraints=dry))
    await stage.eventually(lambda: state_of(stage), lambda state: state.blocks and len(state.slices) == 1)
    await stage.autoscaler.pause("a freeze")
    return await state_of(stage)


async def flooded(stage: Stage) -> None:
    """Send what no handler can use until the server has had enough."""
    run = await run_of(stage.workflow)
    handle = stage.client.get_workflow_handle(stage.workflow.id, run_id=run)
    try:
        for _ in range(200):
            await handle.signal("flood", FLOOD)
    except RPCError as ended:
        assert ended.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND), ended  # noqa: PT017 - any may be the last
    else:
        raise AssertionError("the server took 4 MB")


def told(state: AutoscalerState) -> dict[str, object]:
    """What operators and controllers said, and what failures taught."""
    kept = {"config", "config_revision", "standing", "paused", "demand", "closing"}
    # Not the times of failures: a run dates reports that it applies in one batch by the last of them.
    blocks = [(block.scope, block.subject, block.kind, block.failures, block.health.availability) for block in state.blocks]
    return state.model_dump(include=kept) | {"blocks": blocks, "failed": [each.slice_id for each in state.recent_failures]}


def test_an_autoscaler_that_the_server_ended_comes_back_as_it_was(small: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with staged(small, *GROUPS, start=False) as stage, guarded(stage, monkeypatch):
            before = await operated(stage)
            run = await run_of(stage.workflow)
            await flooded(stage)
            await stage.eventually(lambda: run_of(stage.workflow), lambda found: found not in (None, run))
            assert [piece.id for piece in await settled(stage, 1)] == [piece.id for piece in before.slices]
            assert told(await state_of(stage)) == told(before)

            await stage.autoscaler.resume()
            await stage.autoscaler.clear_block()
            await stage.cloud.behave("b")
            await settled(stage, 2)
            assert len(set(await made(stage))) == len(await made(stage))

    asyncio.run(story())


def test_an_autoscaler_that_a_person_terminated_stays_down_until_it_is_restored(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with staged(machine, *GROUPS, start=False) as stage, served_here(stage, monkeypatch):
            before = await operated(stage)
            await stage.workflow.terminate("by hand")
            ended = EndedAutoscalers(stage.client, task_queue=f"own-{stage.cluster}")
            query = f"WorkflowId = '{stage.workflow.id}' AND ExecutionStatus = 'Terminated'"
            await stage.eventually(lambda: stage.client.count_workflows(query), lambda found: found.count == 1)
            assert await ended.restart() == []
            assert await run_of(stage.workflow) is None

            await AutoscalerClient(stage.client, stage.cluster, task_queue=f"own-{stage.cluster}").restore()
            assert [piece.id for piece in await settled(stage, 1)] == [piece.id for piece in before.slices]
            assert told(await state_of(stage)) == told(before)

    asyncio.run(story())


def test_workers_that_notice_at_once_start_one_autoscaler(small: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with staged(small, start=False) as stage, served_here(stage, monkeypatch):
            await settled(stage, 0)
            await flooded(stage)
            workers = [EndedAutoscalers(stage.client, task_queue=f"own-{stage.cluster}") for _ in range(4)]
            found = await stage.eventually(
                lambda: asyncio.gather(*(worker.restart() for worker in workers)), lambda restarted: any(restarted)
            )
            assert [cluster for clusters in found for cluster in clusters] == [stage.cluster]
            await settled(stage, 0)

    asyncio.run(story())


def test_a_cluster_that_was_being_deleted_goes_on_being_deleted(small: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with staged(small, group(min_slices=2), start=False) as stage, guarded(stage, monkeypatch):
            await settled(stage, 2)
            await stage.cloud.behave(delete_latency="2s")
            await stage.autoscaler.delete(force=True)
            await flooded(stage)
            await stage.eventually(stage.workflow.describe, lambda seen: seen.status is WorkflowExecutionStatus.COMPLETED)
            assert await stage.cloud.existing() == []
            with pytest.raises(Refused, match="was deleted"):
                await stage.autoscaler.restore()

    asyncio.run(story())


@asynccontextmanager
async def deleted_by_command(stage: Stage, patched: pytest.MonkeyPatch) -> AsyncIterator[tuple[asyncio.Task[None], Console]]:
    """A worker that looks for no ended autoscalers, and `penstock delete` waiting for a cluster that cannot end yet."""
    patched.setattr(serving, "GUARD_SECONDS", 600.0)
    async with served_here(stage, patched):
        await settled(stage, 0)
        await stage.cloud.behave(partial_lists=True)
        await stage.autoscaler.delete()
        console = Console(file=io.StringIO(), record=True, width=200)
        waiting = asyncio.create_task(_until_gone(stage.client, stage.cluster, console))
        try:
            yield waiting, console
        finally:
            waiting.cancel()


def test_delete_waits_for_an_autoscaler_that_the_server_ended_until_it_is_back_and_gone(
    small: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with staged(small, start=False) as stage, deleted_by_command(stage, monkeypatch) as (waiting, console):
            await flooded(stage)
            said = (
                f"The autoscaler of {stage.cluster} ended early (Workflow history size exceeds limit.). A worker starts it again"
            )

            async def printed() -> str:
                return console.export_text(clear=False)

            await stage.eventually(printed, lambda text: said in text or waiting.done())
            assert not waiting.done(), waiting
            await EndedAutoscalers(stage.client, task_queue=f"own-{stage.cluster}").restart()
            await stage.cloud.behave()
            await waiting
            assert (await printed()).count("ended early") == 1

    asyncio.run(story())


def test_delete_names_the_command_that_starts_an_autoscaler_again_which_a_person_ended_or_no_worker_restarts(
    small: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(by_person: bool) -> CommandFailed:
        async with staged(small, start=False) as stage, deleted_by_command(stage, monkeypatch) as (waiting, _):
            await (stage.workflow.terminate(reason="by hand") if by_person else flooded(stage))
            with pytest.raises(CommandFailed) as failed:
                await waiting
            assert failed.value.fixes[-1].endswith(f"and it goes on deleting them: penstock restore {stage.cluster}")
            assert await stage.autoscaler.restore()
            await stage.eventually(stage.autoscaler.status, lambda status: status.closing)
            return failed.value

    monkeypatch.setattr(delete, "_COMEBACK_SECONDS", 1.0)
    assert "ended early: terminated (by hand)" in str(asyncio.run(ended(by_person=True)))
    assert "no worker has started it again for 1s" in str(asyncio.run(ended(by_person=False)))


def test_what_cannot_be_restored_is_refused_with_the_reason(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine) as stage:
            with pytest.raises(Refused) as refused:
                await stage.autoscaler.restore()
            assert refused.value.code is ErrorCode.ALREADY_RUNNING
            with pytest.raises(NoSuchCluster):
                await AutoscalerClient(stage.client, "never").restore()

    asyncio.run(story())


def test_the_state_read_from_a_history_is_the_state_that_the_run_had(machine_of_short_runs: Machine) -> None:
    """Also in a run that continues another, and after a reset, which delivers updates again."""

    async def story() -> None:
        async with staged(machine_of_short_runs, *GROUPS) as stage:
            await operated(stage)

            async def read_and_asked() -> tuple[dict[str, object], dict[str, object]]:
                run = (await stage.workflow.describe()).run_id
                return told(await last_state(stage.client, stage.cluster, run)), told(await state_of(stage))

            await stage.eventually(read_and_asked, lambda both: both[0] == both[1])
            before = await run_of(stage.workflow)
            await reset(stage)
            await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
            await stage.eventually(lambda: state_of(stage), lambda state: state.paused and state.recovery is None)
            await stage.eventually(read_and_asked, lambda both: both[0] == both[1])

    asyncio.run(story())


def test_the_server_says_that_it_ended_a_run_itself(small: Machine) -> None:
    async def story() -> None:
        async with staged(small) as stage:
            assert stage.machine.worker is not None
            stage.machine.worker.kill()
            await flooded(stage)
            run = await last_run(stage.client, stage.cluster)
            assert run is not None
            assert (run.by_server, run.status) == (True, WorkflowExecutionStatus.TERMINATED)
            assert "history size exceeds limit" in run.reason
            event = (await stage.workflow.fetch_history()).events[-1]
            assert event.workflow_execution_terminated_event_attributes.identity == SERVER_IDENTITY
            await stage.machine.revive_worker()
            await stage.eventually(lambda: run_of(stage.workflow), lambda found: found)

    asyncio.run(story())


def test_a_paused_autoscaler_notices_a_reset(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            await settled(stage, 1)
            await stage.autoscaler.pause("a freeze")
            before = await run_of(stage.workflow)
            (paused, *_) = [
                event.event_id
                for event in (await stage.workflow.fetch_history()).events
                if event.workflow_execution_update_accepted_event_attributes.accepted_request.input.name == names.PAUSE
            ]
            await stage.autoscaler.clear_block()
            await reset(stage, after=paused)
            after = await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
            state = await stage.eventually(lambda: state_of(stage), lambda state: state.recovered_in == after)
            assert state.paused == "a freeze"
            await settled(stage, 1)

    asyncio.run(story())
