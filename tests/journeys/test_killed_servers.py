"""`kill -9` of the Temporal server and of the cloud: what they had stored is what goes on."""

import asyncio
from pathlib import Path

from tests.journeys.facts import agreed_by_command, quiet
from tests.workflows.ledgers import settled
from tests.workflows.machine import Machine, running_machine
from tests.workflows.stage import group, staged
from tests.workflows.test_demand import tasks


def test_a_server_killed_with_slices_on_their_way_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        async with staged(machine, start=False) as stage:
            await stage.cloud.behave(create_latency="300ms", boot_latency="1s", delete_latency="1s")
            await stage.autoscaler.start(stage.config)
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 2)
            await _killed_and_started(machine)
            first = await quiet(stage, small=2)
            assert len(await stage.cloud.ever_made()) == 2

            leaving, staying = first.ledger
            await stage.autoscaler.submit_demand(tasks(1, cpu=4))
            await stage.autoscaler.drain(leaving.id)
            await stage.autoscaler.report(confirmed=[leaving.id])
            await _killed_and_started(machine)
            left = await quiet(stage, small=1)
            assert [piece.id for piece in left.ledger] == [staying.id]
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            await quiet(stage, small=3)
            assert len(await stage.cloud.ever_made()) == 4
            await agreed_by_command(stage)

    with running_machine(tmp_path, lasting=True) as machine:
        asyncio.run(story(machine))


async def _killed_and_started(machine: Machine) -> None:
    machine.server.kill()
    machine.server.start()
    await machine.connected()


def test_a_cloud_killed_in_the_middle_of_creates_and_deletes_loses_and_doubles_nothing(hurt: Machine) -> None:
    async def story() -> None:
        async with staged(hurt, group(max_slices=4)) as stage:
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            leaving, staying = await settled(stage, 2)
            await stage.cloud.behave(reply_latency="1h", delete_latency="1s")
            await stage.autoscaler.submit_demand(tasks(3, cpu=4))
            await stage.autoscaler.drain(leaving.id)
            await stage.autoscaler.report(confirmed=[leaving.id])
            await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 4)
            hurt.sim.kill()
            hurt.sim.start()
            await stage.cloud.behave()
            found = await quiet(stage, small=3)
            ids = {piece.id for piece in found.ledger}
            assert staying.id in ids
            assert leaving.id not in ids
            assert len(await stage.cloud.ever_made()) == 4

    asyncio.run(story())
