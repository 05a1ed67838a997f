"""Reports of audits: signals of bounded size, and what they say of a cloud that gives no answer."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from activities import audit as auditing
from activities import cloud_calls, slice_reports
from activities.audit import AuditActivities, parts_of
from activities.providers.open_providers import Providers
from activities.slice_reports import HOSTS_AT_ONCE, REPORTS_AT_ONCE
from activities.temporal_reads import CachedReadings, ClusterReading
from penstock.contract.answers import ProblemKind
from penstock.contract.inventories import LocationReport, WatchedLocation
from penstock.contract.requests import AuditRequest
from penstock.contract.slices import SliceReport, SliceReports
from penstock.core.state.state import AutoscalerState, Recovery
from penstock.model.failures import Phase
from penstock.model.location import Location
from penstock.model.sightings import Host, HostAddress, Labels, Ref, Sighting
from penstock.model.slices import SliceState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HERE = Location(provider="sim", account="sim", name="a")


def orphan(slice_id: str, hosts: int) -> Sighting:
    ref = Ref(location=HERE.name, name=slice_id, labels=Labels(cluster="c", group="g", slice=slice_id))
    return Sighting(ref=ref, phase=Phase.RUNNING, hosts=tuple(Host(address=f"10.0.0.{i}") for i in range(hosts)))


def reporting(*hosts: int) -> LocationReport:
    """A report of an orphan with so many hosts for each number."""
    found = tuple(orphan(f"s{i}", count) for i, count in enumerate(hosts))
    return LocationReport(location=HERE, at=NOW, complete=True, asked="r", orphans=found, missing=("gone",))


@pytest.mark.parametrize(
    "hosts",
    [[], [1], [1] * REPORTS_AT_ONCE, [HOSTS_AT_ONCE], [HOSTS_AT_ONCE // 2, HOSTS_AT_ONCE // 2], [HOSTS_AT_ONCE + 1]],
    ids=["none", "one", "most orphans", "most hosts of one", "most hosts of two", "one that is larger than a batch"],
)
def test_a_report_that_fits_in_one_signal_is_sent_in_one(hosts: list[int]) -> None:
    assert parts_of(reporting(*hosts)) == [reporting(*hosts)]


@pytest.mark.parametrize(
    ("hosts", "sizes"),
    [
        ([1] * (2 * REPORTS_AT_ONCE + 1), [REPORTS_AT_ONCE, REPORTS_AT_ONCE, 1]),
        ([HOSTS_AT_ONCE // 2] * 5, [2, 2, 1]),
        ([HOSTS_AT_ONCE, 1, HOSTS_AT_ONCE - 1, 1], [1, 2, 1]),
        ([1, HOSTS_AT_ONCE + 1, 1], [1, 1, 1]),
    ],
    ids=["by orphans", "by hosts", "by hosts, filled up", "one that is larger than a batch"],
)
def test_a_large_report_is_sent_in_parts_of_which_only_the_last_is_complete(hosts: list[int], sizes: list[int]) -> None:
    report = reporting(*hosts)
    parts = parts_of(report)
    assert tuple(one for part in parts for one in part.orphans) == report.orphans
    assert [len(part.orphans) for part in parts] == sizes
    *first, last = [(part.complete, part.asked, part.missing) for part in parts]
    assert first == [(False, None, ())] * (len(sizes) - 1)
    assert last == (True, "r", ("gone",))


def test_reports_of_slices_are_sent_in_signals_that_fit_whatever_their_number_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[SliceReports] = []

    async def record(_client: object, _workflow: str, _signal: str, message: SliceReports) -> bool:
        sent.append(message)
        return True

    monkeypatch.setattr(slice_reports, "signal_if_running", record)
    hosts = tuple(HostAddress(name=f"node-w-{i}", address=f"10.0.0.{i}", external_address=f"34.0.0.{i}") for i in range(256))
    since = {"state": SliceState.READY, "since": NOW, "ordered_at": NOW, "sequence": 3}
    reports = [SliceReport(slice_id=f"s{i}", group="g", hosts=hosts, **since) for i in range(REPORTS_AT_ONCE)]
    asyncio.run(slice_reports.send_reports(cast(Client, None), "c", reports))
    assert [report for message in sent for report in message.reports] == reports
    assert max(len(message.model_dump_json()) for message in sent) < 500_000


class _Defective:
    """A provider with a defect in its listing."""

    async def of(self, _kind: str, _settings: Any) -> "_Defective":
        return self

    async def list(self, _location: str, *, cluster: str) -> Any:
        raise ValueError(f"no number in {cluster}")


def test_a_defect_of_a_provider_is_told_to_the_recovery_that_waits_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = AutoscalerState(recovery=Recovery(id="r", reason="reset", since=NOW))
    told: list[LocationReport] = []
    counted: list[str] = []

    async def reading(_cluster: str, *, oldest_seconds: float) -> ClusterReading:
        known = {one.location.key: one.problem for one in told if one.problem is not None}
        return ClusterReading(state.model_copy(update={"location_problems": known}), {})

    async def send(_client: Client, _cluster: str, report: LocationReport) -> None:
        told.append(report)

    nobody = cast(Client, None)
    activities = AuditActivities(nobody, cast(Providers, _Defective()), CachedReadings(nobody))
    monkeypatch.setattr(activities._readings, "of", reading)
    monkeypatch.setattr(auditing, "send_location", send)
    monkeypatch.setattr(auditing, "count_failed_look", lambda _location, kind: counted.append(kind))
    monkeypatch.setattr(cloud_calls, "_LOGGED", {})
    request = AuditRequest(location=WatchedLocation.of(HERE, cluster="c"), recovery="r")
    with caplog.at_level(logging.DEBUG, logger="temporalio.activity"):
        for _ in range(3):
            with pytest.raises(ApplicationError) as failed:
                asyncio.run(ActivityEnvironment().run(activities.audit, request))
            assert (failed.value.type, failed.value.category) == ("Unexpected", ApplicationErrorCategory.BENIGN)
    (report,) = told
    assert report.problem is not None
    assert (report.problem.kind, report.problem.message) == (ProblemKind.NO_ANSWER, "ValueError: no number in c")
    assert report.asked == "r"
    assert counted == ["Unexpected"] * 3
    assert len(caplog.records) == 1
