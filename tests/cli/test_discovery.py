"""Commands that wait for a worker which is no more."""

import asyncio
import re
import sys
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

from penstock.cli.connect import in_words
from penstock.cli.failures import EXIT_UNREACHABLE, CommandFailed
from penstock.cli.presence import not_connected, pollers

SECONDS = 60.0


class ServerThatLists:
    """A server that goes on listing a worker, which last asked for work some time ago."""

    def __init__(self, *ages: float) -> None:
        now = time.time()
        self.asked = [now - age for age in ages]

    async def describe_task_queue(self, _: DescribeTaskQueueRequest) -> DescribeTaskQueueResponse:
        listed: list[Any] = [PollerInfo() for _ in self.asked]
        for poller, moment in zip(listed, self.asked, strict=True):
            poller.last_access_time.FromNanoseconds(int(moment * 1e9))
        return DescribeTaskQueueResponse(pollers=listed)

    @property
    def client(self) -> Client:
        service = SimpleNamespace(config=SimpleNamespace(target_host="there:7233"))
        return cast(Client, SimpleNamespace(namespace="default", workflow_service=self, service_client=service))


def test_a_worker_that_has_not_asked_for_longer_than_a_poll_lasts_is_gone() -> None:
    assert len(asyncio.run(pollers(ServerThatLists(1, 59, 75, 200).client))) == 2


def test_a_command_ends_soon_after_the_last_worker_is_taken_for_gone() -> None:
    """At the first look the worker may still be there."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS), in_words(ServerThatLists(65).client, 10 * SECONDS):
            await asyncio.Event().wait()

    with pytest.raises(CommandFailed) as told:
        asyncio.run(story())
    assert (told.value.code, "no worker runs" in told.value.message) == (EXIT_UNREACHABLE, True)


@pytest.mark.parametrize("at_terminal", [True, False])
def test_whoever_waits_at_a_terminal_is_told_once_what_for(
    at_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)
        async with asyncio.timeout(SECONDS), in_words(ServerThatLists(63).client, 10 * SECONDS):
            await asyncio.Event().wait()

    with pytest.raises(CommandFailed):
        asyncio.run(story())
    seen = capsys.readouterr()
    told = "waiting for a worker's answer: the last one asked for work … s ago; one that ended is missed after 70 s\n"
    assert (seen.out, re.sub(r"\d+ s ago", "… s ago", seen.err)) == ("", told if at_terminal else "")


@pytest.mark.parametrize(
    ("account", "told"),
    [
        (
            'Server connection error: Transport(ConnectError("tcp", Os { code: 111, message: "Connection refused" }))',
            "Connection refused",
        ),
        ('Connect { error: "failed to lookup: Name not known" }', "failed to lookup: Name not known"),
        ("Connect { error: InvalidMessage(InvalidContentType) }", "invalid message: invalid content type"),
        ('call error after connection: Status { code: Unauthenticated, message: "no key", source: None }', "no key"),
        ("connection timed out", "connection timed out"),
    ],
)
def test_a_failed_connection_is_told_in_one_sentence(account: str, told: str) -> None:
    assert not_connected("there:1", account, tls=False).message == f"no Temporal server answers at there:1 ({told})"
