"""The life of a slice on a real server, with the simulated cloud."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from temporalio.api.enums.v1 import EventType
from temporalio.common import SearchAttributeKey

from penstock.contract import names
from penstock.contract.lives import CancelDrainLetter, EmptyLetter, ReportLetter, SliceReport
from penstock.model.failures import FailureKind, Phase
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.service.machine import Machine
from tests.service.slice_stage import READY, SliceStage, slice_stage
from tests.service.stage import SECONDS

FOR_EVER = "1h"
STATE = SearchAttributeKey.for_keyword(names.STATE_ATTRIBUTE)
STARTED, CANCELED = EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_TIMER_CANCELED


def played(machine: Machine, story: Callable[[SliceStage], Awaitable[None]], *, box: bool = True, **behaviour: Any) -> None:
    async def play() -> None:
        async with slice_stage(machine, box=box, **behaviour) as stage:
            await story(stage)

    asyncio.run(play())


async def reported(stage: SliceStage, holds: Callable[[SliceReport], object]) -> SliceReport:
    """A report that the autoscaler got."""
    found = await until(stage.reports, lambda reports: any(map(holds, reports)), seconds=SECONDS)
    return next(filter(holds, found))


def test_a_slice_is_created_once_and_becomes_ready_by_what_is_seen(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(hosts=2)
        await piece.until(lambda life: life.created)
        await piece.see(Phase.BOOTING)
        await piece.see(Phase.RUNNING, addressed=True)
        await piece.see(**READY)
        life = await piece.comes_to(SliceState.READY)
        assert [move.state for move in life.moves] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]
        await reported(stage, lambda report: report.state is SliceState.READY and report.sequence == 3)
        assert [item["name"] for item in await stage.cloud.ever_made()] == [piece.name]

    played(machine, story)


def test_the_create_call_is_the_first_thing_a_slice_does(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda life: life.created)
        events = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in await piece.events()]
        done = events.index("WORKFLOW_TASK_COMPLETED")
        assert events[done + 1 : done + 3] == ["ACTIVITY_TASK_SCHEDULED", "TIMER_STARTED"]
        assert await stage.reports() == []

    played(machine, story)


def test_a_ready_slice_has_no_timer_and_no_activity_under_way(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda life: life.reported == life.sequence)
        assert await piece.count(STARTED) == await piece.count(CANCELED)
        assert await piece.activities() == [names.CREATE]

    played(machine, story)


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ({"stockout": True}, FailureKind.STOCKOUT),
        ({"quota": {"scope": "region", "limit": 0}}, FailureKind.QUOTA),
        ({"permission_denied": "project"}, FailureKind.PERMISSION),
        ({"invalid": True}, FailureKind.INVALID),
    ],
)
def test_a_refused_slice_ends_failed_and_leaves_nothing(machine: Machine, trouble: dict[str, Any], kind: FailureKind) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.FAILED, kind)
        assert (await stage.reports())[-1].state is SliceState.FAILED
        assert await stage.cloud.ever_made() == []

    played(machine, story, **trouble)


def test_a_slice_of_an_unknown_provider_ends_failed(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        life = await (await stage.order(provider="nimbus")).ended()
        assert life.state is SliceState.FAILED
        assert life.failure is not None
        assert "nimbus" in life.failure.message

    played(machine, story)


@asynccontextmanager
async def cloud_that_is_asked_too_often() -> AsyncIterator[str]:
    """A cloud that refuses the first create and takes every later one."""
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


def test_a_rate_limited_create_is_reported_and_asked_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        async with cloud_that_is_asked_too_often() as url:
            piece = await stage.order(settings={"url": url})
            life = await piece.until(lambda life: life.created)
        limited = await reported(stage, lambda report: report.failure is not None)
        assert limited.failure is not None
        assert (limited.state, limited.failure.kind) == (SliceState.REQUESTING, FailureKind.RATE_LIMIT)
        assert (life.state, life.failure) == (SliceState.REQUESTING, None)
        assert await piece.activities() == [names.CREATE, names.CREATE]

    played(machine, story)


def test_a_queued_slice_says_so_and_its_deadline_begins_anew_when_it_leaves_the_queue(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(queued=True)
        assert (await reported(stage, lambda report: report.queued)).state is SliceState.REQUESTING
        assert (await piece.count(STARTED), await piece.count(CANCELED)) == (1, 1)
        await piece.see(Phase.CREATING)
        life = await piece.until(lambda life: not life.queued)
        assert [move.why for move in life.moves] == ["waits in the cloud's queue", "left the cloud's queue"]
        assert (await piece.count(STARTED), await piece.count(CANCELED)) == (2, 1)

    played(machine, story, hold_queue=True)


def test_a_lost_reply_is_adopted_and_not_doubled(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.until(lambda life: life.created)
        assert [item["name"] for item in await stage.cloud.ever_made()] == [piece.name]

    played(machine, story, lost_replies=1)


@pytest.mark.parametrize("how", ["cancelled", "deleted", "drained"])
def test_a_slice_not_wanted_while_it_is_created_is_deleted_once_the_call_is_back(machine: Machine, how: str) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await until(stage.cloud.ever_made, bool, seconds=SECONDS)
        match how:
            case "cancelled":
                await piece.handle.cancel()
            case "deleted":
                await piece.delete("deleted")
            case "drained":
                await piece.drain("drained")
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.TERMINATED, how)
        assert await piece.activities() == [names.CREATE, names.DELETE]
        assert len(await stage.cloud.ever_made()) == 1
        assert await stage.cloud.existing() == []

    played(machine, story, reply_latency="1s")


def test_cancelling_a_ready_slice_deletes_it(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_drained_slice_goes_when_it_is_empty(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain("idle")
        await reported(stage, lambda report: report.state is SliceState.DRAINING and report.cause == "idle")
        await piece.tell(EmptyLetter(slice_id=piece.spec.slice_id))
        life = await piece.ended()
        assert (life.state, life.cause, life.confirmed) == (SliceState.TERMINATED, "idle", True)
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_slice_whose_drain_is_cancelled_serves_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain()
        await piece.tell(CancelDrainLetter(slice_id=piece.spec.slice_id))
        life = await piece.until(lambda life: life.moves[-1].why == "told to serve again")
        assert (life.state, life.drain, life.cause) == (SliceState.READY, None, "")

    played(machine, story)


def test_a_slice_that_is_not_empty_at_the_deadline_serves_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"drain": "500ms"})
        await piece.make_ready()
        await piece.drain()
        life = await piece.until(lambda life: life.moves[-1].why == "not empty within 0.5s")
        assert (life.state, life.drain, life.cause) == (SliceState.READY, None, "")
        assert len(await stage.cloud.existing()) == 1

    played(machine, story)


def test_a_forced_drain_deletes_at_its_deadline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"drain": "1s"})
        await piece.make_ready()
        await piece.drain("the cluster is deleted")
        await piece.drain("the cluster is deleted now", force=True)
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.TERMINATED, "the cluster is deleted now")
        assert await stage.cloud.existing() == []

    played(machine, story)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ({"phase": Phase.PREEMPTED}, FailureKind.PREEMPTED),
        ({"phase": Phase.GONE}, FailureKind.GONE),
        ({"phase": Phase.RUNNING, "addressed": True, "silent_hosts": (0,)}, FailureKind.HOST_LOST),
    ],
)
def test_a_lost_slice_ends_failed_with_its_cause(machine: Machine, seen: dict[str, Any], kind: FailureKind) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.see(**seen)
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.FAILED, kind)
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_deletes_that_fail_and_take_their_time_are_repeated_until_it_is_gone(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.delete()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert await stage.cloud.existing() == []
        assert (await piece.activities()).count(names.DELETE) > 1

    played(machine, story, failing_deletes=1, delete_latency="500ms")


@pytest.mark.parametrize(
    ("state", "latency", "kind"),
    [
        (SliceState.REQUESTING, "create_latency", FailureKind.REQUESTING_TIMEOUT),
        (SliceState.BOOTING, "boot_latency", FailureKind.BOOT_TIMEOUT),
        (SliceState.INITIALIZING, "init_latency", FailureKind.INIT_TIMEOUT),
    ],
)
def test_a_slice_that_stays_too_long_on_its_way_is_given_up(
    machine: Machine, state: SliceState, latency: str, kind: FailureKind
) -> None:
    async def story(stage: SliceStage) -> None:
        await stage.cloud.behave(**{latency: FOR_EVER})
        piece = await stage.found(state, timeouts=dict.fromkeys(("requesting", "boot", "init"), "200ms"))
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.FAILED, kind)
        assert await piece.activities() == [names.OBSERVE, names.DELETE]
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_create_that_never_answers_is_given_up_at_the_deadline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(settings={"url": "http://127.0.0.1:9"}, timeouts={"requesting": "500ms"})
        report = await reported(stage, lambda report: report.failure is not None)
        assert (report.state, report.cause) == (SliceState.DELETING, FailureKind.REQUESTING_TIMEOUT)
        assert names.OBSERVE not in await piece.activities()

    played(machine, story)


def test_what_the_last_look_shows_counts(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.REQUESTING, timeouts={"requesting": "200ms"})
        life = await piece.comes_to(SliceState.READY)
        assert [move.state for move in life.moves] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]

    played(machine, story)


def test_without_an_autoscaler_a_slice_keeps_its_state_and_reports_when_there_is_one(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        failed = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
        await until(piece.events, lambda events: any(event.event_type == failed for event in events), seconds=SECONDS)
        life = await piece.life()
        assert (life.state, life.reported) == (SliceState.READY, 0)
        await stage.open_box()
        report = await reported(stage, lambda report: report.state is SliceState.READY)
        assert report.sequence == life.sequence
        await piece.until(lambda life: life.reported == life.sequence)

    played(machine, story, box=False)


def test_an_ended_slice_without_an_autoscaler_waits_for_one_until_it_is_cancelled(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.comes_to(SliceState.FAILED)
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.FAILED

    played(machine, story, box=False, stockout=True)


def test_a_cancelled_slice_without_an_autoscaler_can_be_cancelled_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        first = (await piece.handle.describe()).run_id
        await piece.handle.cancel()

        async def run() -> str:
            return (await piece.handle.describe()).run_id

        await until(run, lambda now: now != first, seconds=SECONDS)
        assert (await piece.life()).state is SliceState.TERMINATED
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert await stage.cloud.existing() == []

    played(machine, story, box=False)


def test_a_slice_says_again_where_it_is_when_it_is_asked(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda life: life.reported == life.sequence)
        before = len(await stage.reports())
        await piece.tell(ReportLetter(slice_id=piece.spec.slice_id))
        reports = await until(stage.reports, lambda reports: len(reports) > before, seconds=SECONDS)
        assert reports[-1] == reports[-2]

    played(machine, story)


def test_an_adopted_slice_reports_at_once_and_is_not_created_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.READY, sequence=7)
        assert (await reported(stage, lambda report: report.sequence == 7)).state is SliceState.READY
        assert await piece.activities() == []
        await piece.delete()
        assert (await piece.ended()).sequence == 9
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_an_adopted_slice_that_nobody_wants_is_deleted(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.DELETING, cause="nobody's")
        life = await piece.ended()
        assert (life.state, life.cause) == (SliceState.TERMINATED, "nobody's")
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_messages_that_cannot_be_read_change_nothing(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        for nonsense in ("?", {"phase": "melted"}, None, [1]):
            await piece.handle.signal(names.SEEN, nonsense)
            await piece.handle.signal(names.LETTER, nonsense)
        await piece.handle.signal(names.LETTER, {"kind": "delete", "slice_id": "another", "cause": "a mistake"})
        assert (await piece.make_ready()).cause == ""

    played(machine, story)


def test_the_life_goes_on_over_many_runs(machine_of_short_runs: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda life: life.reported == life.sequence)
        first = (await piece.handle.describe()).run_id

        async def run_after_a_look() -> str:
            await piece.see(**READY)
            return (await piece.handle.describe()).run_id

        await until(run_after_a_look, lambda run: run != first, seconds=SECONDS)
        life = await piece.life()
        assert (life.state, life.sequence, life.reported) == (SliceState.READY, 3, 3)
        assert [move.state for move in life.moves] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]
        assert (await piece.handle.describe()).typed_search_attributes[STATE] == SliceState.READY
        await piece.delete()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert (await stage.reports())[-1].sequence == 5
        assert len(await stage.cloud.ever_made()) == 1

    played(machine_of_short_runs, story)


def test_people_find_a_slice_by_state_and_cause_and_read_its_timeline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain("idle")
        await piece.until(lambda life: life.reported == life.sequence)
        query = f"PenstockState = 'DRAINING' AND PenstockCause = 'idle' AND WorkflowId = '{piece.handle.id}'"

        async def found() -> list[str]:
            return [each.id async for each in stage.client.list_workflows(query)]

        await until(found, bool, seconds=SECONDS)
        metadata = await piece.handle.query("__temporal_workflow_metadata")
        assert "| DRAINING | idle |" in str(metadata)

    played(machine, story)
