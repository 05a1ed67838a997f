"""Usage of one source: differences, a heartbeat, and everything once more if the autoscaler does not have it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

import penstock.client.reporter
from penstock.client import AutoscalerClient
from penstock.client.usage_messages import UsageMessages
from penstock.contract import names
from penstock.contract.answers import ClusterStatus, UsageStatus
from penstock.core.state.state import BEFORE_TIME


def test_only_what_changed_is_sent_and_confirmations_wait_until_they_are() -> None:
    messages = UsageMessages(epoch=1)
    messages.add({"a": "idle", "b": "busy"}, ["x"])
    messages.sent(dict(messages.waiting), ["x"], now=0.0)
    messages.add({"a": "idle", "b": "idle"}, ["y"])
    messages.add({"a": "idle", "b": "idle"}, ["z"])
    assert (messages.waiting, list(messages.confirmed)) == ({"b": "idle"}, ["y", "z"])


def test_a_slice_that_is_back_at_what_was_sent_is_no_news() -> None:
    messages = UsageMessages(epoch=1)
    messages.add({"a": "idle"}, [])
    messages.sent({"a": "idle"}, [], now=0.0)
    messages.add({"a": "busy"}, [])
    messages.add({"a": "idle"}, [])
    assert messages.waiting == {}
    assert messages.due_in(59.0, heartbeat=60.0) == 1.0
    assert messages.due_in(60.0, heartbeat=60.0) == 0.0


class Heard:
    """A workflow that keeps the reports it gets, and answers the status with the usage that it is said to have."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.usage: dict[str, UsageStatus] = {}

    async def signal(self, name: str, message: Any) -> None:
        assert name == names.REPORT
        self.reports.append(message)

    async def query(self, *_: Any, **__: Any) -> ClusterStatus:
        return ClusterStatus(cluster="c", version=1, usage=self.usage)


def test_a_reporter_of_usage_alone_notices_that_its_usage_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    client = AutoscalerClient(cast(Any, SimpleNamespace(get_workflow_handle=lambda _: heard)), "c")

    async def story() -> None:
        await client.usage({"a": "idle"})
        await client.usage({"a": "idle"})
        assert len(heard.reports) == 1
        monkeypatch.setattr(penstock.client.reporter, "CHECKED_AFTER_SECONDS", -1.0)
        await client.usage({"a": "idle"})
        again = heard.reports[-1]
        assert (len(heard.reports), again.usage) == (2, {"a": "idle"})
        heard.usage = {"default": UsageStatus(epoch=again.epoch, revision=again.revision, at=BEFORE_TIME, slices=1)}
        await client.usage({"a": "idle"})
        assert len(heard.reports) == 2

    asyncio.run(story())
