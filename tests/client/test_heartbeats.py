"""A client that has nothing to say: heartbeats, leases, and one epoch for the demand and usage of a source."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

import penstock.client.reporter
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, Done, SourceStatus, UsageStatus
from penstock.core.state.state import BEFORE_TIME

DEADLINE_SECONDS = 10.0


class Autoscaler:
    """A workflow that accepts everything, and answers the status with what it heard."""

    def __init__(self, *, stale_after: float = 1800.0) -> None:
        self.signals: list[tuple[str, Any]] = []
        self.updates: list[tuple[str, Any]] = []
        self.stale_after = stale_after
        self.lost: str | None = None

    async def signal(self, name: str, message: Any) -> None:
        self.signals.append((name, message))

    async def execute_update(self, name: str, message: Any, **_: Any) -> Accepted | Done:
        self.updates.append((name, message))
        if name == names.FORGET_SOURCE:
            return Done(message="Forgot it", config_revision=1)
        return Accepted(source=message.source, epoch=message.epoch, revision=message.revision, config_revision=1)

    async def query(self, *_: Any, **__: Any) -> ClusterStatus:
        usage: dict[str, UsageStatus] = {}
        demand: dict[str, SourceStatus] = {}
        for message in [*(sent for _, sent in self.updates), *(sent for _, sent in self.signals)]:
            submitted = getattr(message, "demand", None)
            inner = submitted if hasattr(submitted, "epoch") else None
            if inner is not None:
                demand["default"] = SourceStatus(epoch=inner.epoch, revision=inner.revision, tasks=1)
            elif hasattr(message, "parts"):
                demand["default"] = SourceStatus(epoch=message.epoch, revision=message.revision, tasks=1)
            if hasattr(message, "confirmed"):
                stamp = {"epoch": message.epoch, "revision": message.revision}
                usage["default"] = UsageStatus(**stamp, at=BEFORE_TIME, slices=1, resync_needed=self.lost)
        return ClusterStatus(cluster="c", version=1, usage=usage, demand=demand, usage_stale_after_seconds=self.stale_after)

    @property
    def reports(self) -> list[Any]:
        """The signals `report`."""
        return [message for name, message in self.signals if name == names.REPORT]


def client_of(autoscaler: Autoscaler, **options: Any) -> AutoscalerClient:
    return AutoscalerClient(cast(Any, SimpleNamespace(get_workflow_handle=lambda _: autoscaler)), "c", **options)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats are looked for many times a second."""
    monkeypatch.setattr(penstock.client.reporter, "FIRST_HEARTBEAT_SECONDS", 0.03)
    monkeypatch.setattr(penstock.client.reporter, "LEAST_PAUSE_SECONDS", 0.01)


TASKS = [{"id": "t", "resources": {"cpu": 1}}]


def test_demand_has_a_lease_of_ten_minutes_unless_the_client_is_told_otherwise() -> None:
    async def story() -> None:
        for options, lease in (({}, 600.0), ({"lease_seconds": 60.0}, 60.0), ({"lease_seconds": None}, None)):
            autoscaler = Autoscaler()
            client = client_of(autoscaler, **options)
            await client.submit_demand(TASKS)
            await client.report([*TASKS, {"id": "u"}])
            ((_, submitted),), (reported,) = autoscaler.updates, autoscaler.reports
            assert (submitted.lease_seconds, reported.demand.lease_seconds) == (lease, lease)

    asyncio.run(story())


@pytest.mark.usefixtures("hurried")
def test_a_client_that_submitted_demand_sends_heartbeats_by_itself_and_renews_its_lease() -> None:
    async def story() -> None:
        autoscaler = Autoscaler()
        client = client_of(autoscaler, lease_seconds=0.3)
        await client.submit_demand(TASKS)
        await until(lambda: len(autoscaler.reports) >= 3)
        assert all(report.usage is None and report.demand is None for report in autoscaler.reports)

    asyncio.run(story())


@pytest.mark.usefixtures("hurried")
def test_heartbeats_end_with_the_client() -> None:
    async def story() -> None:
        autoscaler = Autoscaler()
        await client_of(autoscaler, lease_seconds=0.3).submit_demand(TASKS)
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(story())


def test_the_heartbeat_is_a_third_of_the_lease_or_of_the_time_of_a_fresh_word() -> None:
    async def story() -> None:
        client = client_of(Autoscaler(stale_after=1800.0))
        assert client._reporter.heartbeat_seconds == 60.0
        await client.status()
        assert client._reporter.heartbeat_seconds == 200.0
        forever = client_of(Autoscaler(stale_after=1800.0), lease_seconds=None)
        await forever.status()
        assert forever._reporter.heartbeat_seconds == 600.0

    asyncio.run(story())


def test_a_resync_of_usage_sends_demand_and_usage_again_in_one_new_epoch() -> None:
    async def story() -> None:
        autoscaler = Autoscaler()
        client = client_of(autoscaler)
        await client.report(TASKS, usage={"a": "idle"})
        autoscaler.lost = "this run was reset"
        await client.status()
        await client.report(TASKS, usage={"a": "idle"})
        first, again = autoscaler.reports
        assert (again.usage, again.demand.base) == ({"a": "idle"}, None)
        assert again.epoch == again.demand.epoch == first.epoch + 1

    asyncio.run(story())


def test_a_forgotten_source_sends_no_more_heartbeats() -> None:
    async def story() -> None:
        autoscaler = Autoscaler()
        client = client_of(autoscaler)
        await client.submit_demand(TASKS)
        await client.forget_source("default")
        assert autoscaler.updates[-1][0] == names.FORGET_SOURCE
        assert await client._reporter.send_due() == client._reporter.heartbeat_seconds
        assert autoscaler.reports == []

    asyncio.run(story())


class Absent(Autoscaler):
    """A workflow that is gone while `ended` says so."""

    ended, refused = False, 0

    async def signal(self, name: str, message: Any) -> None:
        if self.ended:
            self.refused += 1
            raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
        await super().signal(name, message)


@pytest.mark.usefixtures("hurried")
def test_heartbeats_go_on_once_an_autoscaler_that_had_ended_is_back() -> None:
    async def story() -> None:
        autoscaler = Absent()
        client = client_of(autoscaler, lease_seconds=0.3)
        await client.submit_demand(TASKS)
        autoscaler.ended = True
        await until(lambda: autoscaler.refused >= 2)
        autoscaler.ended = False
        await until(lambda: len(autoscaler.reports) >= 2)

    asyncio.run(story())
