"""A slice starts, on a real server and with the simulated cloud: created once, refused, queued, ready."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from temporalio.api.enums.v1 import EventType

from penstock.contract import names
from penstock.model.failures import FailureKind, Phase
from penstock.model.slices import SliceState
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import SliceStage, played, reported

STARTED, CANCELED = EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_TIMER_CANCELED


def test_a_slice_is_created_once_and_becomes_ready_by_sightings(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(hosts=2)
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        await piece.see(Phase.BOOTING)
        await piece.see(Phase.RUNNING, hosts=piece.hosts())
        await piece.see_healthy()
        lifecycle = await piece.comes_to(SliceState.READY)
        assert [move.state for move in lifecycle.transitions] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]
        await reported(stage, lambda report: report.state is SliceState.READY and report.sequence == 3)
        assert [item["name"] for item in await stage.cloud.ever_made()] == [piece.name]

    played(machine, story)


def test_a_slice_begins_with_its_create_call(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        events = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in await piece.events()]
        done = events.index("WORKFLOW_TASK_COMPLETED")
        assert events[done + 1 : done + 3] == ["ACTIVITY_TASK_SCHEDULED", "TIMER_STARTED"]
        assert await stage.reports() == []

    played(machine, story)


def test_a_ready_slice_has_no_timer_and_no_activity_under_way(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        assert await piece.count(STARTED) == await piece.count(CANCELED)
        assert await piece.activities() == [names.CREATE]

    played(machine, story)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ({"stockout": True}, FailureKind.STOCKOUT),
        ({"quota": {"scope": "region", "limit": 0}}, FailureKind.QUOTA),
        ({"permission_denied": "project"}, FailureKind.PERMISSION),
        ({"invalid": True}, FailureKind.INVALID),
    ],
)
def test_a_refused_slice_ends_failed_and_leaves_nothing(machine: Machine, behaviour: dict[str, Any], kind: FailureKind) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.FAILED, kind)
        newest = max(await stage.reports(), key=lambda report: report.sequence)  # An older one may arrive after it.
        assert newest.state is SliceState.FAILED
        assert await stage.cloud.ever_made() == []

    played(machine, story, **behaviour)


def test_a_slice_of_an_unknown_provider_ends_failed(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        lifecycle = await (await stage.order(location=stage.location("nimbus"))).ended()
        assert lifecycle.state is SliceState.FAILED
        assert lifecycle.failure is not None
        assert "nimbus" in lifecycle.failure.message

    played(machine, story)


@asynccontextmanager
async def rate_limiting_cloud() -> AsyncIterator[str]:
    """A cloud that refuses the first create and accepts every later one."""
    refusal = {"error": {"code": "RATE_LIMITED", "message": "slow down", "retry_after": 0.1}}
    refusals = iter([refusal])

    async def create(request: web.Request) -> web.Response:
        if (refused := next(refusals, None)) is not None:
            return web.json_response(refused, status=429)
        order = await request.json()
        made = {"zone": request.match_info["zone"], "phase": "creating", "hosts": [], "created_at": "2026-01-01T00:00:00Z"}
        return web.json_response({"name": order["name"], "labels": order["labels"]} | made)

    app = web.Application()
    app.add_routes([web.post("/zones/{zone}/resources", create)])
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def test_a_rate_limited_create_is_reported_and_repeated(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        async with rate_limiting_cloud() as url:
            piece = await stage.order(location=stage.location(url=url))
            lifecycle = await piece.until(lambda lifecycle: lifecycle.create_accepted)
        limited = await reported(stage, lambda report: report.failure is not None)
        assert limited.failure is not None
        assert (limited.state, limited.failure.kind) == (SliceState.REQUESTING, FailureKind.RATE_LIMIT)
        assert (lifecycle.state, lifecycle.failure) == (SliceState.REQUESTING, None)
        assert await piece.activities() == [names.CREATE, names.CREATE]

    played(machine, story)


def test_a_queued_slice_reports_it_and_its_deadline_begins_anew_when_it_leaves_the_queue(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(queued=True)
        assert (await reported(stage, lambda report: report.queued)).state is SliceState.REQUESTING
        assert (await piece.count(STARTED), await piece.count(CANCELED)) == (1, 1)
        await piece.see(Phase.CREATING)
        lifecycle = await piece.until(lambda lifecycle: not lifecycle.queued)
        assert [move.why for move in lifecycle.transitions] == ["waits in the cloud's queue", "left the cloud's queue"]
        assert (await piece.count(STARTED), await piece.count(CANCELED)) == (2, 1)

    played(machine, story, hold_queue=True)


def test_a_lost_reply_is_adopted_and_not_doubled(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda lifecycle: lifecycle.create_accepted)
        assert [item["name"] for item in await stage.cloud.ever_made()] == [piece.name]

    played(machine, story, lost_replies=1)
