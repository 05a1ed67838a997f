"""Reports of audits as signals of bounded size."""

import asyncio
from datetime import UTC, datetime
from typing import cast

import pytest
from temporalio.client import Client

from activities import slice_reports
from activities.audit import parts_of
from activities.slice_reports import HOSTS_AT_ONCE, REPORTS_AT_ONCE
from penstock.contract.inventories import LocationReport
from penstock.contract.slices import SliceReport, SliceReports
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
