"""Calls of the client to a workflow whose worker misbehaves."""

import asyncio
import uuid
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, RespondWorkflowTaskCompletedRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from penstock.client import ErrorCode, Refused
from penstock.client import calls as calls_module
from penstock.client.calls import TRIES, Calls
from penstock.contract.answers import Done
from penstock.contract.error_codes import with_code
from penstock.contract.names import DECISION, PAUSE, autoscaler_id
from tests.workflows.machine import Machine

RETRIED_SECONDS = 15.0
"""The SDK itself repeats a refused call for ten seconds."""


@workflow.defn
class Pausable:
    """Answers one update, and waits for more."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.query(name=DECISION)
    def decision(self) -> None:
        raise ApplicationError(with_code(ErrorCode.CLUSTER_TOO_LARGE, "it would take too long"))

    @workflow.update(name=PAUSE)
    def pause(self, _message: dict[str, str]) -> Done:
        return Done(message="paused", config_revision=7)


async def answer_nothing(client: Client, queue: str) -> None:
    """Take one workflow task as a worker does, and complete it without an answer to the update that came with it."""
    name = TaskQueue(name=queue)
    task = await client.workflow_service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(namespace=client.namespace, task_queue=name, identity="careless")
    )
    await client.workflow_service.respond_workflow_task_completed(
        RespondWorkflowTaskCompletedRequest(namespace=client.namespace, task_token=task.task_token, identity="careless")
    )


def test_more_updates_than_the_server_takes_at_once_are_all_answered(machine: Machine) -> None:
    """Two clients send 60 while no worker runs: the server takes ten of them."""

    async def story() -> None:
        client, name = await machine.client(), f"c{uuid.uuid4().hex[:8]}"
        handle = await client.start_workflow(Pausable.run, id=autoscaler_id(name), task_queue=name)
        clients = [Calls(client, name) for _ in range(2)]
        sent = [asyncio.create_task(calls.update(PAUSE, {}, Done)) for calls in clients for _ in range(30)]
        refused, _ = await asyncio.wait(sent, timeout=RETRIED_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert not refused
        async with Worker(client, task_queue=name, workflows=[Pausable], workflow_runner=UnsandboxedWorkflowRunner()):
            answers = await asyncio.gather(*sent)
            assert [answer.config_revision for answer in answers] == [7] * 60
            await handle.terminate()

    asyncio.run(story())


def test_an_update_that_no_workflow_received_is_sent_again(machine: Machine) -> None:
    async def story() -> None:
        client, name = await machine.client(), f"c{uuid.uuid4().hex[:8]}"
        handle = await client.start_workflow(Pausable.run, id=autoscaler_id(name), task_queue=name)
        await answer_nothing(client, name)
        paused = asyncio.create_task(Calls(client, name).update(PAUSE, {}, Done))
        await answer_nothing(client, name)
        async with Worker(client, task_queue=name, workflows=[Pausable], workflow_runner=UnsandboxedWorkflowRunner()):
            assert (await paused).config_revision == 7
            await handle.terminate()

    asyncio.run(story())


def test_the_error_of_a_query_keeps_the_code_that_the_workflow_gave_it(machine: Machine) -> None:
    async def story() -> None:
        client, name = await machine.client(), f"c{uuid.uuid4().hex[:8]}"
        handle = await client.start_workflow(Pausable.run, id=autoscaler_id(name), task_queue=name)
        async with Worker(client, task_queue=name, workflows=[Pausable], workflow_runner=UnsandboxedWorkflowRunner()):
            with pytest.raises(Refused, match=r"^it would take too long") as refused:
                await Calls(client, name).query(DECISION, Done)
            await handle.terminate()
        assert refused.value.code is ErrorCode.CLUSTER_TOO_LARGE

    asyncio.run(story())


def test_a_query_that_the_server_has_no_room_for_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "LONGEST_PAUSE_SECONDS", 0.0)
    full = RPCError("consistent query buffer is full, this may be caused by …", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
    answers: list[object] = [full] * (3 * TRIES)

    class Busy:
        async def query(self, *_: object, **__: object) -> object:
            if answers:
                raise full
            return "done"

    client = cast(Client, SimpleNamespace(get_workflow_handle=lambda _: Busy()))

    async def ask() -> str:
        asked = asyncio.create_task(Calls(client, "c").query(DECISION, str))
        while answers and not asked.done():
            answers.pop()
            await asyncio.sleep(0)
        return await asked

    assert asyncio.run(ask()) == "done"


def test_a_query_that_is_answered_from_an_old_run_does_not_keep_the_caller_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that waits for a run's last task is answered from its whole history; asked again, it reaches the next run."""
    monkeypatch.setattr(calls_module, "ASK_AGAIN_SECONDS", 0.01)
    given_up: list[int] = []

    class Replaying:
        asked = 0

        async def query(self, *_: object, **__: object) -> object:
            self.asked += 1
            number = self.asked
            if number == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    given_up.append(number)
            return number

    handle = Replaying()
    client = cast(Client, SimpleNamespace(get_workflow_handle=lambda _: handle))

    assert asyncio.run(asyncio.wait_for(Calls(client, "c").query(DECISION, int), RETRIED_SECONDS)) == 2
    assert given_up == [1]


def test_a_query_asked_twice_fails_only_if_both_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "ASK_AGAIN_SECONDS", 0.01)
    refused = RPCError("no poller seen for the task queue", RPCStatusCode.FAILED_PRECONDITION, b"")

    async def ask(outcomes: list[object]) -> object:
        """The first query ends after the second has begun, the second after the first has ended."""
        asked_again, first_over = asyncio.Event(), asyncio.Event()

        class Slow:
            async def query(self, *_: object, **__: object) -> object:
                outcome, first = outcomes.pop(0), not asked_again.is_set() and len(outcomes) == 1
                if first:
                    await asked_again.wait()
                    first_over.set()
                else:
                    asked_again.set()
                    await first_over.wait()
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

        handle = Slow()
        client = cast(Client, SimpleNamespace(get_workflow_handle=lambda _: handle))
        return await Calls(client, "c").query(DECISION, str)

    assert asyncio.run(ask([refused, "second"])) == "second"
    assert asyncio.run(ask(["first", refused])) == "first"
    with pytest.raises(RPCError, match="no poller"):
        asyncio.run(ask([refused, refused]))


def test_an_update_without_an_answer_ends_at_the_callers_deadline_or_when_the_caller_is_cancelled(machine: Machine) -> None:
    async def story() -> None:
        client, name = await machine.client(), f"c{uuid.uuid4().hex[:8]}"
        handle = await client.start_workflow(Pausable.run, id=autoscaler_id(name), task_queue=name)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await Calls(client, name).update(PAUSE, {}, Done)
        paused = asyncio.create_task(Calls(client, name).update(PAUSE, {}, Done))
        await asyncio.wait([paused], timeout=1)
        paused.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paused
        await handle.terminate()

    asyncio.run(story())
