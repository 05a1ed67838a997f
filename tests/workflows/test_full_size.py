"""A hundred thousand tasks and five thousand slices: within Temporal's limits, and answered in time."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from penstock.client.demand_messages import as_demand
from penstock.contract.answers import ClusterStatus, TaskStatus
from penstock.contract.names import SLICES_REPORTED
from penstock.contract.slices import SliceReport, SliceReports
from penstock.model.demand_builder import without
from penstock.model.slices import SliceState
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_configuration import changed
from tests.workflows.test_demand import played, ready

TASKS, SLICES = 100_000, 5_000
SMALL = {"cpu": 0.5, "memory": "1GiB"}
"""A host that none of the tasks fits."""
BATCH = 1_000
LARGEST_CARRIED = 1_000_000
"""Bytes of the state that is carried from run to run."""


def holds(slices: int, status: ClusterStatus) -> bool:
    return status.slices == slices


def is_decided(status: ClusterStatus) -> bool:
    return sum(status.placed.values()) + sum(status.unmet.values()) == TASKS


def report(number: int, now: datetime) -> SliceReport:
    return SliceReport(slice_id=f"big-{number:05}", group="big", state=SliceState.READY, since=now, ordered_at=now, sequence=3)


def test_a_full_cluster_is_decided_on_carried_over_and_explained(machine_of_short_runs: Machine) -> None:
    async def story(stage: Stage) -> None:
        autoscaler = stage.autoscaler
        now = datetime.now(UTC)
        # The second slice is seen by another look than the first, so that the audit that every watch begins with is over.
        await ready(stage, "small", 1)
        await autoscaler.apply_config(changed(stage, *groups(small=2)))
        await ready(stage, "small", 2)
        for first in range(0, SLICES, BATCH):
            batch = SliceReports(reports=tuple(report(number, now) for number in range(first, first + BATCH)))
            await stage.workflow.signal(SLICES_REPORTED, batch)
            await stage.eventually(autoscaler.status, partial(holds, first + BATCH + 2))
        shapes = [{"cpu": 1 + i % 3, "memory": f"{1 + i % 2}GiB"} for i in range(6)]
        waiting = as_demand([{"id": f"job-{i // 100}/task-{i}", "resources": shapes[i % 6]} for i in range(TASKS)])
        accepted = await autoscaler.submit_demand(waiting)
        assert accepted.resync_needed is None

        await stage.eventually(autoscaler.status, is_decided)
        state = await autoscaler.dump()
        assert len(state.slices) == SLICES + 2
        assert len(state.model_dump_json()) < LARGEST_CARRIED

        # A small change is a small message; the long computation does not delay its answer.
        before = (await stage.workflow.describe()).run_id
        assert (await autoscaler.submit_demand(without(waiting, {"job-0/task-0"}))).revision == 2
        explained = await autoscaler.explain("job-0/task-1")
        assert (explained.status, explained.group) == (TaskStatus.PLACED, "big"), explained.text
        assert (await autoscaler.slices(page=26)).slices[-1].id == f"big-{SLICES - 1:05}"
        await stage.eventually(stage.workflow.describe, lambda described: described.run_id != before)
        assert (await autoscaler.status()).demand["default"].tasks == TASKS - 1

    # Slices that exist only in reports: an audit would find that they are missing.
    rules = {"look": "50ms", "rest": "10m", "audit": "10m"}
    played(machine_of_short_runs, story, *groups(small=1), inventory=rules, ready_grace="1h")


def groups(*, small: int) -> list[dict[str, Any]]:
    return [group("big", max_slices=SLICES), group("small", min_slices=small, host=SMALL)]
