"""The steps of the churn, dealt from a shuffled deck: each kind comes before any comes again."""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from activities.temporal_reads import running_slices
from bench.chaos.accounts import Fault, Finding
from bench.chaos.cloud import CLUSTER_LABEL, GROUP_LABEL, SLICE_LABEL, CloudAdmin
from bench.chaos.cluster import HOST_CPUS, ZONES
from bench.chaos.controller import EXPECTED
from bench.chaos.processes import Service
from bench.chaos.readings import Reader
from penstock.client import AutoscalerClient
from penstock.contract import names

STEP_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 3.0
BACKLOG_BYTES = 8_000
"""The size of one raw report: a snapshot of demand and the usage of every slice, from another SDK."""
OVERLAP_SHARE = 0.4
"""Steps that are followed by the next one before the service has recovered."""
LONGEST_SPELL = 5
"""Steps that a stockout or incomplete listings of a zone last at most."""
RAW = "raw"
"""The source of the demand in raw reports."""
SKEWS = (-300, -40, 40, 300)
"""Seconds by which a worker's clock is off: a drifted one, and one that was never set."""


class Churn:
    """Everything that is done to the service, in an order that the seed decides."""

    def __init__(
        self,
        service: Service,
        client: Client,
        autoscaler: AutoscalerClient,
        cloud: CloudAdmin,
        *,
        dice: random.Random,
        backlog: int,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.found: list[Finding] = []
        self.raw_tasks: frozenset[str] = frozenset()
        self.slowest_answer = 0.0
        self._service = service
        self._client = client
        self._autoscaler = autoscaler
        self._cloud = cloud
        self._reader = Reader(client, autoscaler, cloud)
        self._dice = dice
        self._backlog = backlog
        self._deck: list[Callable[[], Awaitable[None]]] = []
        self._behaviour: dict[str, dict[str, Any]] = {zone: {} for zone in ZONES}
        self._spells: dict[tuple[str, str], int] = {}
        self._steps = 0

    async def step(self) -> str:
        """Take the next step; returns its name, with what became of it if it could not be taken."""
        if not self._deck:
            self._deck = self._all_steps()
            self._dice.shuffle(self._deck)
        step = self._deck.pop()
        self._steps += 1
        name = step.__name__.strip("_").replace("_", " ")
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await self._end_spells()
                await step()
        except (*EXPECTED, aiohttp.ClientError) as error:
            self.done["could not be taken"] += 1
            return f"{name}: {str(error) or type(error).__name__}"[:100]
        self.done[name] += 1
        return name

    async def breathe(self) -> None:
        """After about half of the steps, wait until the autoscaler answers; the others overlap with what follows."""
        if self._dice.random() < OVERLAP_SHARE:
            return
        await self._reader.autoscaler_answers()

    async def calm(self) -> None:
        """The cloud behaves again, and every process runs with the right time."""
        for name in self._service.workers:
            self._service.kill_worker(name)
            self._service.start_worker(name)
        for zone in ZONES:
            await self._cloud.behave(zone)

    def _all_steps(self) -> list[Callable[[], Awaitable[None]]]:
        skew = (self._skew_a_clock,) if self._service.clock.is_possible else ()
        return [
            self._kill_a_worker,
            self._kill_a_worker,
            self._kill_all_workers,
            self._kill_the_server,
            self._kill_the_cloud,
            self._kill_everything,
            self._send_a_backlog,
            *skew,
            self._preempt,
            self._preempt_a_zone,
            self._kill_a_host,
            self._steal,
            self._steal,
            self._add_a_foreign_resource,
            self._run_dry,
            self._list_in_part,
            self._slow_a_zone,
            self._drain,
            self._drain,
            self._drain,
            self._reset_the_autoscaler,
            self._terminate_a_slice_workflow,
        ]

    # Processes.

    async def _kill_a_worker(self) -> None:
        name = self._dice.choice(sorted(self._service.workers))
        self._service.kill_worker(name)
        await self._pause()
        self._service.start_worker(name)

    async def _kill_all_workers(self) -> None:
        for name in self._service.workers:
            self._service.kill_worker(name)
        await self._pause()
        for name in self._service.workers:
            self._service.start_worker(name)

    async def _kill_the_server(self) -> None:
        self._service.server.kill()
        await self._pause()
        self._service.server.start()
        await self._service.until_server_answers()

    async def _kill_the_cloud(self) -> None:
        self._service.cloud.kill()
        await self._pause()
        self._service.cloud.start()
        await self._service.until_cloud_answers()

    async def _kill_everything(self) -> None:
        self._service.end()
        await self._pause()
        self._service.server.start()
        self._service.cloud.start()
        await self._service.until_server_answers()
        await self._service.until_cloud_answers()
        for name in self._service.workers:
            self._service.start_worker(name)

    async def _skew_a_clock(self) -> None:
        name = self._dice.choice(sorted(self._service.workers))
        self._service.kill_worker(name)
        self._service.start_worker(name, clock_offset=self._dice.choice(SKEWS))

    # Messages.

    async def _send_a_backlog(self) -> None:
        """Raw reports while no worker runs; then the autoscaler must answer."""
        slices = sorted(await running_slices(self._client, self._cloud.cluster))
        for name in self._service.workers:
            self._service.kill_worker(name)
        handle = self._client.get_workflow_handle(names.autoscaler_id(self._cloud.cluster))
        epoch, tasks = int(time.time() * 1000), [f"raw-{self._dice.randrange(10**6)}-{number}" for number in range(2)]
        try:
            for revision in range(1, self._backlog + 1):
                await handle.signal(names.REPORT, self._report(epoch, revision, tasks, slices))
            self.raw_tasks = frozenset(tasks)
        finally:
            for name in self._service.workers:
                self._service.start_worker(name)
        began = time.monotonic()
        silence = await self._reader.autoscaler_answers()
        if silence is not None:
            self.found.append(Finding(Fault.WEDGED, handle.id, f"after a backlog of {self._backlog} reports: {silence}"))
        self.slowest_answer = max(self.slowest_answer, time.monotonic() - began)

    def _report(self, epoch: int, revision: int, tasks: list[str], slices: list[str]) -> dict[str, Any]:
        usage = {slice_id: self._dice.choice(("idle", "busy")) for slice_id in slices}
        wanted: list[dict[str, Any]] = [{"id": task_id, "resources": {"cpu": HOST_CPUS}} for task_id in tasks]
        demand = {"source": RAW, "epoch": epoch, "revision": revision, "tasks": wanted}
        left = BACKLOG_BYTES - 60 * (len(slices) + len(tasks))
        if revision < self._backlog and left > 0:  # The last one says what holds; those before it are of the same size.
            demand["tasks"] = [*wanted, *({"id": f"old-{n}", "resources": {"cpu": HOST_CPUS}} for n in range(left // 45))]
        return {"demand": demand, "usage": usage}

    async def _drain(self) -> None:
        slices = [piece.id async for piece in self._autoscaler.all_slices(state="READY")]
        if slices:
            await self._autoscaler.drain(self._dice.choice(slices), force=self._dice.random() < 0.7)

    # The cloud.

    async def _preempt(self) -> None:
        await self._hit(self._cloud.preempt)

    async def _kill_a_host(self) -> None:
        await self._hit(self._cloud.kill_host)

    async def _steal(self) -> None:
        await self._hit(self._cloud.steal)

    async def _hit(self, blow: Callable[[str], Awaitable[None]]) -> None:
        existing = await self._cloud.names()
        if existing:
            await blow(self._dice.choice(existing))

    async def _preempt_a_zone(self) -> None:
        await self._cloud.preempt_zone(ZONES[1])

    async def _add_a_foreign_resource(self) -> None:
        """Without labels, or of another cluster: neither is ours."""
        other = {CLUSTER_LABEL: "another", GROUP_LABEL: "steady", SLICE_LABEL: f"steady-{uuid.uuid4().hex[:8]}"}
        labels = self._dice.choice(({}, {"owner": "somebody"}, other))
        await self._cloud.add_foreign(f"theirs-{uuid.uuid4().hex[:8]}", self._dice.choice(ZONES), labels)

    async def _run_dry(self) -> None:
        await self._spell("stockout")

    async def _list_in_part(self) -> None:
        await self._spell("partial_lists")

    async def _slow_a_zone(self) -> None:
        latencies = {
            f"{what}_latency": f"{self._dice.randint(0, 800)}ms" for what in ("create", "boot", "init", "delete", "reply")
        }
        await self._behave(self._dice.choice(ZONES), latencies)

    async def _spell(self, switch: str) -> None:
        """Switch something on in a zone, for a few steps."""
        zone = self._dice.choice(ZONES)
        self._spells[zone, switch] = self._steps + self._dice.randint(2, LONGEST_SPELL)
        await self._behave(zone, {switch: True})

    async def _end_spells(self) -> None:
        for zone, switch in [key for key, last in self._spells.items() if last <= self._steps]:
            await self._behave(zone, {switch: False})
            del self._spells[zone, switch]

    async def _behave(self, zone: str, behaviour: dict[str, Any]) -> None:
        self._behaviour[zone] |= behaviour
        await self._cloud.behave(zone, **self._behaviour[zone])

    # Workflows.

    async def _reset_the_autoscaler(self) -> None:
        """Back to the end of a random task of the current run, as an operator can."""
        workflow_id = names.autoscaler_id(self._cloud.cluster)
        run_id = (await self._client.get_workflow_handle(workflow_id).describe()).run_id
        history = await self._client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        ends = [event.event_id for event in history.events if event.event_type == completed]
        if not ends:
            return  # A run that has just begun.
        await self._client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=self._client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                reason="chaos",
                workflow_task_finish_event_id=self._dice.choice(ends),
                request_id=uuid.uuid4().hex,
            )
        )

    async def _terminate_a_slice_workflow(self) -> None:
        running = sorted((await running_slices(self._client, self._cloud.cluster)).items())
        if running:
            slice_id, group = self._dice.choice(running)
            handle = self._client.get_workflow_handle(names.slice_workflow_id(self._cloud.cluster, group, slice_id))
            await handle.terminate("chaos")

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(0, LONGEST_PAUSE_SECONDS))
