"""A group that reports of pressure drive: through the client, on a real server, in the simulated cloud."""

from typing import Any

from penstock.contract.answers import ClusterStatus
from penstock.model.slices import DrainCause
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_demand import played, ready
from tests.workflows.test_giving_back import draining, ids

DRIVEN: dict[str, Any] = {"drive": "pressure", "slots_per_slice": 2, "shrink_cooldown": "0s", "max_slices": 4}


async def reported(stage: Stage, **numbers: int) -> None:
    said: dict[str, Any] = {"queued": 0, "running": 0, "capacity": 0, "slices": 0} | numbers
    await stage.autoscaler.pressure("small", **said)


async def by_age(stage: Stage) -> list[str]:
    """The slices in the order in which they were ordered."""
    return [piece.id async for piece in stage.autoscaler.all_slices()]


def desired(status: ClusterStatus) -> int | None:
    (small,) = status.groups
    assert small.driven is not None
    return small.driven.desired


def test_queue_lengths_grow_a_group_and_shrink_it_once_the_controller_confirms(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await reported(stage, queued=6)
        await ready(stage, "small", 3)
        first, second, third = await by_age(stage)
        await reported(stage, running=1, capacity=6, slices=3)
        status = await stage.eventually(stage.autoscaler.status, lambda status: draining(status) != [])
        assert (draining(status), desired(status)) == ([third], 2)
        assert {drain.cause for drain in status.drains} == {DrainCause.PRESSURE}
        await stage.autoscaler.usage({third: "idle"})
        await stage.autoscaler.confirm_drain(third)
        await stage.eventually(lambda: by_age(stage), lambda found: found == [first, second])
        await stage.eventually(stage.cloud.existing, lambda found: len(found) == 2)

    played(machine, story, group(**DRIVEN))


def test_a_queue_takes_a_draining_slice_back_and_what_nobody_confirms_serves_again(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        await reported(stage, queued=4, running=2, capacity=2, slices=1)
        await ready(stage, "small", 3)
        first, second, third = await by_age(stage)
        await reported(stage, running=1, capacity=6, slices=3)
        await stage.eventually(lambda: ids(stage, state="DRAINING"), lambda found: found == [third])
        await reported(stage, queued=2, running=4, capacity=4, slices=2)
        await ready(stage, "small", 3)
        assert len(await stage.cloud.ever_made()) == 3
        await reported(stage, running=1, capacity=6, slices=3)
        await stage.eventually(lambda: ids(stage, state="DRAINING"), lambda found: found == [third])
        await stage.autoscaler.usage({third: "idle"})
        await stage.eventually(stage.autoscaler.dump, lambda state: state.by_id[third].unconfirmed_at is not None)
        assert await by_age(stage) == [first, second, third]

    played(machine, story, group(min_slices=1, timeouts={"drain": "3s"}, **DRIVEN))
