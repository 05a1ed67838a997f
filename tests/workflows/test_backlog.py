"""What controllers said while no worker ran is read in bounded steps: it stops nothing, and its newest word counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock.client.reporter
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.slices import SliceReport, SliceReports
from penstock.model.slices import SliceState
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_demand import played, recovered

SLICES, REPORTS = 1_000, 200
"""A report every three seconds."""
TOGETHER = 32
"""Signals in flight at once while a backlog is sent."""
AT_REST = {"look": "50ms", "rest": "10m", "audit": "10m"}


def test_ten_minutes_of_reports_that_met_no_worker_are_taken_up_and_the_newest_counts(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await recovered(stage)
        slice_ids = await exist(stage, SLICES)
        async with unattended(stage):
            sent = [{"source": "queue", "tasks": [{"id": "t", "count": n}]} for n in range(1, 11)]
            await asyncio.gather(
                *(stage.workflow.signal(names.DEMAND, {**one, "epoch": 1, "revision": n}) for n, one in enumerate(sent))
            )
            await many(stage, [report_of(slice_ids, n) for n in range(REPORTS)])
        await stage.eventually(stage.autoscaler.status, lambda status: status.demand and not status.unread)
        state = await stage.eventually(stage.autoscaler.dump, lambda state: last_word(state.usage, slice_ids) == REPORTS - 1)
        assert len(state.usage) == SLICES
        assert len(state.demand["queue"].demand.task_ids) == len(sent)
        assert (state.rejected_in_all, state.resync_needed) == (0, {})

    played(machine, story, group("big", max_slices=SLICES), inventory=AT_REST, ready_grace="1h")


async def exist(stage: Stage, count: int) -> list[str]:
    """Put READY slices into the ledger, by reports alone; returns their ids.

    The watch of a new worker begins with an audit. From an incomplete list it does not conclude that they are missing.
    """
    await stage.cloud.behave("a", partial_lists=True)
    now = datetime.now(UTC)
    ids = [f"big-{number:05}" for number in range(count)]
    reports = [
        SliceReport(slice_id=one, group="big", state=SliceState.READY, since=now, ordered_at=now, sequence=3) for one in ids
    ]
    await stage.workflow.signal(names.SLICES_REPORTED, SliceReports(reports=tuple(reports)))
    await stage.eventually(stage.autoscaler.status, lambda status: status.slices == count)
    return ids


@asynccontextmanager
async def unattended(stage: Stage) -> AsyncIterator[None]:
    """No worker runs inside the context; one runs again after it."""
    assert stage.machine.worker is not None
    await asyncio.to_thread(stage.machine.worker.stop)
    try:
        yield
    finally:
        await stage.machine.revive_worker()


async def many(stage: Stage, messages: list[dict[str, Any]]) -> None:
    """Send reports, in order of their revisions but several at once, as a busy controller does."""
    for first in range(0, len(messages), TOGETHER):
        some = messages[first : first + TOGETHER]
        await asyncio.gather(*(stage.workflow.signal(names.REPORT, message) for message in some))


def report_of(slice_ids: list[str], number: int) -> dict[str, Any]:
    """A full report of every slice, each running a task of that number."""
    usage = {one: [{"reserved": {"cpu": 4}, "tasks": [f"pretrain/run-{one}/job-{number:04}"]}] for one in slice_ids}
    return {"usage": usage} | {"source": "queue", "epoch": 1, "revision": number}


def last_word(usage: dict[str, Any], slice_ids: list[str]) -> int | None:
    """The number of the report that all slices show; None while there is none."""
    said = {task for one in slice_ids for host in usage.get(one, ()) for task in host.tasks}
    numbers = {int(task.rpartition("-")[2]) for task in said}
    return numbers.pop() if len(numbers) == 1 else None


def test_a_controller_that_reports_while_no_worker_runs_sends_a_bounded_amount_and_nothing_is_lost(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(penstock.client.reporter, "MOST_UNREAD_BYTES", 50_000)
    monkeypatch.setattr(penstock.client.reporter, "ANSWER_SECONDS", 0.2)

    async def story(stage: Stage) -> None:
        await recovered(stage)
        slice_ids = await exist(stage, SLICES)
        reporter = AutoscalerClient(stage.client, stage.cluster)
        before = len((await stage.workflow.fetch_history()).events)
        async with unattended(stage):
            for number in range(300):
                busy = dict.fromkeys(slice_ids, "busy") | {slice_ids[number]: "idle"}
                await reporter.report([{"id": "t", "count": number + 1}], usage=busy, confirmed=[f"big-gone-{number}"])
        await stage.eventually(stage.autoscaler.status, lambda status: status.demand and status.demand["default"].tasks == 300)
        state = await stage.autoscaler.dump()
        assert [one for one in slice_ids if state.usage[one][0].idle] == [slice_ids[299]]
        events = (await stage.workflow.fetch_history()).events[before:]
        sent = b"".join(event.SerializeToString() for event in events)
        assert len(sent) < 250_000
        assert [number for number in range(300) if f'big-gone-{number}"'.encode() not in sent] == []

    played(machine, story, group("big", max_slices=SLICES), inventory=AT_REST, ready_grace="1h")
