"""Discovery of workers, and commands whose worker has ended."""

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

import penstock.cli.connect
from penstock.cli.connect import failures_in_words
from penstock.cli.discovery import not_connected, pollers
from penstock.cli.failures import EXIT_UNREACHABLE, CommandFailed
from penstock.contract.error_codes import ErrorCode

SECONDS = 60.0


class ServerThatLists:
    """A server that lists workers, each of which last polled so many seconds ago, and after `checks` requests none."""

    def __init__(self, *ages: float, checks: int | None = None) -> None:
        now = time.time()
        self.polled = [now - age for age in ages]
        self.checks = checks

    async def describe_task_queue(self, _: DescribeTaskQueueRequest) -> DescribeTaskQueueResponse:
        if self.checks == 0:
            return DescribeTaskQueueResponse()
        self.checks = None if self.checks is None else self.checks - 1
        listed: list[Any] = [PollerInfo(identity=f"{number}@there") for number in range(len(self.polled))]
        for poller, moment in zip(listed, self.polled, strict=True):
            poller.last_access_time.FromNanoseconds(int(moment * 1e9))
        return DescribeTaskQueueResponse(pollers=listed)

    @property
    def client(self) -> Client:
        service = SimpleNamespace(config=SimpleNamespace(target_host="there:7233"))
        return cast(Client, SimpleNamespace(namespace="default", workflow_service=self, service_client=service))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands check at once, and again soon, whether a worker runs."""
    monkeypatch.setattr(penstock.cli.connect, "_SUSPICIOUS_SECONDS", 0.01)


def test_a_worker_that_has_not_polled_for_longer_than_a_poll_lasts_has_ended() -> None:
    assert len(asyncio.run(pollers(ServerThatLists(1, 59, 75, 200).client))) == 2


@pytest.mark.usefixtures("hasty")
def test_a_command_ends_soon_after_the_last_worker_has_ended() -> None:
    """At the first checks the worker is still listed."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS), failures_in_words(ServerThatLists(1, checks=3).client, 10 * SECONDS):
            await asyncio.Event().wait()

    with pytest.raises(CommandFailed) as failed:
        asyncio.run(story())
    assert (failed.value.code, failed.value.exit_code) == (ErrorCode.NO_WORKER, EXIT_UNREACHABLE)
    assert "no worker runs" in failed.value.message


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("at_terminal", [True, False])
def test_on_a_terminal_a_command_says_once_that_it_waits(
    at_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)
        async with asyncio.timeout(SECONDS), failures_in_words(ServerThatLists(1, checks=3).client, 10 * SECONDS):
            await asyncio.Event().wait()

    with pytest.raises(CommandFailed):
        asyncio.run(story())
    seen = capsys.readouterr()
    waiting = "waiting for an answer: the last worker polled … s ago; a worker that ended is noticed after 70 s\n"
    assert (seen.out, re.sub(r"\d+ s ago", "… s ago", seen.err)) == ("", waiting if at_terminal else "")


@pytest.mark.parametrize(
    ("error", "sentence"),
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
def test_a_failed_connection_is_described_in_one_sentence(error: str, sentence: str) -> None:
    assert not_connected("there:1", error, tls=False).message == f"no Temporal server answers at there:1 ({sentence})"
