"""A slice ends: drained, no longer wanted, lost, or overdue."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationErrorCategory
from temporalio.worker import Worker

from penstock.contract import names
from penstock.contract.slices import CancelDrainCommand, ConfirmEmptyCommand, DrainCommand, SliceLifecycle
from penstock.model.failures import FailureKind, Phase
from penstock.model.slices import DrainTerms, SliceState
from tests.activities.waiting import until
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import SliceStage, played, reported
from tests.workflows.stage import SECONDS
from workflows.policies import LAST_LOOK
from workflows.slice_lifecycle import SliceLifecycleWorkflow

FOR_EVER = "1h"


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
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.TERMINATED, how)
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


def test_a_drained_slice_is_deleted_when_it_is_empty(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain("idle")
        await reported(stage, lambda report: report.state is SliceState.DRAINING and report.cause == "idle")
        await piece.send(ConfirmEmptyCommand(slice_id=piece.spec.slice_id))
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.TERMINATED, "idle")
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_slice_whose_drain_is_cancelled_serves_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain()
        await piece.send(CancelDrainCommand(slice_id=piece.spec.slice_id))
        lifecycle = await piece.until(lambda lifecycle: lifecycle.transitions[-1].why == "drain cancelled")
        assert (lifecycle.state, lifecycle.drain, lifecycle.cause) == (SliceState.READY, None, "")

    played(machine, story)


def test_a_slice_that_is_not_empty_at_the_deadline_serves_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"drain": "500ms"})
        await piece.make_ready()
        await piece.drain()
        lifecycle = await piece.until(lambda lifecycle: lifecycle.transitions[-1].why == "not empty within 0.5s")
        assert (lifecycle.state, lifecycle.drain, lifecycle.cause) == (SliceState.READY, None, "")
        assert len(await stage.cloud.existing()) == 1

    played(machine, story)


def test_a_forced_drain_deletes_at_its_deadline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(timeouts={"drain": "1s"})
        await piece.make_ready()
        await piece.drain("the cluster is deleted")
        await piece.drain("the cluster is deleted now", force=True)
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.TERMINATED, "the cluster is deleted now")
        assert await stage.cloud.existing() == []

    played(machine, story)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ({"phase": Phase.PREEMPTED}, FailureKind.PREEMPTED),
        ({"phase": Phase.GONE}, FailureKind.GONE),
        ({"phase": Phase.RUNNING, "lost_hosts": (0,)}, FailureKind.HOST_LOST),
    ],
)
def test_a_lost_slice_ends_failed_with_its_cause(machine: Machine, seen: dict[str, Any], kind: FailureKind) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.see(**seen, hosts=piece.hosts() if "lost_hosts" in seen else ())
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.FAILED, kind)
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_failed_slice_is_a_failed_workflow_with_its_cause_and_its_lifecycle(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.see(Phase.PREEMPTED)
        failure = await piece.failure()
        assert (failure.message, failure.type) == ("preempted: the cloud took it back", FailureKind.PREEMPTED)
        assert failure.category is ApplicationErrorCategory.BENIGN
        assert SliceLifecycle.model_validate(failure.details[0]) == await piece.lifecycle()
        assert (await piece.handle.describe()).status is WorkflowExecutionStatus.FAILED

    played(machine, story)


def test_a_terminated_slice_is_a_completed_workflow(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.delete()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert (await piece.handle.describe()).status is WorkflowExecutionStatus.COMPLETED

    played(machine, story)


def test_deletes_that_fail_or_take_long_are_repeated_until_the_slice_is_gone(machine: Machine) -> None:
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
def test_a_slice_that_starts_for_too_long_fails(machine: Machine, state: SliceState, latency: str, kind: FailureKind) -> None:
    async def story(stage: SliceStage) -> None:
        await stage.cloud.behave(**{latency: FOR_EVER})
        piece = await stage.found(state, timeouts=dict.fromkeys(("requesting", "boot", "init"), "200ms"))
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.FAILED, kind)
        assert await piece.activities() == [names.OBSERVE, names.DELETE]
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_create_call_that_never_answers_fails_at_the_deadline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(location=stage.location(url="http://127.0.0.1:9"), timeouts={"requesting": "500ms"})
        report = await reported(stage, lambda report: report.failure is not None)
        assert (report.state, report.cause) == (SliceState.DELETING, FailureKind.REQUESTING_TIMEOUT)
        assert names.OBSERVE not in await piece.activities()

    played(machine, story)


def test_a_slice_that_the_last_look_shows_ready_is_not_overdue(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.REQUESTING, timeouts={"requesting": "200ms"})
        lifecycle = await piece.comes_to(SliceState.READY)
        assert [move.state for move in lifecycle.transitions] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]

    played(machine, story)


def test_the_last_look_ends_even_if_the_cloud_never_answers(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(
            SliceState.BOOTING, location=stage.location(url="http://127.0.0.1:9"), timeouts={"boot": "200ms"}
        )
        looks = await until(lambda: piece.scheduled(names.OBSERVE), bool, seconds=SECONDS)
        assert [look.schedule_to_close_timeout.ToTimedelta() for look in looks] == [LAST_LOOK]

    played(machine, story)


@pytest.mark.parametrize(("first", "second"), [(1.0, 3.0), (3600.0, 1.0)])
def test_a_drain_that_replaces_another_ends_at_its_own_deadline(machine: Machine, first: float, second: float) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.begin(stage.spec(), state=SliceState.READY, create_accepted=True)
        begun = datetime.now(UTC)
        ends = {number: begun + timedelta(seconds=seconds) for number, seconds in ((1, first), (2, second))}
        for number, cause in ((1, "idle"), (2, "operator")):
            terms = DrainTerms(cause=cause, number=number, force=cause == "operator", deadline=ends[number])
            await piece.send(DrainCommand(slice_id=piece.spec.slice_id, terms=terms))
            await piece.until(lambda lifecycle: lifecycle.cause == cause)  # noqa: B023 - awaited in this iteration
        lifecycle = await piece.ended()
        idle, operator, deleting, _ = lifecycle.transitions[-4:]
        assert [line.state for line in (idle, operator, deleting)] == [SliceState.DRAINING] * 2 + [SliceState.DELETING]
        assert (deleting.at - ends[2]).total_seconds() >= -0.01
        assert lifecycle.cause == "operator"

    played(machine, story)


def test_a_drain_that_is_cancelled_and_ordered_again_at_once_has_a_new_deadline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        queue, seconds = f"own-{stage.cluster}", 2.0
        spec = stage.spec(timeouts={"drain": seconds})
        async with Worker(stage.client, task_queue=queue, workflows=[SliceLifecycleWorkflow]):
            piece = await stage.begin(spec, state=SliceState.READY, create_accepted=True, task_queue=queue)
            await piece.drain("first")
            await until(lambda: piece.count(EventType.EVENT_TYPE_TIMER_STARTED), lambda timers: timers == 1, seconds=SECONDS)
        await piece.send(CancelDrainCommand(slice_id=piece.spec.slice_id))
        await piece.drain("second")
        async with Worker(stage.client, task_queue=queue, workflows=[SliceLifecycleWorkflow]):
            lifecycle = await piece.until(lambda lifecycle: lifecycle.transitions[-1].why == "not empty within 2s")
        begun, ended = lifecycle.transitions[-2:]
        assert (begun.state, begun.why, ended.state) == (SliceState.DRAINING, "second", SliceState.READY)
        assert (ended.at - begun.at).total_seconds() >= seconds - 0.01
        assert await piece.count(EventType.EVENT_TYPE_TIMER_STARTED) == 2

    played(machine, story)
