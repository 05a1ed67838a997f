"""The controller of the cluster under churn: its demand changes, and it reports usage and confirms drains."""

import asyncio
import random
from collections import Counter
from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from bench.chaos.cluster import HOST_CPUS
from penstock.client import AutoscalerClient, ClientError
from penstock.contract.messages import Confirmation
from penstock.model.slices import SliceState

TICK_SECONDS = 0.7
CALL_SECONDS = 15.0
MOST_TASKS, MOST_GANGS = 40, 4
"""Less than the groups can hold, so that in the end all demand is met."""
_UPDATE_SHARE = 0.2
_CHANGE_SHARE = 0.3
_GANG_SHARE = 0.1
_SWITCH_SHARE = 0.1
_MOST_GIVEN_BACK = 4
"""Slices that one tick gives back, so that there is always something to order."""
EXPECTED = (RPCError, TimeoutError, ClientError, RuntimeError, WorkflowFailureError)
"""What calls raise while server or workers are down."""


class Controller:
    """Sends demand through the Python client: snapshots, deltas and usage, whether anybody listens or not."""

    def __init__(self, autoscaler: AutoscalerClient, dice: random.Random) -> None:
        self.autoscaler = autoscaler
        self.tasks: dict[str, dict[str, Any]] = {}
        self.calm = False
        self.calls: Counter[str] = Counter()
        self._dice = dice
        self._numbers = 0
        self._busy: dict[str, bool] = {}

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await self._tick()
                self.calls["answered"] += 1
            except EXPECTED:
                self.calls["failed"] += 1

    @property
    def task_ids(self) -> frozenset[str]:
        """The ids of all tasks that wait: one of a kind has its own id, a gang of two has two."""
        found: set[str] = set()
        for task_id, task in self.tasks.items():
            found |= {f"{task_id}/{number}" for number in range(2)} if "gang" in task else {task_id}
        return frozenset(found)

    async def _tick(self) -> None:
        if not self.calm and self._dice.random() < _CHANGE_SHARE:
            self._change_demand()
        wanted = list(self.tasks.values())
        if self._dice.random() < _UPDATE_SHARE:
            await self.autoscaler.submit_demand(wanted)
        slices = [piece async for piece in self.autoscaler.all_slices()]
        ready = [piece.id for piece in slices if piece.state is SliceState.READY]
        drained = [(piece.id, piece.drain.number) for piece in slices if piece.state is SliceState.DRAINING and piece.drain]
        emptied = [Confirmation(slice_id=slice_id, number=number) for slice_id, number in drained]
        await self.autoscaler.report(wanted, usage=self._usage(ready), confirmed=emptied)
        if not self.calm:
            await self._give_back(ready)

    async def _give_back(self, ready: list[str]) -> None:
        for slice_id in self._dice.sample(ready, min(len(ready), self._dice.randint(0, _MOST_GIVEN_BACK))):
            await self.autoscaler.drain(slice_id, cause="churn", force=self._dice.random() < 0.5)

    def _usage(self, ready: list[str]) -> dict[str, str]:
        for slice_id in ready:
            if self._dice.random() < _SWITCH_SHARE or slice_id not in self._busy:
                self._busy[slice_id] = self._dice.random() < 0.5
        return {slice_id: "busy" if self._busy[slice_id] and not self.calm else "idle" for slice_id in ready}

    def _change_demand(self) -> None:
        """Towards a new number of tasks, some of them gangs; with it go some that waited."""
        goal = self._dice.randint(0, MOST_TASKS)
        for _ in range(max(0, len(self.tasks) - goal) + self._dice.randint(0, 2)):
            if self.tasks:
                del self.tasks[self._dice.choice(sorted(self.tasks))]
        gangs = sum("gang" in task for task in self.tasks.values())
        while len(self.tasks) < goal:
            is_gang = gangs < MOST_GANGS and self._dice.random() < _GANG_SHARE
            gangs += is_gang
            self._add({"gang": {"size": 2}} if is_gang else {})

    def _add(self, more: dict[str, Any]) -> None:
        self._numbers += 1
        task_id = f"task-{self._numbers}"
        self.tasks[task_id] = {"id": task_id, "resources": {"cpu": HOST_CPUS}} | more
