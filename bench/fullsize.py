"""Full size: how soon 5,000 slices and 100,000 tasks are reported on, asked about and verified, on a real server and worker."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.measuring import progress
from bench.temporal.scene import until
from bench.verdicts import Status, Verdict
from penstock.client import AutoscalerClient
from penstock.client.demand_messages import as_demand
from penstock.contract import names
from penstock.contract.answers import Verdict as Agreement
from penstock.contract.requests import VerifyRequest
from penstock.contract.slices import SliceReport, SliceReports
from penstock.model.cluster import ClusterConfig
from penstock.model.demand_builder import without
from penstock.model.slices import SliceState
from penstock.model.value import Value
from tests.workflows.machine import Machine, running_machine

TASKS, SLICES = 100_000, 5_000
LAUNCHED = 1_500
"""Real slices that are launched by default: as many as fit in about three minutes."""
SAMPLES = 10
REPORT_SECONDS, QUESTION_SECONDS, STATUS_SECONDS, VERIFY_SECONDS = 0.2, 0.5, 0.3, 10.0
"""The most that a report, `explain` or `decision`, `status` and `verify` may take."""
_SHAPES = 6
_BATCH = 1_000
_PAUSE_SECONDS = 0.1
_LAUNCH_SECONDS = 1_200.0
_BETWEEN_LOOKS = 0.05


class Latencies(Value):
    """Seconds of one kind of call, from the client, and the most that is allowed."""

    what: str
    seconds: tuple[float, ...]
    most: float
    at: float = 0.5
    """The quantile that is compared with `most`."""

    def quantile(self, q: float) -> float:
        """A quantile of the samples: the nearest one from above."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


class FullSizeResult(Value):
    """Latencies with a ledger and demand of full size; and those while so many slices were launched."""

    launched: int
    ready_seconds: float
    latencies: tuple[Latencies, ...]


def run_full_size(*, quick: bool, everything: bool = False) -> FullSizeResult:
    """Measure on a server, a simulated cloud and a worker of its own for each half."""
    launched = SLICES if everything else LAUNCHED // 5 if quick else LAUNCHED
    with tempfile.TemporaryDirectory() as folder, running_machine(Path(folder)) as machine:
        found = asyncio.run(_at_full_size(machine))
    with tempfile.TemporaryDirectory() as folder, running_machine(Path(folder)) as machine:
        ready, more = asyncio.run(_while_launching(machine, launched))
    return FullSizeResult(launched=launched, ready_seconds=ready, latencies=(*found, *more))


# Reports and questions, with a ledger of slices that exist in reports only.


async def _at_full_size(machine: Machine) -> list[Latencies]:
    progress(f"full size: {SLICES:,} reported slices and {TASKS:,} tasks")
    autoscaler = await _reported_cluster(machine)
    await autoscaler.submit_demand(as_demand(tasks()))
    await _decided(autoscaler)
    reports = [await _as_values(autoscaler), *await _as_lists(autoscaler), *await _as_deltas(autoscaler)]
    await _decided(autoscaler)
    return [*reports, *await _questions(autoscaler)]


async def _as_values(autoscaler: AutoscalerClient) -> Latencies:
    """Each a `Demand` with one task less than the one before."""
    demand = as_demand(tasks())
    demands = [demand := without(demand, {task}) for task in _some(0)]
    seconds = [await _rested(autoscaler, partial(autoscaler.submit_demand, each)) for each in demands]
    return Latencies(what="submit_demand of a Demand, one task less", seconds=tuple(seconds), most=REPORT_SECONDS)


async def _as_lists(autoscaler: AutoscalerClient) -> list[Latencies]:
    """Each a list of plain objects with one difference to the one before: a task that ended, or that wants something else."""
    gone, written = set(_some(0)), tasks()
    await autoscaler.submit_demand([task for task in written if task["id"] not in gone])
    lists = []
    for ended in _some(1):
        gone.add(ended)
        lists.append([task for task in written if task["id"] not in gone])
    seconds = [await _rested(autoscaler, partial(autoscaler.submit_demand, each)) for each in lists]
    less = Latencies(what="submit_demand of a list, one task less", seconds=tuple(seconds), most=REPORT_SECONDS)
    seconds = []
    for n in range(SAMPLES):
        lists[-1][1_000 * n] = {"id": lists[-1][1_000 * n]["id"], "resources": {"cpu": 7}}
        seconds.append(await _rested(autoscaler, partial(autoscaler.submit_demand, lists[-1])))
    other = Latencies(what="submit_demand of a list, one task changed in place", seconds=tuple(seconds), most=REPORT_SECONDS)
    return [less, other]


async def _as_deltas(autoscaler: AutoscalerClient) -> list[Latencies]:
    """The message alone, to a cluster at rest, and again and again to one that decides."""
    handle = autoscaler.client.get_workflow_handle(names.autoscaler_id(autoscaler.cluster))
    known = (await autoscaler.status()).demand["default"]

    def delta(n: int, **changes: Any) -> Callable[[], Awaitable[object]]:
        stamp = {"epoch": known.epoch, "base": known.revision + n, "revision": known.revision + n + 1}
        return partial(handle.execute_update, names.SUBMIT_DEMAND, stamp | changes)

    seconds = [await _rested(autoscaler, delta(n, removed=[task])) for n, task in enumerate(_some(2))]
    rested = Latencies(what="raw delta, one task less", seconds=tuple(seconds), most=REPORT_SECONDS)
    seconds = []
    for n in range(SAMPLES):
        seconds.append(await _timed(delta(SAMPLES + n, tasks=[{"id": f"more-{n}", "resources": {"cpu": 1}}])))
        await asyncio.sleep(_PAUSE_SECONDS)
    busy = Latencies(what="raw deltas one after the other, while it decides", seconds=tuple(seconds), most=REPORT_SECONDS)
    return [rested, busy]


async def _questions(autoscaler: AutoscalerClient) -> list[Latencies]:
    asked = [f"job-{i}/task-{100 * i + 50}" for i in range(0, TASKS // 100, TASKS // 100 // SAMPLES)]
    explained = [await _timed(partial(autoscaler.explain, task)) for task in asked]
    decisions = [await _timed(autoscaler.decision) for _ in range(SAMPLES)]
    looks = [await _timed(autoscaler.status) for _ in range(5 * SAMPLES)]
    return [
        Latencies(what="explain", seconds=tuple(explained), most=QUESTION_SECONDS, at=1.0),
        Latencies(what="decision", seconds=tuple(decisions), most=QUESTION_SECONDS, at=1.0),
        Latencies(what="status", seconds=tuple(looks), most=STATUS_SECONDS, at=0.99),
    ]


def _some(part: int) -> list[str]:
    """Tasks of different jobs, others for each part."""
    return [f"job-{i}/task-{100 * i}" for i in range(part * SAMPLES, (part + 1) * SAMPLES)]


async def _rested(autoscaler: AutoscalerClient, call: Callable[[], Awaitable[object]]) -> float:
    """Seconds of a call to a cluster that has decided on everything before it."""
    seconds = await _timed(call)
    await _decided(autoscaler)
    return seconds


async def _reported_cluster(machine: Machine) -> AutoscalerClient:
    """A cluster at full size. Its slices exist only in reports, so the next audit, which would miss them, is far away."""
    client = await machine.client()
    autoscaler = AutoscalerClient(client, "full")
    rules = {"look": "50ms", "rest": "10m", "audit": "10m"}
    await autoscaler.start(_config("full", small=1, inventory=rules, ready_grace="1h"))
    await _ready(autoscaler, 1)
    await autoscaler.apply_config(_config("full", small=2, inventory=rules, ready_grace="1h"))
    await _ready(autoscaler, 2)  # Seen by another look than the first, so the audit that a watch begins with is over.
    at, handle = datetime.now(UTC), client.get_workflow_handle(names.autoscaler_id("full"))
    for first in range(0, SLICES, _BATCH):
        reports = tuple(
            SliceReport(slice_id=f"big-{n:05}", group="big", state=SliceState.READY, since=at, ordered_at=at, sequence=3)
            for n in range(first, first + _BATCH)
        )
        await handle.signal(names.SLICES_REPORTED, SliceReports(reports=reports))
    await _ready(autoscaler, SLICES + 2)
    return autoscaler


def tasks() -> list[dict[str, Any]]:
    """Tasks of six shapes, no two neighbours alike: each is a run of its own. Not all of them fit."""
    return [
        {"id": f"job-{i // 100}/task-{i}", "resources": {"cpu": 1 + i % 3, "memory": f"{1 + i % 2}GiB"}} for i in range(TASKS)
    ]


def _config(cluster: str, *, small: int, **rest: Any) -> ClusterConfig:
    big = {"name": "big", "host": {"cpu": 32, "memory": "64GiB"}, "max_slices": SLICES, "zone": f"{cluster}-a"}
    tiny = {"name": "small", "host": {"cpu": 0.5, "memory": "1GiB"}, "min_slices": small, "max_slices": 4, "zone": f"{cluster}-a"}
    return ClusterConfig.model_validate({"cluster": cluster, "groups": [big, tiny], **rest})


# Real slices.


async def _while_launching(machine: Machine, slices: int) -> tuple[float, list[Latencies]]:
    progress(f"full size: {slices:,} real slices are launched for {TASKS:,} tasks")
    autoscaler = AutoscalerClient(await machine.client(), "launch")
    group = {"name": "big", "host": {"cpu": 40, "memory": "64GiB"}, "max_slices": slices, "zone": "launch-a"}
    await autoscaler.start(ClusterConfig.model_validate({"cluster": "launch", "groups": [group]}))

    async def recovered() -> bool:
        return (await autoscaler.status()).recovery is None

    await until(recovered)
    waiting = [{"id": f"job-{i // 100}/task-{i}", "resources": {"cpu": 2, "memory": f"{1 + i % 2}GiB"}} for i in range(TASKS)]
    await autoscaler.submit_demand(waiting)
    began, looks = time.monotonic(), list[float]()
    async with asyncio.timeout(_LAUNCH_SECONDS):
        while True:
            asked = time.monotonic()
            status = await autoscaler.status()
            looks.append(time.monotonic() - asked)
            if sum(group.slices.get(SliceState.READY, 0) for group in status.groups) >= slices:
                break
            await asyncio.sleep(_BETWEEN_LOOKS)
    ready = time.monotonic() - began
    progress(f"full size: {slices:,} slices READY after {ready:.0f} s; verify")
    seconds = await _timed(lambda: _verified(autoscaler))
    return ready, [
        Latencies(what=f"status while {slices:,} slices launch", seconds=tuple(looks), most=STATUS_SECONDS, at=0.99),
        Latencies(what=f"verify of {slices:,} slices", seconds=(seconds,), most=VERIFY_SECONDS),
    ]


async def _verified(autoscaler: AutoscalerClient) -> None:
    verdict: Agreement = await autoscaler.client.execute_workflow(
        names.VERIFY,
        VerifyRequest(cluster=autoscaler.cluster),
        id=f"verify-{autoscaler.cluster}",
        task_queue=names.TASK_QUEUE,
        result_type=Agreement,
    )
    if not verdict.agrees:
        raise ValueError(f"ledger, workflows and cloud differ: {verdict.differences[:3]}")


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.monotonic()
    await call()
    return time.monotonic() - began


async def _ready(autoscaler: AutoscalerClient, count: int) -> None:
    async def holds() -> bool:
        return sum(group.slices.get(SliceState.READY, 0) for group in (await autoscaler.status()).groups) >= count

    await until(holds)


async def _decided(autoscaler: AutoscalerClient) -> None:
    """Wait until every task that the autoscaler has is decided on."""

    async def holds() -> bool:
        status = await autoscaler.status()
        waiting = sum(source.tasks for source in status.demand.values())
        return sum(status.placed.values()) + sum(status.unmet.values()) == waiting

    await until(holds)
    await asyncio.sleep(_PAUSE_SECONDS)


def full_size_table(result: FullSizeResult) -> Table:
    """A row per kind of call."""
    title = (
        f"Full size: {SLICES:,} slices, {TASKS:,} tasks; {result.launched:,} real slices READY after {result.ready_seconds:.0f} s"
    )
    table = Table(title=title, title_justify="left")
    for name in ("call", "n", "median s", "p99 s", "worst s", "target s"):
        table.add_column(name, justify="left" if name == "call" else "right")
    for row in result.latencies:
        figures = [f"{row.quantile(q):.3f}" for q in (0.5, 0.99, 1.0)]
        table.add_row(row.what, str(len(row.seconds)), *figures, f"{row.most:g} ({_quantile_name(row.at)})")
    return table


def _quantile_name(at: float) -> str:
    return {0.5: "median", 1.0: "worst"}.get(at, f"p{100 * at:g}")


def full_size_verdicts(result: FullSizeResult) -> list[Verdict]:
    """A target for each kind of call."""
    return [
        Verdict(
            target=f"{row.what}: {_quantile_name(row.at)} at most {row.most:g} s",
            status=Status.REACHED if row.quantile(row.at) <= row.most else Status.MISSED,
            figures=f"{row.quantile(row.at):.3f} s",
        )
        for row in result.latencies
    ]
