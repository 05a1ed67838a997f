"""Backlog benchmark: messages sent while no worker runs, and how long a worker then takes to read them all and to answer."""

import asyncio
import json
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from temporalio.client import Client, WorkflowHandle

from bench.measuring import progress
from bench.temporal.scene import until
from bench.verdicts import Status, Verdict
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.slices import SliceReport, SliceReports
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import SliceState
from penstock.model.value import Value
from tests.workflows.machine import Machine, running_machine

FULL_SLICES, HOUR = 5_000, 3_600
"""Slices of a cluster of full size, and the reports of an hour at one a second."""
CHANGES = 20
"""Slices whose tasks change from one report to the next: each task runs for four minutes."""
RAW_SIGNALS, RAW_BYTES = 5_000, 8_000
MANY_SLICES, MANY_REPORTS = 300, 600
"""Full reports of 22 kB for ten minutes, which once stopped a cluster for good."""
ANSWER_SECONDS, READ_SECONDS, HISTORY_MB = 10.0, 3.0, 10.0
_ZONE = "backlog-a"
_AT_REST = {"look": "1h", "rest": "1h", "audit": "1h"}
_REPORTS_AT_ONCE = 200


class BacklogResult(Value):
    """One backlog: what was sent while no worker ran, and what happened from the moment when one was ready."""

    name: str
    slices: int
    messages: int
    sent_mb: float
    """What entered the history."""
    answer_seconds: float
    """Until the status was answered."""
    read_seconds: float
    """Until the state had the newest word of every message."""
    history_mb: float
    """The history of the run that the worker took up."""
    lost: int
    """Slices and sources whose newest word is not in the state, and slices that the ledger lacks."""
    limit_seconds: float
    most_history_mb: float | None
    deadlocks: int
    """Reports of the SDK that a workflow task took too long."""


class _Backlog(NamedTuple):
    """A backlog to send: its name, the cluster's slices, messages, targets, what sends them and what counts lost words."""

    name: str
    slices: int
    messages: int
    limit_seconds: float
    most_history_mb: float | None
    send: Callable[["_Site"], Awaitable[None]]
    lost: Callable[[AutoscalerState], int]


class _Site(NamedTuple):
    """Where a backlog is sent."""

    machine: Machine
    client: Client
    autoscaler: AutoscalerClient

    @property
    def workflow(self) -> "WorkflowHandle[Any, Any]":
        return self.client.get_workflow_handle(names.autoscaler_id(self.autoscaler.cluster))

    async def history_mb(self) -> float:
        """Bytes of the newest run's history, in millions."""
        described = await self.workflow.describe()
        return described.raw_info.history_size_bytes / 1e6


def run_backlog(*, quick: bool) -> list[BacklogResult]:
    """Measure each backlog on a server, a simulated cloud and a worker of its own."""
    part = 10 if quick else 1
    backlogs = (
        _hour_of_reports(FULL_SLICES // part, HOUR // part),
        _raw_signals(RAW_SIGNALS // part, 0),
        _raw_signals(RAW_SIGNALS // part, FULL_SLICES // part),
        _full_reports(MANY_SLICES, MANY_REPORTS // part),
    )
    found = []
    for backlog in backlogs:
        progress(f"backlog: {backlog.name}, {backlog.messages:,} messages while no worker runs")
        with tempfile.TemporaryDirectory() as folder, running_machine(Path(folder)) as machine:
            found.append(asyncio.run(_measured(machine, backlog)))
    return found


async def _measured(machine: Machine, backlog: _Backlog) -> BacklogResult:
    site = await _site(machine, backlog.slices)
    assert machine.worker is not None
    await asyncio.to_thread(machine.worker.stop)
    before = await site.history_mb()
    await backlog.send(site)
    after = await site.history_mb()
    taken_up = site.workflow
    described = await taken_up.describe()
    await machine.revive_worker()
    began = time.monotonic()
    await site.autoscaler.status()
    answered = time.monotonic() - began

    async def lost() -> int:
        state = await site.autoscaler.dump()
        return backlog.lost(state) + backlog.slices - len(state.slices)

    async def is_read() -> bool:
        return await lost() == 0

    try:
        await until(is_read)
    except TimeoutError:
        progress(f"backlog: {backlog.name}: words are lost")
    read = time.monotonic() - began
    run = await site.client.get_workflow_handle(taken_up.id, run_id=described.run_id).describe()
    return BacklogResult(
        name=backlog.name,
        slices=backlog.slices,
        messages=backlog.messages,
        sent_mb=after - before,
        answer_seconds=answered,
        read_seconds=read,
        history_mb=run.raw_info.history_size_bytes / 1e6,
        lost=await lost(),
        limit_seconds=backlog.limit_seconds,
        most_history_mb=backlog.most_history_mb,
        deadlocks=machine.worker.log.read_text(errors="replace").count("TMPRL1101"),
    )


async def _site(machine: Machine, slices: int) -> _Site:
    """A cluster that has recovered, with so many READY slices.

    They exist only in reports. The watch of a new worker begins with an audit, which would find that they are missing, and the
    autoscaler would forget them with their usage: so the cloud says from here on that its lists are incomplete.
    """
    client = await machine.client()
    group = {"name": "g", "host": {"cpu": 4}, "max_slices": max(slices, 10), "zone": _ZONE}
    autoscaler = AutoscalerClient(client, "backlog")
    await autoscaler.start(
        ClusterConfig.model_validate({"cluster": "backlog", "groups": [group], "inventory": _AT_REST, "ready_grace": "2h"})
    )
    site = _Site(machine, client, autoscaler)

    async def recovered() -> bool:
        return (await autoscaler.status()).recovery is None

    async def known() -> bool:
        return (await autoscaler.status()).slices == slices

    await until(recovered)
    await asyncio.to_thread(_list_incompletely, machine)
    now, ids = datetime.now(UTC), _ids(slices)
    for first in range(0, slices, _REPORTS_AT_ONCE):
        reports = tuple(
            SliceReport(slice_id=one, group="g", state=SliceState.READY, since=now, ordered_at=now, sequence=3)
            for one in ids[first : first + _REPORTS_AT_ONCE]
        )
        await site.workflow.signal(names.SLICES_REPORTED, SliceReports(reports=reports))
    await until(known)
    return site


def _list_incompletely(machine: Machine) -> None:
    """Have the simulated cloud mark its lists as incomplete: no audit concludes from one that a slice is missing."""
    body = json.dumps({"partial_lists": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{machine.url}/zones/{_ZONE}", data=body, method="PUT")):
        pass


def _ids(count: int) -> list[str]:
    return [f"g-{number:05}" for number in range(count)]


# An hour of reports from the Python client. They are sent as fast as it takes them, so its clock does not reach a heartbeat; what
# bounds them is the same as in a real hour: the bytes that no worker has read.


def _hour_of_reports(slices: int, reports: int) -> _Backlog:
    ids = _ids(slices)

    said = {one: [{"reserved": {"cpu": 4}, "tasks": ["train/0"]}] for one in ids}

    def usage(number: int) -> dict[str, Any]:
        """Every slice runs a task; with each report, the next few begin another one."""
        for place in range(CHANGES):
            said[ids[(number * CHANGES + place) % slices]] = [{"reserved": {"cpu": 4}, "tasks": [f"train/{number}/{place}"]}]
        return said

    def waiting(number: int) -> list[dict[str, Any]]:
        return [{"id": "queued", "resources": {"cpu": 64}, "count": 50 + number % 50}]

    async def send(site: _Site) -> None:
        controller = AutoscalerClient(site.client, site.autoscaler.cluster)
        for number in range(reports):
            await controller.report(waiting(number), usage=usage(number))

    def lost(state: AutoscalerState) -> int:
        last = {one: tuple(words[0]["tasks"]) for one, words in said.items()}
        others = sum(
            tuple(task for host in state.usage.get(one, ()) for task in host.tasks) != tasks for one, tasks in last.items()
        )
        demand = state.demand.get("default")
        return others + (demand is None or len(demand.demand.task_ids) != waiting(reports - 1)[0]["count"])

    return _Backlog("an hour of reports of the Python client", slices, reports, ANSWER_SECONDS, HISTORY_MB, send, lost)


# Reports of another SDK, which knows no bound.


def _raw_signals(signals: int, slices: int) -> _Backlog:
    """Each report names the next fifty slices of the cluster, or fifty that are gone if it has none."""
    named = RAW_BYTES // 160
    ids = _ids(slices or named)

    def usage(number: int) -> dict[str, Any]:
        block = (ids[(number * named + n) % len(ids)] for n in range(named))
        return {one: [{"state": "busy", "tasks": [f"{number:06}/{'x' * 100}"]}] for one in block}

    newest = {ids[(number * named + n) % len(ids)]: number for number in range(signals) for n in range(named)} if slices else {}
    of = f"about {slices:,} slices" if slices else "about slices that are gone"
    seconds = ANSWER_SECONDS if slices else READ_SECONDS
    return _raw(f"raw signals of {RAW_BYTES // 1000} kB {of}", slices, signals, usage, newest, seconds)


def _full_reports(slices: int, reports: int) -> _Backlog:
    """The usage of every slice in every report."""
    ids = _ids(slices)

    def usage(number: int) -> dict[str, Any]:
        return {one: [{"reserved": {"cpu": 4}, "tasks": [f"{number:06}/train/{one}"]}] for one in ids}

    return _raw("raw full reports of 22 kB", slices, reports, usage, dict.fromkeys(ids, reports - 1), ANSWER_SECONDS)


def _raw(
    name: str, slices: int, messages: int, usage: Callable[[int], dict[str, Any]], newest: dict[str, int], seconds: float
) -> _Backlog:
    """Numbered reports. A task's name begins with the number of its report; `newest` is the last report that names each slice."""

    async def send(site: _Site) -> None:
        """One after the other, as a controller does: one that a newer report overtakes adds only slices that were not named."""
        for number in range(messages):
            await site.workflow.signal(names.REPORT, report(number))

    def report(number: int) -> dict[str, Any]:
        return {"source": "raw", "epoch": 1, "revision": number, "usage": usage(number)}

    def lost(state: AutoscalerState) -> int:
        source = state.usage_sources.get("raw")
        found = {one: int(host.tasks[0].partition("/")[0]) for one, hosts in state.usage.items() for host in hosts}
        return len(newest.items() ^ found.items()) + (source is None or source.revision != messages - 1)

    return _Backlog(name, slices, messages, seconds, None, send, lost)


def backlog_table(results: Iterable[BacklogResult]) -> Table:
    """A row for each backlog."""
    table = Table(title="Backlogs: messages sent while no worker ran, and seconds from a ready worker", title_justify="left")
    table.add_column("backlog")
    for column in ("slices", "messages", "MB sent", "answers", "all read", "MB of history", "lost", "deadlocks"):
        table.add_column(column, justify="right")
    for row in results:
        seconds = (f"{row.answer_seconds:.2f}", f"{row.read_seconds:.2f}")
        counts = (f"{row.slices:,}", f"{row.messages:,}", f"{row.sent_mb:.1f}")
        table.add_row(row.name, *counts, *seconds, f"{row.history_mb:.1f}", str(row.lost), str(row.deadlocks))
    return table


def backlog_verdicts(results: Iterable[BacklogResult]) -> list[Verdict]:
    """Targets: nothing is lost or stuck, and how soon everything is read."""
    found = []
    for row in results:
        most = row.most_history_mb
        small = most is None or row.history_mb < most
        reached = row.read_seconds <= row.limit_seconds and not row.lost and not row.deadlocks and small
        bound = "" if most is None else f", the history under {most:g} MB"
        target = f"{row.messages:,} messages, {row.name}: read within {row.limit_seconds:g} s, nothing lost{bound}"
        figures = f"{row.read_seconds:.2f} s, {row.lost} lost, {row.history_mb:.1f} MB"
        found.append(Verdict(target=target, status=Status.REACHED if reached else Status.MISSED, figures=figures))
    return found
