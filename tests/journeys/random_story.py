"""A story of random steps on one cluster: the same for the same seed, as far as clouds and clocks allow."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from temporalio.service import RPCError

from penstock.client import Refused
from tests.journeys.facts import QUIET_SECONDS, Accounts, accounts, nothing_doubled
from tests.workflows.ledgers import inventory, reset, run_of, state_of, verified
from tests.workflows.stage import Stage
from tests.workflows.test_demand import tasks

MOST = 5
"""As many tasks as the cluster's maximum allows: one slice each."""
ZONES = ("a", "b")


class RandomStory:
    """The steps so far, and the behaviour of the cloud."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.steps: list[str] = []
        self._dice = random.Random(seed)
        self._wanted = 0
        self._stolen: set[str] = set()
        self._behaviour: dict[str, dict[str, Any]] = {zone: {} for zone in ZONES}
        self._recent_failures: tuple[Callable[[], Awaitable[str]], ...] = (
            self._preempt,
            self._kill_host,
            self._delete_behind_our_back,
            self._stockout,
            self._partial_lists,
            self._failing_deletes,
            self._lost_replies,
            self._slow,
            self._terminate_slice,
            self._terminate_autoscaler,
            self._terminate_inventory,
            self._reset,
            self._drain,
        )

    async def step(self) -> None:
        """Change demand, which is answered or waits for the end of a recovery, and inject a fault meanwhile."""
        await self._ask_for(self._dice.randint(0, MOST))
        self.steps.append(await self._dice.choice(self._recent_failures)())
        await nothing_doubled(self.stage, stolen=self._stolen)

    async def end(self) -> None:
        """The cloud behaves again, and demand stands: all of it is met, every slice is READY and owned, `verify` agrees."""
        for zone in ZONES:
            await self.stage.cloud.behave(zone)
        self._wanted = self._dice.randint(1, MOST)
        await self._ask_for(self._wanted)
        await self.stage.eventually(self._whole, lambda seen: seen is not None, seconds=QUIET_SECONDS)
        await nothing_doubled(self.stage, stolen=self._stolen)
        verdict = await verified(self.stage)
        assert verdict.agrees, verdict

    async def _whole(self) -> Accounts | None:
        """The accounts, if they agree and nothing is left to do."""
        seen = await accounts(self.stage)
        if not seen.quiet or len(seen.ledger) < self._wanted:
            return None
        decision = await self.stage.autoscaler.decision()
        if decision.launches or decision.unmet or not await self._all_hosts_answer():
            return None
        return seen if (await verified(self.stage)).agrees else None

    async def _all_hosts_answer(self) -> bool:
        try:
            for item in await self.stage.cloud.existing():
                await self.stage.cloud.call("GET", f"/health/{item['name']}/0")
        except aiohttp.ClientResponseError:
            return False
        return True

    async def _ask_for(self, count: int) -> None:
        self._wanted = count
        self.steps.append(f"demand {count}")
        evaluations = (await state_of(self.stage)).evaluations
        await self.stage.autoscaler.submit_demand(tasks(count, cpu=4))
        await self.stage.eventually(
            lambda: state_of(self.stage), lambda state: state.recovery is not None or state.evaluations != evaluations
        )

    # Faults of the cloud.

    async def _preempt(self) -> str:
        return await self._hit("preempt", self.stage.cloud.preempt)

    async def _kill_host(self) -> str:
        return await self._hit("kill a host of", self.stage.cloud.kill_host)

    async def _delete_behind_our_back(self) -> str:
        async def steal(name: str) -> None:
            self._stolen.add(name)
            await self.stage.cloud.delete(name)

        return await self._hit("delete", steal)

    async def _hit(self, verb: str, blow: Callable[[str], Awaitable[None]]) -> str:
        existing = sorted(item["name"] for item in await self.stage.cloud.existing())
        if not existing:
            return f"nothing to {verb}"
        name = self._dice.choice(existing)
        try:
            await blow(name)
        except aiohttp.ClientResponseError as refused:
            return f"{verb} {name}: {refused.status}"  # It was on its way out.
        return f"{verb} {name}"

    async def _stockout(self) -> str:
        return await self._turn("stockout")

    async def _partial_lists(self) -> str:
        return await self._turn("partial_lists")

    async def _failing_deletes(self) -> str:
        return await self._behave(self._dice.choice(ZONES), failing_deletes=self._dice.randint(1, 3))

    async def _lost_replies(self) -> str:
        return await self._behave(self._dice.choice(ZONES), lost_replies=self._dice.randint(1, 3))

    async def _slow(self) -> str:
        latencies = {f"{what}_latency": f"{self._dice.randint(0, 500)}ms" for what in ("create", "boot", "delete", "reply")}
        return await self._behave(self._dice.choice(ZONES), **latencies)

    async def _turn(self, switch: str) -> str:
        zone = self._dice.choice(ZONES)
        return await self._behave(zone, **{switch: not self._behaviour[zone].get(switch, False)})

    async def _behave(self, zone: str, **behaviour: Any) -> str:
        self._behaviour[zone] |= behaviour
        await self.stage.cloud.behave(zone, **self._behaviour[zone])
        return f"zone {zone}: {behaviour}"

    # Faults on the server.

    async def _terminate_slice(self) -> str:
        slices = (await state_of(self.stage)).slices
        running = [piece for piece in slices if await run_of(self.stage.slice_workflow(piece.group, piece.id))]
        if not running:
            return "no slice to terminate"
        piece = self._dice.choice(running)
        await self.stage.slice_workflow(piece.group, piece.id).terminate("by hand")
        return f"terminate slice {piece.id}"

    async def _terminate_autoscaler(self) -> str:
        await self.stage.workflow.terminate("by hand")
        await self.stage.autoscaler.start(self.stage.config)
        return "terminate the autoscaler"

    async def _terminate_inventory(self) -> str:
        """With its autoscaler, whose recovery starts it again: alone, it would be missed at a worker's next round only."""
        await self.stage.workflow.terminate("by hand")
        zone = self._dice.choice(ZONES)
        handle = inventory(self.stage, zone)
        if await run_of(handle):
            await handle.terminate("by hand")
        await self.stage.autoscaler.start(self.stage.config)
        return f"terminate the autoscaler and the inventory of zone {zone}"

    async def _reset(self) -> str:
        try:
            await reset(self.stage)
        except RPCError as refused:
            return f"reset the autoscaler: {refused}"  # It was about something that the server does not cut in two.
        return "reset the autoscaler"

    async def _drain(self) -> str:
        slices = (await state_of(self.stage)).slices
        if not slices:
            return "no slice to drain"
        piece = self._dice.choice(slices)
        try:
            await self.stage.autoscaler.drain(piece.id, force=True)
        except Refused as refused:
            return f"drain {piece.id}: {refused}"  # It was on its way out.
        return f"drain {piece.id}"
