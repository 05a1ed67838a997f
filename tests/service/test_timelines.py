"""The timelines of other autoscalers' studies, played on the workflows and the simulated cloud."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from activities.providers.port import resource_name
from tests.journeys.facts import QUIET_SECONDS, accounts, nothing_doubled
from tests.service.ledgers import verified
from tests.service.machine import Machine
from tests.service.stage import Stage, staged
from tests.service.timelines import Case, Look, Step, load_cases

CASES = load_cases(Path(__file__).with_name("timelines.yaml"))
RESTARTED = [case for case in CASES if case.restarts]
BACKOFF = {"first": "500ms", "longest": "1s"}


@pytest.mark.parametrize("case", [case for case in CASES if not case.restarts], ids=lambda case: case.id)
def test_a_timeline(machine: Machine, case: Case) -> None:
    asyncio.run(_played(machine, case, Restarts(machine, parties=1)))


def test_timelines_over_a_restart(machine: Machine) -> None:
    """All of them at once, for one worker: it takes seconds until a worker is missed."""
    assert {case.restarts for case in RESTARTED} == {1}

    async def story() -> None:
        restarts = Restarts(machine, parties=len(RESTARTED))
        async with asyncio.TaskGroup() as cases:
            for case in RESTARTED:
                cases.create_task(_played(machine, case, restarts), name=case.id)

    try:
        asyncio.run(story())
    finally:
        assert machine.worker is not None
        if machine.worker.pid is None:
            machine.start_worker()


class Restarts:
    """The worker killed and started again, once all who want it are ready for it."""

    def __init__(self, machine: Machine, *, parties: int) -> None:
        self._machine = machine
        self._all = asyncio.Barrier(parties)

    async def around(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Do something while no worker runs."""
        if await self._all.wait() == 0:
            assert self._machine.worker is not None
            self._machine.worker.kill()
        await self._all.wait()
        await meanwhile()
        if await self._all.wait() == 0:
            await self._machine.revive_worker()
        await self._all.wait()


async def _played(machine: Machine, case: Case, restarts: Restarts) -> None:
    pools = [pool.model_dump() for pool in case.pools]
    async with staged(machine, *case.groups, backoff=BACKOFF, pools=pools) as stage:
        player = Player(stage, case, restarts)
        for step in case.steps:
            await player.step(step)
        await stage.eventually(lambda: accounts(stage), lambda seen: seen.quiet)
        await nothing_doubled(stage)
        verdict = await verified(stage)
        assert verdict.agrees, (case.id, verdict)


class Player:
    """Does what steps say, and looks until what they expect has come."""

    def __init__(self, stage: Stage, case: Case, restarts: Restarts) -> None:
        self._stage = stage
        self._case = case
        self._restarts = restarts
        self._named: dict[str, tuple[str, str]] = {}
        """By name in the case: the slice's id, and its resource's."""

    async def step(self, step: Step) -> None:
        """Everything a step says, and then everything it expects."""
        await self._tell(step)
        if step.restart:
            await self._restarts.around(lambda: self._happen(step))
        else:
            await self._happen(step)
        if step.clear_block:
            await self._stage.autoscaler.clear_block()
        try:
            await self._stage.eventually(self._look, lambda look: not look.shortfalls(step.expect), seconds=QUIET_SECONDS)
        except AssertionError as late:
            late.add_note(f"{self._case.id}: " + "; ".join((await self._look()).shortfalls(step.expect)))
            raise

    async def _tell(self, step: Step) -> None:
        stage, autoscaler = self._stage, self._stage.autoscaler
        for zone, behaviour in step.cloud.items():
            await stage.cloud.behave(zone, **behaviour)
        if step.retire:
            kept = tuple(group for group in stage.config.groups if group.name not in step.retire)
            await autoscaler.apply_config(stage.config.model_copy(update={"groups": kept}))
        if step.demand is not None:
            await autoscaler.submit_demand(step.demand)
        if step.usage:
            await autoscaler.usage({self._id(name): usage for name, usage in step.usage.items()})
        for name in step.drain:
            await autoscaler.drain(self._id(name))
        if step.confirm:
            await autoscaler.confirm_drain(*map(self._id, step.confirm))
        for name in step.cancel_drain:
            await autoscaler.cancel_drain(self._id(name))

    async def _happen(self, step: Step) -> None:
        cloud = self._stage.cloud
        for names, blow in ((step.preempt, cloud.preempt), (step.kill_host, cloud.kill_host), (step.vanish, cloud.delete)):
            for name in names:
                await blow(self._named[name][1])
        for group in step.appear:
            slice_id = f"{group}-found-{uuid.uuid4().hex[:8]}"
            labels = {"penstock-cluster": cloud.cluster, "penstock-group": group, "penstock-slice": slice_id}
            await cloud.add(resource_name(cluster=cloud.cluster, group=group, slice_id=slice_id), labels=labels)
        for name in step.strangers:
            await cloud.add(f"{name}-{cloud.cluster}", labels={"owner": "somebody"})

    def _id(self, name: str) -> str:
        return self._named[name][0]

    async def _look(self) -> Look:
        """The ledger first, the cloud last: what the ledger has as READY is then found in the cloud, and has its name."""
        stage = self._stage
        status = await stage.autoscaler.status()
        ledger = [piece async for piece in stage.autoscaler.all_slices()]
        made = await stage.cloud.ever_made()
        self._name(made)
        names = {slice_id: name for name, (slice_id, _) in self._named.items()}
        alive = Counter(item["labels"]["penstock-group"] for item in made if item["phase"] != "gone")
        assert all(alive[group] <= most for group, most in self._case.most.items()), alive
        unnamed = {piece.id: f"{piece.group}/{piece.id}" for piece in ledger}
        return Look(
            states={(unnamed | names)[piece.id]: piece.state for piece in ledger},
            phases={names[item["labels"]["penstock-slice"]]: item["phase"] for item in made},
            failures=tuple((names.get(each.slice_id, each.slice_id), each.failure.kind) for each in status.troubles),
            unmet=status.unmet,
            availability={group.name: group.availability for group in status.groups},
            strangers=await self._strangers(),
        )

    def _name(self, made: list[dict[str, Any]]) -> None:
        """Slices are numbered in the order in which the cloud made them."""
        counts: Counter[str] = Counter()
        for item in sorted(made, key=lambda item: (item["created_at"], item["name"])):
            group = item["labels"]["penstock-group"]
            counts[group] += 1
            self._named[f"{group}/{counts[group]}"] = (item["labels"]["penstock-slice"], item["name"])

    async def _strangers(self) -> tuple[str, ...]:
        names = dict.fromkeys(name for step in self._case.steps for name in step.strangers)
        items = (await self._stage.cloud.call("GET", "/resources"))["items"] if names else []
        running = {item["name"] for item in items if item["phase"] == "running"}
        return tuple(name for name in names if f"{name}-{self._stage.cloud.cluster}" in running)
