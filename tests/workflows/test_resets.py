"""A reset delivers the signals and updates of the old run again, in few workflow tasks; every replay must read them alike."""

import asyncio

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from penstock.contract import names
from tests.workflows.histories import Record, recorded
from tests.workflows.ledgers import reset, run_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged
from tests.workflows.test_backlog import AT_REST, exist, many, report_of
from tests.workflows.test_demand import played, recovered, tasks
from workflows.autoscaler import AutoscalerWorkflow

SLICES, REPORTS, UPDATES = 1_000, 40, 80
RARELY = {"interval": "30s"}
"""With fewer evaluations no run grows so long that it continues as new, and the reset delivers everything again."""


def test_a_run_that_was_reset_among_signals_and_updates_replays(machine: Machine) -> None:
    """Updates take effect after the signals of their workflow task, in whatever order the server delivers both."""

    async def story() -> None:
        async with staged(machine) as stage:
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            slices = [piece.id for piece in await settled(stage, 3)]
            ready = (await stage.workflow.fetch_history()).events[-1].event_id
            for slice_id in slices:
                await stage.autoscaler.drain(slice_id, cause="a test")
                await stage.workflow.signal("confirm_drain", slice_id)
            await recovered_from_reset(stage, after=ready)
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            history = await stage.workflow.fetch_history()
            await Replayer(workflows=[AutoscalerWorkflow], data_converter=pydantic_data_converter).replay_workflow(history)

    asyncio.run(story())


def test_more_updates_and_reports_than_one_activation_can_read_are_taken_up_in_steps_after_a_reset(
    machine: Machine,
) -> None:
    """A reset delivers all of them in one activation, which may not take longer than two seconds, and reading them does."""

    async def story(stage: Stage) -> None:
        await recovered(stage)
        slice_ids = await exist(stage, SLICES)
        begun = (await stage.workflow.fetch_history()).events[-1].event_id
        wanted = [{"epoch": 1, "revision": n, "source": "queue", "tasks": [{"id": "t", "count": n + 1}]} for n in range(REPORTS)]
        await many(stage, [report_of(slice_ids, n) | {"demand": demand} for n, demand in enumerate(wanted)])
        for limit in range(SLICES, SLICES + UPDATES):
            await stage.autoscaler.apply_config(stage.config.model_copy(update={"max_slices": limit}))
        deadlocks = deadlocks_of(stage)
        before = await run_of(stage.workflow)
        await reset(stage, after=begun)
        await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
        await stage.eventually(stage.autoscaler.status, lambda status: status.config_revision == UPDATES + 1)
        state = await state_of(stage)
        assert state.config is not None
        assert state.config.max_slices == SLICES + UPDATES - 1
        assert len(state.demand["queue"].demand.task_ids) == REPORTS
        assert deadlocks_of(stage) == deadlocks

    played(machine, story, group("big", max_slices=SLICES), inventory=AT_REST, evaluation=RARELY, ready_grace="1h")


def rests(record: Record) -> bool:
    """Whether nothing keeps the autoscaler from evaluating at once."""
    pauses = [span for span in record.timers() if span.about == "evaluation interval"]
    return record.is_between_tasks() and all(span.ended for span in (*pauses, *record.activities(names.EVALUATE)))


async def recovered_from_reset(stage: Stage, *, after: int) -> None:
    """Reset the autoscaler to what it was after an event; returns when the new run has recovered its ledger."""
    before = await run_of(stage.workflow)
    await reset(stage, after=after)
    run = await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
    await stage.eventually(lambda: state_of(stage), lambda state: state.recovered_in == run and state.recovery is None)


def deadlocks_of(stage: Stage) -> int:
    """How often the worker reported that a workflow task took too long."""
    assert stage.machine.worker is not None
    return stage.machine.worker.log.read_text(errors="replace").count("TMPRL1101")


def test_a_run_that_was_reset_twice_orders_nothing_before_it_has_recovered_again(machine: Machine) -> None:
    """The reports that the second reset delivers again make an evaluation due at once, on a ledger that lacks what came after."""

    async def story() -> None:
        async with staged(machine) as stage:
            await recovered(stage)
            for wanted in (1, 2):
                await stage.eventually(
                    lambda: recorded(stage.workflow), lambda record: record.is_between_tasks() and rests(record)
                )
                begun = (await stage.workflow.fetch_history()).events[-1].event_id
                await stage.workflow.signal("demand", {"source": "raw", "tasks": tasks(wanted, cpu=4)})
                await settled(stage, wanted)
                await recovered_from_reset(stage, after=begun)
                await settled(stage, wanted)
            assert len(await stage.cloud.ever_made()) == 2
            events = (await stage.workflow.fetch_history()).events
            resets = [event.event_id for event in events if event.workflow_task_failed_event_attributes.new_run_id]
            record = Record(events)
            collected = [span.begun for span in record.activities(names.COLLECT_REPORTS) if span.begun > resets[-1]]
            early = [span for span in record.activities(names.EVALUATE) if resets[-1] < span.begun < collected[0]]
            assert early == []

    asyncio.run(story())
