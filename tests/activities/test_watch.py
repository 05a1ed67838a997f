"""The watch of a location whose cloud fails now and then."""

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities import audit as auditing
from activities import cloud_calls
from activities import watch as watching
from activities.providers.open_providers import Providers
from activities.providers.port import Host, Labels, Listing, Phase, RateLimited, Ref, Sighting, Transient
from activities.slice_messages import SliceMessages
from activities.slice_reports import Reporter
from activities.temporal_reads import CachedReadings, ClusterReading
from activities.wakeups import Wakeups
from activities.watch import LONGEST_RETRY_SECONDS, WatchActivities
from penstock.contract.answers import ProblemKind
from penstock.contract.inventories import LocationReport, WatchedLocation
from penstock.contract.requests import WatchRequest
from penstock.core.slices import watch as reconciliation
from penstock.model.cluster import InventoryRules

SLICES = 100
RULES = {"look": 0.01, "rest": 0.01, "audit": 3600}
HERE = WatchedLocation(
    provider="sim", account="sim", name="z", cluster="c", rules=InventoryRules.model_validate(RULES | {"lost_after": 3600})
)


class FlakyCloud:
    """Healthy slices, in a cloud whose every second listing fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.listings = 0
        self.checks: Counter[str] = Counter()

    async def list(self, _location: str, *, cluster: str) -> Listing:
        self.listings += 1
        if self.listings % 2 == 0:
            raise self.error
        return Listing(items=tuple(self._seen(cluster, f"s{n:03}") for n in range(SLICES)), complete=True)

    async def observe(self, ref: Ref) -> Sighting:
        self.checks[ref.labels.slice] += 1
        return self._seen(ref.labels.cluster, ref.labels.slice, answered=ref.labels.slice)

    def _seen(self, cluster: str, slice_id: str, answered: str | None = None) -> Sighting:
        labels = Labels(cluster=cluster, group="g", slice=slice_id)
        ref = Ref(location="z", name=labels.resource_name, labels=labels)
        host = Host(name=slice_id, address="10.0.0.1", asked=answered is not None, answered=answered)
        return Sighting(ref=ref, phase=Phase.RUNNING, hosts=(host,))


class _OneCloud:
    """Opens the cloud, unless that fails."""

    def __init__(self, cloud: FlakyCloud, broken: Exception | None = None) -> None:
        self._cloud = cloud
        self._broken = broken

    async def of(self, _kind: str, _settings: Any) -> FlakyCloud:
        if self._broken is not None:
            raise self._broken
        return self._cloud


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_calls, "_LOGGED", {})


class Told:
    """What was reported to the autoscaler, and counted, in place of sending it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: list[LocationReport] = []
        self.counted: Counter[tuple[str, str]] = Counter()
        monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.0)
        monkeypatch.setattr(watching, "count_failed_look", self._count)
        monkeypatch.setattr(auditing, "send_location", self._send)

    async def _send(self, _client: Client, _cluster: str, report: LocationReport) -> None:
        self.reports.append(report)

    def _count(self, location: WatchedLocation, kind: str) -> None:
        self.counted[location.key, kind] += 1


def attempts(
    cloud: FlakyCloud,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    broken: Exception | None = None,
    raises: type[BaseException] = ApplicationError,
) -> list[Any]:
    """The errors of so many attempts of one round, each resumed from the last heartbeat, as Temporal does it."""

    class Delivered(SliceMessages):
        async def send(self, *_: object) -> bool:
            return True

    async def no_cluster(_cluster: str, *, oldest_seconds: float) -> ClusterReading:
        return ClusterReading(None, {})

    nobody = cast(Client, None)
    messages = Delivered(nobody, Reporter(nobody))
    providers = cast(Providers, _OneCloud(cloud, broken))
    activities = WatchActivities(nobody, providers, Wakeups(), CachedReadings(nobody), messages)
    monkeypatch.setattr(activities._readings, "of", no_cluster)
    request = WatchRequest(location=HERE, seconds=60, known="")
    errors: list[Any] = []
    details: list[Any] = []

    async def story() -> None:
        for _ in range(count):
            environment = ActivityEnvironment()
            environment.info = replace(ActivityEnvironment.default_info(), heartbeat_details=details[-1:])
            environment.on_heartbeat = lambda *values: details.append(values[0])
            with pytest.raises(raises) as failed:
                await environment.run(activities.watch, request)
            errors.append(failed.value)

    asyncio.run(story())
    return errors


def test_every_slice_is_health_checked_in_turn_although_every_second_listing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "HEALTH_CHECKS_PER_SECOND", 10_000)
    cloud = FlakyCloud(Transient("no answer"))
    attempts(cloud, 60, monkeypatch)
    assert min(cloud.checks[f"s{n:03}"] for n in range(SLICES)) > 1


def test_a_failed_look_is_repeated_soon_and_failures_in_a_row_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = FlakyCloud(Transient("no answer"))
    delays = [error.next_retry_delay for error in attempts(cloud, 3, monkeypatch)]
    assert [delay.total_seconds() for delay in delays if delay] == [0.02] * 3, "a success between them begins anew"

    cloud = FlakyCloud(Transient("no answer"))
    cloud.listings = 1
    monkeypatch.setattr(FlakyCloud, "list", _fails)
    delays = [error.next_retry_delay for error in attempts(cloud, 14, monkeypatch)]
    seconds = [delay.total_seconds() for delay in delays if delay]
    assert seconds == sorted(seconds)
    assert (seconds[2], seconds[-1]) == (0.04, 10.24)
    assert seconds[-1] <= LONGEST_RETRY_SECONDS


async def _fails(self: FlakyCloud, _location: str, *, cluster: str) -> Listing:
    raise self.error


def test_a_rate_limit_is_waited_out_but_no_longer_than_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    (error,) = attempts(FlakyCloud(RateLimited("slow down", retry_after=30)), 1, monkeypatch)
    assert error.next_retry_delay is not None
    assert error.next_retry_delay.total_seconds() == 30
    (error,) = attempts(FlakyCloud(RateLimited("slow down", retry_after=7200)), 1, monkeypatch)
    assert error.next_retry_delay is not None
    assert error.next_retry_delay.total_seconds() == 60


def test_a_silence_is_reported_once_with_its_beginning_and_every_failed_look_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch)
    monkeypatch.setattr(FlakyCloud, "list", _fails)
    attempts(FlakyCloud(Transient("no answer")), 5, monkeypatch)
    (report,) = told.reports
    assert report.problem is not None
    assert (report.problem.kind, report.problem.message, report.complete) == (ProblemKind.NO_ANSWER, "no answer", False)
    assert told.counted == {("sim/z", "Transient"): 5}


@pytest.mark.parametrize("opening", [False, True], ids=["listing", "opening"])
def test_a_defect_of_a_provider_is_a_silence_with_its_type_and_text_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, opening: bool
) -> None:
    told, defect = Told(monkeypatch), ValueError("not a number:\n  'x'")
    monkeypatch.setattr(FlakyCloud, "list", _fails)
    with caplog.at_level(logging.DEBUG, logger="temporalio.activity"):
        errors = attempts(FlakyCloud(defect), 5, monkeypatch, broken=defect if opening else None)
    (report,) = told.reports
    assert report.problem is not None
    assert (report.problem.kind, report.problem.message) == (ProblemKind.NO_ANSWER, "ValueError: not a number: 'x'")
    assert told.counted == {("sim/z", "Unexpected"): 5}
    assert [(error.type, error.category) for error in errors] == [("Unexpected", ApplicationErrorCategory.BENIGN)] * 5
    assert [error.next_retry_delay.total_seconds() for error in errors] == [0.02, 0.02, 0.04, 0.08, 0.16]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is defect
    assert "sim/z" in record.getMessage()


def test_a_defect_in_health_checks_is_counted_each_time_logged_once_and_ends_no_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(monkeypatch)
    monkeypatch.setattr(reconciliation, "HEALTH_CHECKS_PER_SECOND", 10_000)
    observe = FlakyCloud.observe

    async def defective(self: FlakyCloud, ref: Ref) -> Sighting:
        if ref.labels.slice == "s000":
            raise KeyError("networkEndpoints")
        return await observe(self, ref)

    monkeypatch.setattr(FlakyCloud, "observe", defective)
    cloud = FlakyCloud(Transient("no answer"))
    with caplog.at_level(logging.DEBUG, logger="temporalio.activity"):
        attempts(cloud, 60, monkeypatch)
    assert len(cloud.checks) == SLICES - 1
    assert told.counted["sim/z", "Unexpected"] > 1
    (record,) = caplog.records
    assert "KeyError: 'networkEndpoints'" in record.getMessage()


def test_a_cancelled_look_and_an_error_of_temporal_are_no_silence_of_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch)
    monkeypatch.setattr(FlakyCloud, "list", _fails)
    attempts(FlakyCloud(cast(Exception, asyncio.CancelledError())), 2, monkeypatch, raises=asyncio.CancelledError)
    attempts(FlakyCloud(RPCError("away", RPCStatusCode.UNAVAILABLE, b"")), 2, monkeypatch, raises=RPCError)
    assert (told.reports, told.counted) == ([], {})
