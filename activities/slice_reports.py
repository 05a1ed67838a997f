"""Reports of slices on their way to autoscalers: many share one signal."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import TypeVar

from temporalio.client import Client

from activities.temporal_reads import signal_if_running
from penstock.contract import names
from penstock.contract.slices import SliceReport, SliceReports
from penstock.model.sightings import Sighting

GATHER_SECONDS = 0.2
"""Least time between two signals with reports to one autoscaler: a fleet that starts sends few, and nobody waits for a moment."""
REPORTS_AT_ONCE = 200
"""Slice reports, or orphans, in one signal: few signals, each far below the size limit of a message."""
HOSTS_AT_ONCE = 2000
"""Hosts of the reports or orphans in one signal, unless a single one has more."""

WithHosts = TypeVar("WithHosts", Sighting, SliceReport)


class Reporter:
    """Takes reports to autoscalers. The first goes at once; those that follow within a moment share the next signal."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next: dict[str, _Batch] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def send(self, cluster: str, report: SliceReport) -> bool:
        """Send the report; whether an autoscaler runs that has received it."""
        batch = self._next.setdefault(cluster, _Batch())
        batch.reports.append(report)
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            if batch.arrived is None:
                await asyncio.sleep(batch.sent_before + GATHER_SECONDS - time.monotonic())
                following = _Batch(sent_before=time.monotonic())
                if self._next.get(cluster) is batch:
                    self._next[cluster] = following
                batch.arrived = await send_reports(self._client, cluster, batch.reports)
        return batch.arrived


class _Batch:
    """Reports that are sent together, and whether they arrived; None until they were sent."""

    def __init__(self, *, sent_before: float = -math.inf) -> None:
        self.sent_before = sent_before
        """When the batch before it was sent."""
        self.reports: list[SliceReport] = []
        self.arrived: bool | None = None


async def send_reports(client: Client, cluster: str, reports: Sequence[SliceReport]) -> bool:
    """Send reports of slices to their autoscaler; whether one runs."""
    workflow_id = names.autoscaler_id(cluster)
    messages = [SliceReports(reports=batch) for batch in in_batches(reports)]
    return all([await signal_if_running(client, workflow_id, names.SLICES_REPORTED, message) for message in messages])


def in_batches(items: Sequence[WithHosts]) -> list[tuple[WithHosts, ...]]:
    """The items in batches that fit a signal: a bounded number of items, and of their hosts."""
    batches: list[tuple[WithHosts, ...]] = []
    hosts = 0
    for item in items:
        hosts += len(item.hosts)
        if not batches or len(batches[-1]) >= REPORTS_AT_ONCE or hosts > HOSTS_AT_ONCE:
            batches.append(())
            hosts = len(item.hosts)
        batches[-1] += (item,)
    return batches
