"""What a reporter sends depends on what the autoscaler says that it has read; here the autoscaler is a few answers."""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from penstock.client import Refused
from penstock.client.calls import Calls
from penstock.client.reporter import MOST_UNREAD_BYTES, Reporter
from penstock.contract.answers import ClusterStatus, SourceStatus, UsageStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Answers:
    """Calls to an autoscaler that has read nothing but what its status says."""

    def __init__(self) -> None:
        self.status = ClusterStatus(cluster="c", version=1)
        self.sent: list[Any] = []

    async def query(self, *_: Any) -> ClusterStatus:
        return self.status

    async def signal(self, _name: str, message: Any) -> None:
        self.sent.append(message)


def usage(*slice_ids: str) -> dict[str, Any]:
    return dict.fromkeys(slice_ids, "busy")


def test_what_is_not_read_yet_is_not_taken_for_lost_and_sent_again() -> None:
    async def story() -> None:
        calls = Answers()
        reporter = Reporter(cast(Calls, calls))
        await reporter.report(None, usage("g-1", "g-2"), (), "s")
        calls.status = calls.status.model_copy(update={"unread": 7})
        await reporter.status()
        await reporter.report(None, usage("g-1", "g-2", "g-3"), (), "s")
        assert [list(message.usage) for message in calls.sent] == [["g-1", "g-2"], ["g-3"]]

        calls.status = calls.status.model_copy(update={"unread": 0})
        await reporter.status()
        await reporter.report(None, usage("g-1", "g-2", "g-3"), (), "s")
        assert sorted(calls.sent[-1].usage) == ["g-1", "g-2", "g-3"]

    asyncio.run(story())


def test_reports_are_kept_while_too_much_is_unread_and_sent_once_it_is_read() -> None:
    async def story() -> None:
        calls = Answers()
        reporter = Reporter(cast(Calls, calls))
        names = [f"g-{'x' * 100}-{number}" for number in range(MOST_UNREAD_BYTES // 100)]
        await reporter.report(None, usage(*names), (), "s")
        calls.status = calls.status.model_copy(update={"unread": 1})
        before = len(calls.sent)
        for number in range(3):
            await reporter.report(None, usage(*names, f"new-{number}"), (), "s")
        assert len(calls.sent) == before
        last = calls.sent[-1]
        read = {"s": UsageStatus(epoch=last.epoch, revision=last.revision, at=NOW, slices=1)}
        calls.status = ClusterStatus(cluster="c", version=2, usage=read)
        while len(calls.sent) == before:
            await asyncio.sleep(0.01)
        assert list(calls.sent[-1].usage) == ["new-0", "new-1", "new-2"]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_word_that_no_message_can_hold_is_refused_and_holds_up_no_other_source() -> None:
    async def story() -> None:
        calls = Answers()
        reporter = Reporter(cast(Calls, calls))
        with pytest.raises(Refused, match="usage: cannot be sent as JSON"):
            await reporter.report(None, {"g-1": [{"tasks": ["\ud800"]}]}, (), "bad")
        await reporter.report(None, usage("g-2"), (), "good")
        assert [(message.source, list(message.usage)) for message in calls.sent] == [("good", ["g-2"])]

    asyncio.run(story())


class RefusesSource(Answers):
    """Calls of which those of one source fail."""

    async def signal(self, name: str, message: Any) -> None:
        if message.source == "bad":
            raise Refused("too large")
        await super().signal(name, message)


def test_a_source_whose_reports_cannot_be_sent_holds_up_no_other() -> None:
    async def story() -> None:
        calls = RefusesSource()
        reporter = Reporter(cast(Calls, calls))
        for source in ("bad", "good"):
            with pytest.raises(Refused):
                await reporter.report(None, usage(f"{source}-1"), (), source)
        assert [message.source for message in calls.sent] == ["good"]

    asyncio.run(story())


def test_demand_that_is_refused_again_for_the_same_reason_is_not_sent_a_third_time() -> None:
    async def story() -> None:
        calls = Answers()
        reporter = Reporter(cast(Calls, calls))

        def refuse() -> None:
            stamp = {"epoch": calls.sent[-1].epoch, "revision": calls.sent[-1].revision}
            calls.status = ClusterStatus(
                cluster="c",
                version=calls.status.version + 1,
                demand={"s": SourceStatus(epoch=-1, revision=-1, tasks=0, resync_needed="demand takes too many bytes")},
                usage={"s": UsageStatus(**stamp, at=NOW, slices=0)},
            )

        large = [{"id": "large", "resources": {"cpu": 1}}]
        await reporter.report(large, {}, (), "s")
        for _ in range(2):
            refuse()
            await reporter.status()
            with contextlib.suppress(Refused):
                await reporter.report(large, {}, (), "s")
        with pytest.raises(Refused, match="the demand of source s was refused: demand takes too many bytes"):
            await reporter.report(large, {}, (), "s")
        assert len([message for message in calls.sent if message.demand is not None]) == 2
        await reporter.report([{"id": "small", "resources": {"cpu": 1}}], {}, (), "s")
        assert calls.sent[-1].demand.demand.task_ids == ("small",)

    asyncio.run(story())
