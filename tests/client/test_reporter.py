"""What a reporter sends depends on what the autoscaler says that it has read; here the autoscaler is a few answers."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

import penstock.client.reporter
from penstock.client import AutoscalerClient, ErrorCode, NotSent, Refused
from penstock.client.calls import Calls
from penstock.client.reporter import MOST_UNREAD_BYTES, Reporter
from penstock.contract.answers import Accepted, ClusterStatus, SourceStatus, UsageStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECONDS = 30.0
"""Deadline of a story, which takes milliseconds."""


class Answers:
    """Calls to an autoscaler that has read nothing but what its status says."""

    def __init__(self) -> None:
        self.status = ClusterStatus(cluster="c", version=1)
        self.sent: list[Any] = []

    async def query(self, *_: Any) -> ClusterStatus:
        return self.status

    async def signal(self, _name: str, message: Any) -> None:
        self.sent.append(message)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS / 3):
        while not holds():
            await asyncio.sleep(0.01)


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


class Unanswered(Answers):
    """Calls of which updates are answered once `worker` is set: no worker runs before."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = asyncio.Event()
        self.problem: str | None = None

    async def update(self, _name: str, message: Any, _result: Any) -> Accepted:
        self.sent.append(message)
        await self.worker.wait()
        stamp = {"epoch": message.epoch, "revision": message.revision}
        return Accepted(source=message.source, **stamp, config_revision=1, applied=self.problem is None, problem=self.problem)

    def of(self, source: str) -> list[Any]:
        """What was sent of a source."""
        return [message for message in self.sent if message.source == source]


def test_demand_that_no_worker_answers_holds_up_neither_reports_nor_heartbeats_of_other_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(penstock.client.reporter, "FIRST_HEARTBEAT_SECONDS", 0.03)
    monkeypatch.setattr(penstock.client.reporter, "LEAST_PAUSE_SECONDS", 0.01)

    async def story() -> None:
        calls = Unanswered()
        reporter = Reporter(cast(Calls, calls))
        submitting = asyncio.create_task(reporter.submit_demand([{"id": "t"}], "stuck"))
        await until(lambda: calls.of("stuck"))
        await reporter.report([{"id": "u"}], usage("g-1"), (), "other")
        assert [list(message.usage) for message in calls.of("other")] == [["g-1"]]
        await until(lambda: len(calls.of("other")) >= 3)
        assert (len(calls.of("stuck")), submitting.done()) == (1, False)
        submitting.cancel()

    asyncio.run(asyncio.wait_for(story(), SECONDS))


def test_reports_of_a_source_do_not_wait_for_its_demand_and_are_sent_after_it() -> None:
    async def story() -> None:
        calls = Unanswered()
        reporter = Reporter(cast(Calls, calls))
        submitting = asyncio.create_task(reporter.submit_demand([{"id": "old"}], "s"))
        await until(lambda: calls.of("s"))
        for task_id in ("newer", "newest"):
            await reporter.report([{"id": task_id}], usage("g-1"), (), "s")
        assert len(calls.of("s")) == 1
        calls.worker.set()
        await submitting
        await until(lambda: len(calls.of("s")) == 2)
        submitted, reported = calls.of("s")
        assert (reported.demand.demand.task_ids, list(reported.usage)) == (("newest",), ["g-1"])
        assert (reported.demand.epoch, reported.demand.revision) == (submitted.epoch, submitted.revision + 1)

    asyncio.run(asyncio.wait_for(story(), SECONDS))


def test_the_newest_demand_of_a_source_counts_in_whichever_way_it_is_sent() -> None:
    async def story() -> None:
        calls = Unanswered()
        reporter = Reporter(cast(Calls, calls))
        first = asyncio.create_task(reporter.submit_demand([{"id": "a"}], "s"))
        await until(lambda: calls.of("s"))
        second = asyncio.create_task(reporter.submit_demand([{"id": "b"}], "s"))
        await asyncio.sleep(0)
        await reporter.report([{"id": "c"}], {}, (), "s")
        calls.worker.set()
        assert [accepted.revision for accepted in await asyncio.gather(first, second)] == [1, 2]
        await until(lambda: len(calls.of("s")) == 3)
        assert calls.of("s")[-1].demand.demand.task_ids == ("c",)

    asyncio.run(asyncio.wait_for(story(), SECONDS))


def test_demand_that_is_not_applied_when_it_is_sent_again_is_an_error() -> None:
    async def story() -> None:
        calls = Unanswered()
        calls.worker.set()
        calls.problem = "epoch: 1 is older, epoch 9 revision 2 is in force; send a snapshot with a newer one"
        reporter = Reporter(cast(Calls, calls))
        with pytest.raises(Refused, match="the demand of source s was not applied: epoch: 1 is older, epoch 9"):
            await reporter.submit_demand([{"id": "t"}], "s")
        assert len(calls.sent) == 2
        calls.problem = None
        await reporter.submit_demand([{"id": "t"}], "s")
        assert calls.sent[-1].base is None

    asyncio.run(story())


class Silent(Answers):
    """Calls to a server that does not answer."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def execute_update(self, *_: Any, **__: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b""), WorkflowUpdateRPCTimeoutOrCancelledError()]
)
def test_demand_that_the_server_did_not_confirm_may_have_been_sent_or_not(error: Exception) -> None:
    server = cast(Any, SimpleNamespace(get_workflow_handle=lambda _: Silent(error)))
    with pytest.raises(NotSent, match=r"'s' may not have been sent: .*; submit it again \(repeating is safe: ") as unsure:
        asyncio.run(AutoscalerClient(server, "c").submit_demand([{"id": "t"}], source="s"))
    assert unsure.value.code is ErrorCode.NO_SERVER
