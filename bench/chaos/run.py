"""One run: start the service, churn, calm down, wait until everything is at rest, delete the cluster, and count."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import click

from bench.chaos.accounts import Facts, Fault, Finding, beyond_maximum, findings, is_clean, orders
from bench.chaos.clock import NO_COMPILER
from bench.chaos.cloud import CloudAdmin
from bench.chaos.cluster import cluster_config
from bench.chaos.controller import EXPECTED, Controller
from bench.chaos.faults import FaultyProxy, running_proxy
from bench.chaos.processes import Service
from bench.chaos.readings import Reader
from bench.chaos.steps import RAW, Churn
from bench.chaos.table import Outcome
from penstock.client import AutoscalerClient

CLUSTER = "chaos"
PROGRESS_SECONDS = 5.0
STEP_SECONDS = 2.0
"""Between two steps of the churn."""
_POLL_SECONDS = 1.0


class Options(NamedTuple):
    """The options of `python -m bench.chaos`."""

    minutes: float
    seed: int
    workers: int
    fault_share: float
    backlog: int
    clean_seconds: float
    folder: Path


class Run:
    """The parts of a run, and what was found so far."""

    def __init__(
        self,
        options: Options,
        service: Service,
        proxy: FaultyProxy,
        controller: Controller,
        churn: Churn,
        reader: Reader,
        cloud: CloudAdmin,
    ) -> None:
        self.options = options
        self.service = service
        self.proxy = proxy
        self.controller = controller
        self.churn = churn
        self.reader = reader
        self.cloud = cloud
        self.found: list[Finding] = []
        self._recent: list[str] = []
        self._maxima = {group.name: group.max_slices for group in cluster_config(CLUSTER).groups}
        self._began = time.monotonic()

    async def outcome(self) -> Outcome:
        """Churn, calm down, delete, and count."""
        async with _beside(self.service.supervise()), _beside(self._watch_maxima()):
            async with _beside(self.controller.run()):
                await self._churn()
                facts, clean_seconds = await self._until_clean()
            self.found += findings(facts, stolen=self.cloud.stolen)
            self.found += self.churn.found
            left, deleted_seconds = await self._until_deleted()
            self.found += findings(left, stolen=self.cloud.stolen)
        unique = {(each.fault, each.subject): each for each in reversed(self.found)}
        return Outcome(
            seed=self.options.seed,
            minutes=self.options.minutes,
            orders=orders(left),
            findings=tuple(sorted(unique.values())),
            clean_seconds=clean_seconds,
            deleted_seconds=deleted_seconds,
            notes=self._notes(),
        )

    async def _churn(self) -> None:
        self._began = time.monotonic()
        end = self._began + self.options.minutes * 60
        async with _beside(self._tell_steps()):
            while time.monotonic() < end:
                self._recent.append(await self.churn.step())
                await self.churn.breathe()
                await asyncio.sleep(STEP_SECONDS)

    async def _tell_steps(self) -> None:
        """A line every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            steps, self._recent = self._recent, []
            await self._tell(", ".join(steps) or "waits for an answer")

    async def _until_clean(self) -> tuple[Facts, float | None]:
        self.proxy.share = 0.0
        self.controller.calm = True
        await self.churn.calm()

        async def look() -> Facts:
            sent = {"default": self.controller.task_ids} | ({RAW: self.churn.raw_tasks} if self.churn.raw_tasks else {})
            facts = await self.reader.facts(sent)
            return await self.reader.with_verdict(facts) if is_clean(facts) else facts

        return await self._until(look, "calm: waits until everything is at rest")

    async def _until_deleted(self) -> tuple[Facts, float | None]:
        try:
            async with asyncio.timeout(self.options.clean_seconds):
                await self.controller.autoscaler.delete(force=True)
        except EXPECTED as error:
            self.found.append(Finding(Fault.WEDGED, "delete", str(error) or type(error).__name__))
        return await self._until(self.reader.facts_after_deletion, "deletes the cluster")

    async def _until(self, look: Callable[[], Awaitable[Facts]], doing: str) -> tuple[Facts, float | None]:
        """Read until clean, or the last facts at the deadline; a reading that fails then is a fault of its own."""
        began, told = time.monotonic(), 0.0
        facts, failed = Facts(), ""
        while (waited := time.monotonic() - began) < self.options.clean_seconds:
            try:
                facts, failed = await look(), ""
                if is_clean(facts):
                    return facts, waited
            except (*EXPECTED, aiohttp.ClientError) as error:
                failed = str(error) or type(error).__name__
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                counts = Counter(found.fault for found in findings(facts, stolen=self.cloud.stolen))
                open_ones = ", ".join(f"{count} {fault}" for fault, count in counts.items())
                await self._tell(f"{doing}: {failed or open_ones}")
            await asyncio.sleep(_POLL_SECONDS)
        if failed:
            self.found.append(Finding(Fault.WEDGED, doing, f"cannot be read: {failed}"))
        return await self._with_silent(facts), None

    async def _with_silent(self, facts: Facts) -> Facts:
        try:
            return facts._replace(silent=facts.silent or await self.reader.silent())
        except EXPECTED as error:
            return facts._replace(silent={"the server": str(error) or type(error).__name__})

    async def _watch_maxima(self) -> None:
        """At every moment no group has more resources than its maximum."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                self.found += beyond_maximum(await self.cloud.ever_made(), self._maxima)
            except (aiohttp.ClientError, TimeoutError):
                continue  # The cloud is down.

    async def _tell(self, doing: str) -> None:
        try:
            made = await self.cloud.ever_made()
            count = f"{len({each.slice_id for each in made})} made, {sum(each.exists for each in made)} exist"
        except (aiohttp.ClientError, TimeoutError):
            count = "the cloud is down"
        faults = sum(self.proxy.faults.values())
        seconds = time.monotonic() - self._began
        tasks = len(self.controller.task_ids)
        click.echo(f"{seconds:6.0f} s  {tasks:3} tasks, {count}, {faults} of {self.proxy.calls} calls failed | {doing}")

    def _notes(self) -> tuple[str, ...]:
        done = ", ".join(f"{count} × {name}" for name, count in sorted(self.churn.done.items()))
        faults = ", ".join(f"{count} {fault}" for fault, count in sorted(self.proxy.faults.items()))
        calls, slowest, ended = self.controller.calls, self.churn.slowest_answer, self.service.restarts
        notes = [
            f"steps: {done}",
            f"calls to the cloud: {self.proxy.calls}, of which {faults or 'none failed'}",
            f"reports of the controller: {calls['answered']} sent, {calls['failed']} failed in outages",
            f"stolen resources: {len(self.cloud.stolen)}; foreign resources: {len(self.cloud.foreign)}",
            f"slowest answer after a backlog of {self.options.backlog} reports: {slowest:.1f} s from the workers' start",
            f"workers that ended by themselves: {ended}; deadlock reports in their logs: {self.service.deadlocks()}",
        ]
        return (*notes, *(() if self.service.clock.is_possible else (NO_COMPILER,)))


async def run(options: Options) -> Outcome:
    """Start everything, run, and end everything."""
    dice = random.Random(options.seed)
    service = Service(options.folder, workers=options.workers)
    async with aiohttp.ClientSession() as session:
        proxy = FaultyProxy(service.sim_url, session, dice=random.Random(dice.random()), share=options.fault_share)
        try:
            async with running_proxy(proxy) as url:
                await service.start(url)
                client = await service.client()
                autoscaler = AutoscalerClient(client, CLUSTER)
                await autoscaler.start(cluster_config(CLUSTER))
                cloud = CloudAdmin(service.sim_url, session, cluster=CLUSTER)
                controller = Controller(autoscaler, random.Random(dice.random()))
                churn = Churn(service, client, autoscaler, cloud, dice=random.Random(dice.random()), backlog=options.backlog)
                return await Run(options, service, proxy, controller, churn, Reader(client, autoscaler, cloud), cloud).outcome()
        finally:
            service.end()


@asynccontextmanager
async def _beside(work: Awaitable[None]) -> AsyncIterator[None]:
    """Do the work while the context lasts."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
