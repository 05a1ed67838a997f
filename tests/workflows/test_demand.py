"""Demand becomes slices: through the client, on a real server, in the simulated cloud."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client import Refused
from penstock.contract import names
from penstock.contract.answers import TaskStatus
from penstock.model.decision import Code
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, SliceState
from tests.workflows.histories import Record, recorded
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged

BACKOFF = {"first": "1s", "longest": "1s"}


def tasks(count: int, *, cpu: float = 1, name: str = "task", **rest: Any) -> list[dict[str, Any]]:
    """Tasks of one shape."""
    return [{"id": f"{name}-{i}", "resources": {"cpu": cpu}} | rest for i in range(count)]


async def ready(stage: Stage, group_name: str, count: int) -> None:
    """Wait until so many slices of the group are READY, and no more: none of them leaves by itself."""
    look = stage.autoscaler.slices
    found = await stage.eventually(lambda: look(group=group_name, state="READY"), lambda page: page.total >= count)
    assert found.total == count


async def recovered(stage: Stage) -> None:
    """Wait until the ledger is trusted: before, nothing is decided."""
    await stage.eventually(stage.autoscaler.status, lambda status: status.recovery is None)


def played(machine: Machine, story: Callable[[Stage], Awaitable[None]], *groups: dict[str, Any], **config: Any) -> None:
    """Play a story on a stage of its own."""

    async def play() -> None:
        async with staged(machine, *groups, **config) as stage:
            await story(stage)

    asyncio.run(play())


def test_demand_becomes_ready_slices_and_no_more_than_it_needs(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        accepted = await stage.autoscaler.submit_demand(tasks(6, cpu=2))
        assert (accepted.revision, accepted.config_revision, accepted.resync_needed) == (1, 1, None)
        await ready(stage, "small", 3)
        explained = await stage.autoscaler.explain("task-5")
        assert (explained.status, explained.group) == (TaskStatus.PLACED, "small")
        decision = await stage.autoscaler.decision()
        assert decision.launches == {}
        assert decision.groups["small"].have == 3
        assert len(await stage.cloud.ever_made()) == 3

    played(machine, story)


def test_a_gang_gets_whole_slices_of_one_group(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand([{"id": "train", "resources": {"cpu": 4}, "gang": {"size": 4}}])
        await ready(stage, "pair", 2)
        assert [len(made["hosts"]) for made in await stage.cloud.ever_made()] == [2, 2]

    played(machine, story, group("pair", hosts_per_slice=2))


def test_a_stockout_overflows_to_the_next_group_and_demand_returns_once_the_block_ends(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.cloud.behave("a", stockout=True)
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "second", 1)
        status = await stage.autoscaler.status()
        assert {(failed.group, failed.failure.kind) for failed in status.recent_failures} == {("first", FailureKind.STOCKOUT)}

        await stage.cloud.behave("a")
        await stage.autoscaler.submit_demand(tasks(3, cpu=4))
        await ready(stage, "first", 2)
        status = await stage.autoscaler.status()
        assert {each.name: each.availability for each in status.groups}["first"] is Availability.AVAILABLE

    first, second = group("first", zone="a", priority=1), group("second", zone="b", priority=2, max_slices=1)
    played(machine, story, first, second, backoff=BACKOFF)


def test_demand_that_a_group_does_not_serve_within_its_patience_goes_to_the_next_group(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.cloud.behave("a", create_latency="1h")
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "next", 1)
        assert {piece.group: piece.state for piece in (await stage.autoscaler.slices()).slices} == {
            "slow": SliceState.REQUESTING,
            "next": SliceState.READY,
        }

    played(machine, story, group("slow", priority=1, patience="1s", max_slices=1), group("next", zone="b", priority=2))


def test_demand_that_no_group_can_take_is_counted_and_explained(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        odd_one = {"id": "odd", "resources": {"gpus": 1}}
        with pytest.raises(Refused, match=r"tasks: odd: resources\.gpus: unknown key; did you mean gpu\?"):
            await stage.autoscaler.submit_demand([*tasks(5, cpu=4), odd_one])
        assert (await stage.autoscaler.status()).demand == {}
        answer = await stage.workflow.execute_update(names.SUBMIT_DEMAND, {"tasks": [*tasks(5, cpu=4), odd_one]})
        assert (answer["applied"], answer["invalid"]) == (False, 1)
        assert answer["problem"] == "tasks: odd: resources.gpus: unknown key; did you mean gpu?"
        await stage.eventually(stage.autoscaler.status, lambda status: status.unmet == {Code.NO_CAPACITY: 1, Code.INVALID: 1})
        explained = await stage.autoscaler.explain("task-4")
        assert explained.code is Code.NO_CAPACITY
        assert explained.remedy is not None
        assert explained.remedy.message == "raise max_slices of small from 4 to 5"
        odd = await stage.autoscaler.explain("odd")
        assert "resources.gpus: unknown key; did you mean gpu?" in odd.text
        decision = await stage.autoscaler.decision()
        assert {unmet.code for unmet in decision.unmet} == {Code.NO_CAPACITY, Code.INVALID}

    played(machine, story)


def test_minimum_and_standing_requests_are_kept_without_demand(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        await stage.autoscaler.request_capacity("team", [{"resources": {"cpu": 4}, "count": 3}])
        await ready(stage, "small", 3)
        assert [(request.owner, request.met) for request in (await stage.autoscaler.status()).standing] == [("team", True)]
        await stage.autoscaler.release_capacity("team")
        assert (await stage.autoscaler.status()).standing == ()

    played(machine, story, group(min_slices=1))


def test_at_rest_an_autoscaler_costs_no_events(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        await stage.eventually(
            stage.autoscaler.dump, lambda state: state.orders and state.orders.input_version == state.input_version
        )
        # No message will arrive, so the next event can only be one that it waits for.
        record = await stage.eventually(lambda: recorded(stage.workflow), is_at_rest)
        deadline = (await stage.autoscaler.status()).next_change_at
        assert len([timer for timer in record.timers() if timer.ended is None]) == (deadline is not None)

    played(machine, story)


def is_at_rest(record: Record) -> bool:
    """Nothing is in flight, and no timer runs but the one to the deadline of the last decision."""
    waiting = {timer.about for timer in record.timers() if timer.ended is None}
    working = [activity for activity in record.activities() if activity.ended is None]
    return record.is_between_tasks() and not working and waiting <= {"next scheduled evaluation"}
