"""Runs end and others begin, under load: no message, slice or block is lost. Here the server suggests it every 20 events."""

import asyncio
from collections.abc import Callable

import pytest
from temporalio.worker import UnsandboxedWorkflowRunner

from penstock.contract import names
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability
from tests.workflows.histories import Record
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, served_here
from tests.workflows.test_demand import played, ready, recovered, tasks
from worker import assembly
from workflows import autoscaler as looping

MOST_OWNERS = 500
"""Far more than three runs of some twenty events can take."""


async def runs(stage: Stage) -> int:
    """How many runs the autoscaler has had."""
    return len(await run_ids(stage))


async def run_ids(stage: Stage) -> list[str]:
    query = f"WorkflowId = '{stage.workflow.id}' AND WorkflowType = '{names.AUTOSCALER}'"
    return [run.run_id async for run in stage.client.list_workflows(query)]


async def counts(stage: Stage, count: Callable[[Record], int], *, total: int) -> list[int]:
    """How often something is recorded in each run, once it is so often in all: the list of runs may lag behind."""

    async def look() -> list[int]:
        handles = [stage.client.get_workflow_handle(stage.workflow.id, run_id=run_id) for run_id in await run_ids(stage)]
        return [count(Record((await handle.fetch_history()).events)) for handle in handles]

    return await stage.eventually(look, lambda found: sum(found) >= total)


def test_continuing_as_new_under_load_loses_no_message_slice_or_block(machine_of_short_runs: Machine) -> None:
    async def story(stage: Stage) -> None:
        autoscaler = stage.autoscaler
        await stage.cloud.behave("a", stockout=True)
        await autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "open", 1)
        for count in range(1, 9):
            await asyncio.gather(
                autoscaler.submit_demand(tasks(count, cpu=4)),
                autoscaler.request_capacity(f"owner-{count}", [{"resources": {"cpu": 1}}]),
                *(
                    stage.workflow.signal("demand", {"source": f"s{n}", "tasks": tasks(1, name=f"s{n}-{count}")})
                    for n in range(4)
                ),
            )
        await stage.eventually(lambda: runs(stage), lambda count: count > 3)
        # Eight slices for the eight tasks; the four small tasks of other sources share one more.
        await ready(stage, "open", 9)

        status = await autoscaler.status()
        assert status.demand["default"].tasks == 8
        assert status.demand["default"].resync_needed is None
        assert [status.demand[f"s{n}"].revision for n in range(4)] == [7] * 4
        assert len(status.standing) == 8
        assert {failed.failure.kind for failed in status.recent_failures} == {FailureKind.STOCKOUT}
        blocked = next(each for each in status.groups if each.name == "dry")
        assert blocked.availability is Availability.BACKOFF
        made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
        assert len(made) == len(set(made)) == 9

    dry, other = group("dry", zone="a", priority=1), group("open", zone="b", max_slices=20, priority=2)
    played(machine_of_short_runs, story, dry, other, backoff={"first": "10m", "longest": "10m"})


def test_more_slices_than_one_run_starts_are_started_over_several(machine_of_short_runs: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "many", 60)
        made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
        assert len(made) == len(set(made)) == 60

    played(machine_of_short_runs, story, group("many", max_slices=60, min_slices=60))


def test_updates_that_meet_the_end_of_a_run_are_each_answered_and_take_effect_once(machine_of_short_runs: Machine) -> None:
    """No handler waits, so none is under way when a run ends; what comes meanwhile is the next run's.

    One whose answer is lost with the old run is done again by the new one: every update may be repeated.
    """

    async def story(stage: Stage) -> None:
        await recovered(stage)
        owners: list[str] = []
        spread = 0
        while spread < 3 and len(owners) < MOST_OWNERS:
            together = [f"owner-{len(owners)}-{n}" for n in range(5)]
            wanted = [{"resources": {"cpu": 1}}]
            answers = await asyncio.gather(*(stage.autoscaler.request_capacity(owner, wanted) for owner in together))
            assert len(answers) == len(together)
            owners += together
            done = await counts(stage, lambda record: len(record.updates(names.REQUEST_CAPACITY)), total=len(owners))
            spread = len([count for count in done if count])
        assert spread >= 3
        standing = (await stage.autoscaler.status()).standing
        assert [request.owner for request in standing] == sorted(owners)

    played(machine_of_short_runs, story, group(max_slices=20))


def test_a_run_that_started_as_many_slices_as_it_may_is_followed_by_another(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a worker in this process, with smaller limits; the server itself would have the run go on."""
    monkeypatch.setattr(looping, "MOST_CHILDREN", 8)
    monkeypatch.setattr(assembly, "production_runner", UnsandboxedWorkflowRunner)

    async def story(stage: Stage) -> None:
        async with served_here(stage, monkeypatch):
            await ready(stage, "many", 22)
            started = await counts(stage, Record.children, total=22)
        assert sorted(started) == [2, 10, 10]
        made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
        assert len(made) == len(set(made)) == 22

    played(machine, story, group("many", max_slices=22, min_slices=22), start=False)
