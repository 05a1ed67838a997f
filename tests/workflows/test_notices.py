"""What a cloud announces for a slice reaches everybody who asks, on a real server and with the simulated cloud."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.contract.answers import ClusterStatus
from penstock.model.failures import Notice, NoticeKind, Phase
from penstock.model.slices import Slice
from tests.cli.running import Commands
from tests.workflows import slice_stage
from tests.workflows.ledgers import name_of
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import SliceStage
from tests.workflows.stage import Stage, group
from tests.workflows.test_demand import played, ready

LONG: dict[str, Any] = {"min_slices": 1, "max_slices": 1, "idle_timeout": "1h", "timeouts": {"drain": "1h"}}


def hence(hours: float, kind: NoticeKind = NoticeKind.MAINTENANCE) -> Notice:
    return Notice(kind=kind, until=datetime.now(UTC) + timedelta(hours=hours))


async def noticed(stage: Stage, slice_id: str, notice: Notice | None) -> Slice:
    """The slice once the answer to the client shows the notice."""

    async def look() -> Slice:
        return next(piece for piece in (await stage.autoscaler.slices()).slices if piece.id == slice_id)

    return await stage.eventually(look, lambda piece: piece.notice == notice)


async def one_ready(stage: Stage) -> Slice:
    await ready(stage, "small", 1)
    (piece,) = (await stage.autoscaler.slices()).slices
    await stage.autoscaler.usage({piece.id: "busy"})
    return piece


def listed(status: ClusterStatus) -> list[tuple[str, NoticeKind, datetime]]:
    return [(notice.slice_id, notice.kind, notice.until) for notice in status.notices]


def test_a_notice_reaches_the_client_the_commands_and_the_slice_and_goes_when_it_is_taken_back(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        piece = await one_ready(stage)
        maintenance = hence(2)
        await stage.cloud.announce(name_of(stage, piece), maintenance)
        await noticed(stage, piece.id, maintenance)
        status = await stage.autoscaler.status()
        assert listed(status) == [(piece.id, NoticeKind.MAINTENANCE, maintenance.until)]
        lifecycle = await stage.autoscaler.lifecycle(piece.id)
        assert lifecycle.notice == maintenance
        told = [line.why for line in lifecycle.transitions if line.why.startswith("the cloud announces")]
        assert told == [f"the cloud announces maintenance at {maintenance.until:%Y-%m-%d %H:%M:%S}Z"]

        penstock, where = Commands(stage.machine.environment), ("--cluster", stage.cluster)
        shown = await asyncio.to_thread(penstock.json, "slices", *where)
        assert [Notice.model_validate(each["notice"]) for each in shown["slices"] if each["id"] == piece.id] == [maintenance]
        for command in (("slices",), ("slice", piece.id), ("status",)):
            done = await asyncio.to_thread(penstock, *command, *where)
            assert "maintenance" in done.stdout, done.stdout + done.stderr

        await stage.cloud.announce(name_of(stage, piece), None)
        await noticed(stage, piece.id, None)
        assert (await stage.autoscaler.status()).notices_in_all == 0

    played(machine, story, group(**LONG))


def test_a_worker_that_is_killed_loses_no_notice_and_the_next_one_sees_what_came_meanwhile(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        piece = await one_ready(stage)
        worker, before, meanwhile = stage.machine.worker, hence(2), hence(3, NoticeKind.RESERVATION_END)
        assert worker is not None
        await stage.cloud.announce(name_of(stage, piece), before)
        await noticed(stage, piece.id, before)
        worker.kill()
        await stage.cloud.announce(name_of(stage, piece), meanwhile)
        await stage.machine.revive_worker()
        page = await stage.autoscaler.slices()
        assert next(each.notice for each in page.slices if each.id == piece.id) in (before, meanwhile)
        await noticed(stage, piece.id, meanwhile)
        lifecycle = await stage.autoscaler.lifecycle(piece.id)
        told = [line.why.partition(" at ")[0] for line in lifecycle.transitions if line.why.startswith("the cloud announces")]
        assert told == ["the cloud announces maintenance", "the cloud announces the end of its reservation"]

    played(machine, story, group(**LONG))


def test_a_slice_keeps_its_notice_when_its_workflow_continues_as_new(machine_of_short_runs: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        run, maintenance = (await piece.handle.describe()).run_id, hence(1)
        await piece.see(Phase.RUNNING, hosts=piece.hosts(healthy=True), notice=maintenance)
        await piece.until(lambda lifecycle: lifecycle.notice == maintenance)
        for first in range(2, 12):
            await piece.see(Phase.RUNNING, hosts=piece.hosts(healthy=True, first=first), notice=maintenance)
            await piece.until(lambda lifecycle, first=first: lifecycle.hosts[0].address == f"10.0.0.{first}")  # type: ignore[misc]
        assert (await piece.handle.describe()).run_id != run
        assert (await piece.lifecycle()).notice == maintenance
        reports = await stage.reports()
        assert reports[-1].notice == maintenance

    slice_stage.played(machine_of_short_runs, story)
