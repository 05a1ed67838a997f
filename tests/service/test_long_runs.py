"""Runs end and others begin, under load: no message, slice or block is lost. Here the server suggests it every 20 events."""

import asyncio

from penstock.contract.names import AUTOSCALER
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability
from tests.service.machine import Machine
from tests.service.stage import Stage, group
from tests.service.test_demand import played, ready, tasks


async def runs(stage: Stage) -> int:
    """How many runs the autoscaler has had."""
    query = f"WorkflowId = '{stage.workflow.id}' AND WorkflowType = '{AUTOSCALER}'"
    return len([run async for run in stage.client.list_workflows(query)])


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
        assert {trouble.failure.kind for trouble in status.troubles} == {FailureKind.STOCKOUT}
        blocked = next(each for each in status.groups if each.name == "dry")
        assert blocked.availability is Availability.BACKOFF
        made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
        assert len(made) == len(set(made)) == 9

    dry, other = group("dry", zone="a", priority=1), group("open", zone="b", max_slices=20, priority=2)
    played(machine_of_short_runs, story, dry, other)


def test_more_slices_than_one_run_starts_are_started_over_several(machine_of_short_runs: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "many", 60)
        made = [item["labels"]["penstock-slice"] for item in await stage.cloud.ever_made()]
        assert len(made) == len(set(made)) == 60

    played(machine_of_short_runs, story, group("many", max_slices=60, min_slices=60))
