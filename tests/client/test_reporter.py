"""What a reporter sends depends on what the autoscaler says that it has read; here the autoscaler is a few answers."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

from penstock.client.calls import Calls
from penstock.client.reporter import MOST_UNREAD_BYTES, Reporter
from penstock.contract.answers import ClusterStatus, UsageStatus

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
