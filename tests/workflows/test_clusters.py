"""Several clusters on one server are independent of each other."""

import asyncio

from tests.workflows.machine import Machine
from tests.workflows.stage import group, staged
from tests.workflows.test_demand import ready, tasks


def test_two_clusters_on_one_server_are_independent(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group("mine")) as mine, staged(machine, group("yours")) as yours:
            await asyncio.gather(mine.autoscaler.submit_demand(tasks(2, cpu=4)), yours.autoscaler.submit_demand(tasks(1, cpu=4)))
            await asyncio.gather(ready(mine, "mine", 2), ready(yours, "yours", 1))
            await yours.autoscaler.pause("only here")
            assert (await mine.autoscaler.status()).paused is None
            await mine.autoscaler.delete(force=True)
            await mine.autoscaler.deleted()
            assert await mine.cloud.existing() == []
            assert len(await yours.cloud.existing()) == 1
            assert (await yours.autoscaler.status()).slices == 1

    asyncio.run(story())
