"""Usage of one source: differences, a heartbeat, and everything once more if the autoscaler does not have it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

import penstock.client.reporter
from penstock.client import AutoscalerClient, Refused
from penstock.client.usage_messages import UsageMessages
from penstock.contract import names
from penstock.contract.answers import ClusterStatus, DrivenStatus, GroupStatus, UsageStatus
from penstock.contract.messages import Confirmation
from penstock.contract.slice_answers import DrainStatus
from penstock.core.state.state import BEFORE_TIME
from penstock.model.pressure import PressureReport


def test_only_what_changed_is_sent_and_confirmations_wait_until_they_are() -> None:
    messages = UsageMessages(epoch=1)
    messages.add({"a": "idle", "b": "busy"}, ["x"])
    messages.sent(dict(messages.waiting), list(messages.confirmed), now=0.0)
    messages.add({"a": "idle", "b": "idle"}, ["y"])
    messages.add({"a": "idle", "b": "idle"}, ["z", "y"])
    assert messages.waiting == {"b": "idle"}
    assert [one.slice_id for one in messages.confirmed] == ["y", "z"]


def test_drains_from_the_status_are_confirmed_by_their_numbers_and_each_of_them_counts() -> None:
    messages = UsageMessages(epoch=1)
    drains = [DrainStatus(slice_id="x", number=number, cause="idle", force=False) for number in (3, 5)]
    messages.add({}, [*drains, "y", Confirmation(slice_id="z", number=7)])
    assert [(one.slice_id, one.number) for one in messages.confirmed] == [("x", 3), ("x", 5), ("y", None), ("z", 7)]


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
        self.groups: tuple[GroupStatus, ...] = ()

    async def signal(self, name: str, message: Any) -> None:
        assert name == names.REPORT
        self.reports.append(message)

    async def query(self, *_: Any, **__: Any) -> ClusterStatus:
        return ClusterStatus(cluster="c", version=1, usage=self.usage, groups=self.groups)


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


def report(queued: int) -> PressureReport:
    return PressureReport(queued=queued, running=1, capacity=2, slices=1)


def test_only_a_report_of_pressure_that_changed_is_sent_and_all_of_them_once_more_if_they_were_lost() -> None:
    messages = UsageMessages(epoch=1)
    messages.add_pressure("g", report(1))
    messages.add_pressure("h", report(2))
    messages.add_pressure("g", report(3))
    assert messages.pressure == {"g": report(3), "h": report(2)}
    messages.sent({}, (), now=0.0)
    messages.sent_pressure(dict(messages.pressure))
    messages.add_pressure("g", report(3))
    assert (messages.pressure, messages.due_in(1.0, heartbeat=60.0)) == ({}, 59.0)
    messages.add_pressure("g", report(4))
    assert (messages.pressure, messages.due_in(1.0, heartbeat=60.0)) == ({"g": report(4)}, 0.0)
    messages.start_again(after=1)
    assert (messages.pressure, messages.epoch) == ({"g": report(4), "h": report(2)}, 2)


def test_pressure_goes_out_with_usage_and_confirmations_of_its_source() -> None:
    heard = Heard()
    client = AutoscalerClient(cast(Any, SimpleNamespace(get_workflow_handle=lambda _: heard)), "c")

    async def story() -> None:
        await client.pressure("g", queued=3, running=1, capacity=2, slices=1)
        await client.pressure("g", queued=3, running=1, capacity=2, slices=1)
        await client.usage({"a": "idle"})
        await client.pressure("g", queued=4, running=1, capacity=2, slices=1)
        with pytest.raises(Refused, match=r"pressure\.g\.queued: -1 must be a finite number, 0 or more"):
            await client.pressure("g", queued=-1, running=1, capacity=2, slices=1)

    asyncio.run(story())
    assert [(sent.pressure, sent.usage) for sent in heard.reports] == [
        ({"g": report(3)}, None),
        (None, {"a": "idle"}),
        ({"g": report(4)}, None),
    ]
    assert heard.reports[0].model_dump(mode="json")["pressure"] == {"g": report(3).model_dump()}


def test_a_report_that_came_before_its_group_was_driven_by_pressure_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    client = AutoscalerClient(cast(Any, SimpleNamespace(get_workflow_handle=lambda _: heard)), "c")
    monkeypatch.setattr(penstock.client.reporter, "CHECKED_AFTER_SECONDS", -1.0)

    def applied(pressure: DrivenStatus | None) -> None:
        last = heard.reports[-1]
        heard.usage = {"default": UsageStatus(epoch=last.epoch, revision=last.revision, at=BEFORE_TIME, slices=0)}
        heard.groups = (GroupStatus(name="g", driven=pressure),)

    async def story() -> None:
        for pressure in (None, DrivenStatus(), DrivenStatus(at=BEFORE_TIME, report=report(3))):
            await client.pressure("g", queued=3, running=1, capacity=2, slices=1)
            applied(pressure)
        await client.pressure("g", queued=3, running=1, capacity=2, slices=1)

    asyncio.run(story())
    assert [sent.pressure for sent in heard.reports] == [{"g": report(3)}, {"g": report(3)}]
