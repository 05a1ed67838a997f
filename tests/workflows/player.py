"""Playing a timeline on a stage: doing what its steps say, and looking until what they expect has come and stays."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.providers.port import resource_name
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.slices import Availability
from tests.journeys.facts import QUIET_SECONDS, accounts, nothing_doubled
from tests.workflows.ledgers import state_of, verified
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, placed, staged
from tests.workflows.timelines import Case, Expectation, Look, Standing, Step

QUICK_BACKOFF = {"backoff": {"first": "500ms", "longest": "1s"}}
REACTION_SECONDS = 1.0
"""Longer than a stage's autoscaler takes to see and to act: only after that it shows that nothing happens."""
_POLL_SECONDS = 0.05


class Restarts:
    """The worker killed and started again, once all who want it are ready for it."""

    def __init__(self, machine: Machine, *, parties: int = 1) -> None:
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


async def play(machine: Machine, case: Case, restarts: Restarts) -> None:
    """The case from its first step to the last; then all is quiet and accounted for, and still as the last step expects."""
    async with staged(machine, *case.first_groups().values(), **QUICK_BACKOFF | case.cluster) as stage:
        player = Player(stage, case, restarts)
        for step in case.steps:
            await player.step(step)
        await stage.eventually(lambda: _is_at_rest(stage), bool)
        await nothing_doubled(stage)
        verdict = await verified(stage)
        assert verdict.agrees, (case.id, verdict)
        await player.still(case.steps[-1].expect)


class Player:
    """Does what steps say, and looks until what they expect has come."""

    def __init__(self, stage: Stage, case: Case, restarts: Restarts) -> None:
        self._stage = stage
        self._case = case
        self._restarts = restarts
        self._groups = case.first_groups()
        self._retired: set[str] = set()
        self._cluster = QUICK_BACKOFF | case.cluster
        self._named: dict[str, tuple[str, str]] = {}
        """By name in the case: the slice's id, and its resource's."""

    async def step(self, step: Step) -> None:
        """Everything a step says, and then everything it expects; what was so before must outlast a reaction."""
        unchanged = not (await self._look(step.expect)).shortfalls(step.expect)
        await self._configure(step)
        await self._send(step)
        await self._order(step)
        if step.restart:
            await self._restarts.around(lambda: self._happen(step))
        else:
            await self._happen(step)
        if step.clear_block:
            await self._stage.autoscaler.clear_block(step.clear_block if isinstance(step.clear_block, str) else None)
        await self._come(step.expect)
        await self._stay(step.expect, max(step.hold_seconds, REACTION_SECONDS if unchanged else 0.0))

    async def still(self, expected: Expectation) -> None:
        """Everything is as expected now."""
        look = await self._look(expected)
        shortfalls = look.shortfalls(expected)
        assert not shortfalls, f"{self._case.id}: it did not last: {'; '.join(shortfalls)}; {look!r}"

    async def _come(self, expected: Expectation) -> None:
        def comes(look: Look) -> bool:
            return not look.shortfalls(expected)

        try:
            await self._stage.eventually(lambda: self._look(expected), comes, seconds=QUIET_SECONDS)
        except AssertionError as late:
            late.add_note(f"{self._case.id}: " + "; ".join((await self._look(expected)).shortfalls(expected)))
            raise

    async def _stay(self, expected: Expectation, seconds: float) -> None:
        """Check that the expectation holds for a time after the autoscaler has decided on all messages."""
        if seconds:
            await self._stage.eventually(lambda: _has_decided(self._stage), bool)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self.still(expected)
            await asyncio.sleep(_POLL_SECONDS)

    async def _configure(self, step: Step) -> None:
        """A new configuration, if the step has one; what no group may exceed is then the greatest maximum it ever had."""
        if not (step.cluster or step.groups or step.retire):
            return
        self._groups = self._case.changed(self._groups, step)
        self._retired = (self._retired - set(step.groups)) | set(step.retire)
        self._cluster |= step.cluster
        groups = [placed(group, self._stage.cloud.region) for name, group in self._groups.items() if name not in self._retired]
        before = self._stage.config
        changed = before.model_dump(mode="json", by_alias=True) | self._cluster | {"groups": groups}
        config = ClusterConfig.model_validate(changed)
        await self._stage.autoscaler.apply_config(config)
        self._stage.config = config.model_copy(update={"groups": tuple(_roomiest(group, before) for group in config.groups)})

    async def _send(self, step: Step) -> None:
        stage, autoscaler = self._stage, self._stage.autoscaler
        for zone, behaviour in step.cloud.items():
            await stage.cloud.behave(zone, **behaviour.model_dump(mode="json", exclude_unset=True))
        if step.pause:
            await autoscaler.pause("a step of the timeline")
        if step.resume:
            await autoscaler.resume()
        if step.demand is not None:
            await autoscaler.submit_demand(step.demand)
        for message in step.send:
            for signal, body in message.items():
                await stage.workflow.signal(signal, body)
        if step.usage:
            await autoscaler.usage({self._id(name): usage for name, usage in step.usage.items()})

    async def _order(self, step: Step) -> None:
        autoscaler = self._stage.autoscaler
        for owner, request in step.request.items():
            after = request.expires_seconds
            expires = None if after is None else datetime.now(UTC) + timedelta(seconds=after)
            await autoscaler.request_capacity(owner, request.wants, expires=expires)
        for name in step.drain:
            await autoscaler.drain(self._id(name))
        for name in step.force_drain:
            await autoscaler.drain(self._id(name), force=True)
        if step.confirm:
            await autoscaler.confirm_drain(*map(self._id, step.confirm))
        for name in step.cancel_drain:
            await autoscaler.cancel_drain(self._id(name))

    async def _happen(self, step: Step) -> None:
        cloud = self._stage.cloud
        for names, blow in ((step.preempt, cloud.preempt), (step.vanish, cloud.delete), (step.admit, cloud.admit)):
            for name in names:
                await blow(self._named[name][1])
        for name in step.kill_host:
            group, number, *host = name.split("/")
            await cloud.kill_host(self._named[f"{group}/{number}"][1], *map(int, host))
        for group in step.appear:
            await self._appear(group)
        for name in step.strangers:
            await cloud.add(f"{name}-{cloud.cluster}", labels={"owner": "another team"})

    async def _appear(self, group: str) -> None:
        """Add a resource like those of its group; one of an unknown group has one host, in the zone of the first group."""
        cloud, slice_id = self._stage.cloud, f"{group}-found-{uuid.uuid4().hex[:8]}"
        labels = {"penstock-cluster": cloud.cluster, "penstock-group": group, "penstock-slice": slice_id}
        facts = self._groups.get(group) or next(iter(self._groups.values())) | {"hosts_per_slice": 1}
        name = resource_name(cluster=cloud.cluster, group=group, slice_id=slice_id)
        await cloud.add(name, facts["zone"], labels=labels, hosts=facts.get("hosts_per_slice", 1))

    def _id(self, name: str) -> str:
        return self._named[name][0]

    async def _look(self, expected: Expectation) -> Look:
        """The ledger first, the cloud last: what the ledger has as READY is then found in the cloud, and has its name."""
        stage = self._stage
        status = await stage.autoscaler.status()
        ledger = [piece async for piece in stage.autoscaler.all_slices()]
        standing = {} if expected.standing is None else await self._standing()
        made = await stage.cloud.ever_made()
        self._name(made)
        names = {slice_id: name for name, (slice_id, _) in self._named.items()}
        alive = Counter(item["labels"]["penstock-group"] for item in made if item["phase"] != "gone")
        assert all(alive[group] <= most for group, most in self._case.most.items()), alive
        unnamed = {piece.id: f"{piece.group}/{piece.id}" for piece in ledger}
        free = (Availability.AVAILABLE, Availability.AT_MAX, Availability.POOL_EXHAUSTED)
        return Look(
            now=datetime.now(UTC),
            states={(unnamed | names)[piece.id]: piece.state for piece in ledger},
            phases={names[item["labels"]["penstock-slice"]]: item["phase"] for item in made},
            failures=tuple((names.get(each.slice_id, each.slice_id), each.failure.kind) for each in status.recent_failures),
            unmet=status.unmet,
            deferred=status.deferred,
            availability={group.name: group.availability for group in status.groups},
            blocked_until={group.name: group.until for group in status.groups if group.availability not in free},
            standing=standing,
            rejected=status.rejected_in_all,
            resync=bool(status.resync_needed),
            strangers=await self._strangers(),
        )

    async def _standing(self) -> Standing:
        outcomes = (await self._stage.autoscaler.decision()).standing
        return {outcome.owner: outcome.code or "met" for outcome in outcomes}

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


async def _has_decided(stage: Stage) -> bool:
    """Whether the last decision took every message so far into account; a paused autoscaler decides nothing."""
    state = await state_of(stage)
    return state.paused is not None or (state.orders is not None and state.orders.input_version == state.input_version)


async def _is_at_rest(stage: Stage) -> bool:
    """Whether all messages are decided on, and then nothing is in flight."""
    return await _has_decided(stage) and (await accounts(stage)).quiet


def _roomiest(group: ScaleGroup, before: ClusterConfig) -> ScaleGroup:
    """The group with the greater of its old and its new maximum: a lowered one takes nothing away."""
    old = before.group(group.name)
    return group if old is None else group.model_copy(update={"max_slices": max(group.max_slices, old.max_slices)})
