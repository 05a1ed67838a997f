"""Reports of slices on their way to an autoscaler: those that come within a moment share a signal."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities import slice_reports
from activities.slice_reports import Reporter
from penstock.contract.slices import SliceReport, SliceReports
from penstock.model.slices import SliceState

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Line:
    """The way to an autoscaler; the first calls may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: int = 0, runs: bool = True) -> None:
        self.failing, self.runs = failing, runs
        self.batches: list[list[str]] = []
        monkeypatch.setattr(slice_reports, "GATHER_SECONDS", 0.01)
        monkeypatch.setattr(slice_reports, "signal_if_running", self.signal)

    async def signal(self, _client: object, _workflow: str, _signal: str, message: SliceReports) -> bool:
        self.failing -= 1
        if self.failing >= 0:
            raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")
        self.batches.append([report.slice_id for report in message.reports])
        return self.runs


def sent(count: int) -> list[Any]:
    """The results of so many reports at once."""

    async def send() -> list[Any]:
        reporter = Reporter(cast(Client, None))
        reports = [_report(f"s{n}") for n in range(count)]
        return await asyncio.gather(*(reporter.send("c", report) for report in reports), return_exceptions=True)

    return asyncio.run(send())


def test_the_first_report_goes_at_once_and_those_that_follow_share_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch)
    assert sent(5) == [True] * 5
    assert [report for batch in line.batches for report in batch] == ["s0", "s1", "s2", "s3", "s4"]
    assert len(line.batches) <= 2


def test_senders_learn_that_no_autoscaler_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Line(monkeypatch, runs=False)
    assert sent(3) == [False] * 3


def test_a_signal_that_fails_fails_one_sender_and_the_next_sends_the_reports_again(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(monkeypatch, failing=1)
    results = sent(4)
    assert [isinstance(result, RPCError) for result in results].count(True) == 1
    assert {report for batch in line.batches for report in batch} >= {"s1", "s2", "s3"}


def _report(slice_id: str) -> SliceReport:
    return SliceReport(slice_id=slice_id, group="g", state=SliceState.READY, since=NOW, ordered_at=NOW, sequence=3)
