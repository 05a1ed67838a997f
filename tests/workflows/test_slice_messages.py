"""Messages that a slice answers with its report: it reports by itself only what nobody else takes to the autoscaler."""

import asyncio

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateStage
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from activities import slice_messages
from activities.slice_messages import SliceMessages
from activities.slice_reports import Reporter
from penstock.contract import names
from penstock.contract.slices import DeleteCommand, DrainCommand, SliceLifecycle, SliceReport
from penstock.model.failures import Phase
from penstock.model.slices import DrainTerms, SliceState
from tests.activities.waiting import until
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import OneSlice, SliceStage, played, reported
from tests.workflows.stage import SECONDS
from worker.assembly import WORKFLOWS
from worker.sandbox import strict_runner
from workflows.slice_lifecycle import SliceLifecycleWorkflow

OWN_REPORT = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
TIMER = EventType.EVENT_TYPE_TIMER_STARTED


async def answer(piece: OneSlice, name: str, message: object) -> SliceReport:
    report: SliceReport = await piece.handle.execute_update(name, message, result_type=SliceReport)
    return report


def messages(stage: SliceStage) -> SliceMessages:
    return SliceMessages(stage.client, Reporter(stage.client))


def test_a_slice_answers_a_sighting_and_a_command_with_its_report_and_reports_neither_itself(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        ready = await answer(piece, names.OBSERVED, piece.healthy())
        assert (ready.state, ready.slice_id, len(ready.hosts)) == (SliceState.READY, piece.spec.slice_id, 1)
        drain = DrainCommand(slice_id=piece.spec.slice_id, terms=DrainTerms(cause="idle"))
        assert (await answer(piece, names.COMMAND, drain)).state is SliceState.DRAINING
        lifecycle = await piece.lifecycle()
        assert (lifecycle.state, lifecycle.reported) == (SliceState.DRAINING, lifecycle.sequence)
        assert await piece.count(OWN_REPORT) == 0

    played(machine, story)


def test_a_life_without_delays_has_one_report_of_its_end_and_few_events(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        await answer(piece, names.OBSERVED, piece.healthy())
        await answer(piece, names.COMMAND, DeleteCommand(slice_id=piece.spec.slice_id, cause="not wanted"))
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert [report.state for report in await stage.reports()] == [SliceState.TERMINATED], "taken there by the delete call"
        assert await piece.count(OWN_REPORT) == 0
        assert len(await piece.events()) <= 40

    played(machine, story)


def test_one_timer_serves_the_deadlines_of_all_states_on_the_way_to_ready(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"requesting": "1m", "boot": "2m", "init": "3m"})
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        await piece.see(Phase.BOOTING)
        await piece.comes_to(SliceState.BOOTING)
        await piece.see_healthy()
        await piece.comes_to(SliceState.READY)
        assert await piece.count(TIMER) == 1
        assert await piece.count(EventType.EVENT_TYPE_TIMER_CANCELED) == 1, "in READY nothing is due"

    played(machine, story)


def test_a_state_reached_late_has_its_whole_time_although_the_timer_began_earlier(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"requesting": "3s", "boot": "3s"})
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        await piece.see(Phase.BOOTING)
        await piece.comes_to(SliceState.FAILED)
        booting, failed = (await piece.lifecycle()).transitions[:2]
        assert (booting.state, failed.state) == (SliceState.BOOTING, SliceState.DELETING)
        assert (failed.at - booting.at).total_seconds() >= 2.99

    played(machine, story, boot_latency="1h")


def test_a_slice_that_does_not_answer_gets_a_signal_and_reports_by_itself(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_messages, "ANSWER_SECONDS", 0.2)

    async def story(stage: SliceStage) -> None:
        queue = f"own-{stage.cluster}"
        piece = await stage.begin(stage.spec(), state=SliceState.INITIALIZING, create_accepted=True, task_queue=queue)
        assert await messages(stage).send(stage.cluster, piece.handle.id, names.OBSERVED, piece.healthy())
        assert await stage.reports() == []
        async with Worker(stage.client, task_queue=queue, workflows=[SliceLifecycleWorkflow]):
            await reported(stage, lambda report: report.state is SliceState.READY)

    played(machine, story)


@workflow.defn(name=names.SLICE)
class Wedged:
    """A slice whose workflow tasks fail."""

    @workflow.run
    async def run(self, _lifecycle: SliceLifecycle) -> None:
        raise RuntimeError("a mistake in the code")


def test_a_slice_whose_workflow_tasks_fail_gets_signals_and_holds_up_no_other(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        queue = f"own-{stage.cluster}"
        async with Worker(stage.client, task_queue=queue, workflows=[Wedged], workflow_runner=UnsandboxedWorkflowRunner()):
            piece = await stage.begin(stage.spec(), task_queue=queue)
            await until(lambda: piece.count(EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED), bool, seconds=SECONDS)
            assert await messages(stage).send(stage.cluster, piece.handle.id, names.OBSERVED, piece.healthy())
            signalled = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
            await until(lambda: piece.count(signalled), lambda signals: signals == 2, seconds=SECONDS)

    played(machine, story)


def test_without_an_autoscaler_a_slice_is_asked_to_report_until_there_is_one(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        assert await messages(stage).send(stage.cluster, piece.handle.id, names.OBSERVED, piece.healthy())
        failed = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
        await until(lambda: piece.count(failed), bool, seconds=SECONDS)
        await stage.start_signal_log()
        await reported(stage, lambda report: report.state is SliceState.READY)

    played(machine, story, log=False)


def test_a_message_to_a_slice_without_a_workflow_is_not_delivered(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        workflow_id = names.slice_workflow_id(stage.cluster, "small", "never-was")
        assert not await messages(stage).send(stage.cluster, workflow_id, names.COMMAND, {})

    played(machine, story)


def test_signals_and_updates_of_one_workflow_task_are_replayed_as_they_were(machine: Machine) -> None:
    """An update came first, and a replay brings it last: a slice that is READY drains, one that is not is deleted."""

    async def story(stage: SliceStage) -> None:
        queue = f"own-{stage.cluster}"
        async with Worker(stage.client, task_queue=queue, workflows=[SliceLifecycleWorkflow]):
            piece = await stage.begin(stage.spec(), state=SliceState.INITIALIZING, create_accepted=True, task_queue=queue)
            await until(lambda: piece.count(TIMER), bool, seconds=SECONDS)
        asking = asyncio.create_task(
            piece.handle.start_update(
                names.OBSERVED, piece.healthy(), wait_for_stage=WorkflowUpdateStage.COMPLETED, result_type=SliceReport
            )
        )
        await piece.drain("idle")
        async with Worker(stage.client, task_queue=queue, workflows=[SliceLifecycleWorkflow]):
            await asking
            await piece.until(lambda lifecycle: lifecycle.cause == "idle")
            await until(lambda: piece.count(TIMER), bool, seconds=SECONDS)
        history = await piece.handle.fetch_history()
        replayer = Replayer(workflows=WORKFLOWS, workflow_runner=strict_runner(), data_converter=pydantic_data_converter)
        await replayer.replay_workflow(history)

    played(machine, story)
