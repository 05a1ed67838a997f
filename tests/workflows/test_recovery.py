"""Recovery: whatever is terminated or reset by hand, every slice is known again, none is doubled, none is deleted."""

import asyncio

from penstock.core.state.state import AutoscalerState
from penstock.model.slices import Slice
from tests.workflows.ledgers import all_listed, inventory, made, reset, run_of, settled, state_of, verified
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged


def test_a_new_autoscaler_finds_every_slice_of_the_one_that_was_terminated(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=2), group("large", zone="b", min_slices=1)) as stage:
            slices = await settled(stage, 3)
            await stage.workflow.terminate("by hand")
            await stage.autoscaler.start(stage.config)
            await _all_as_before(stage, slices)

    asyncio.run(story())


def test_slices_on_their_way_are_known_again_too(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=3), start=False) as stage:
            await stage.cloud.behave(create_latency="1s", boot_latency="1s", init_latency="1s")
            await stage.autoscaler.start(stage.config)
            items = await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 3)
            await stage.workflow.terminate("by hand")
            await stage.autoscaler.start(stage.config)
            found = await settled(stage, 3)
            assert {piece.id for piece in found} == {item["labels"]["penstock-slice"] for item in items}
            await _all_as_before(stage, found)

    asyncio.run(story())


def test_everything_terminated_at_once_is_found_again(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=2)) as stage:
            slices = await settled(stage, 2)
            await stage.workflow.terminate("by hand")
            await inventory(stage).terminate("by hand")
            for piece in slices:
                await stage.slice_workflow(piece.group, piece.id).terminate("by hand")
            await stage.autoscaler.start(stage.config)
            await _all_as_before(stage, slices)

    asyncio.run(story())


def test_an_autoscaler_that_was_reset_orders_nothing_until_it_knows_its_slices(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=3)) as stage:
            slices = await settled(stage, 3)
            before = await run_of(stage.workflow)
            await reset(stage)
            after = await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
            await stage.eventually(lambda: state_of(stage), lambda state: state.recovered_in == after)
            await _all_as_before(stage, slices)

    asyncio.run(story())


def test_a_slice_that_was_reset_goes_on(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            handle = stage.slice_workflow(piece.group, piece.id)
            before = await run_of(handle)
            await reset(stage, handle)
            await stage.eventually(lambda: run_of(handle), lambda run: run not in (None, before))
            await _all_as_before(stage, (piece,))

    asyncio.run(story())


def test_nothing_is_ordered_while_a_location_gives_no_complete_list(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=2), group("large", zone="b", min_slices=1)) as stage:
            slices = await settled(stage, 3)
            await all_listed(stage, 3)
            await stage.cloud.behave("a", partial_lists=True)
            await stage.workflow.terminate("by hand")
            await stage.autoscaler.start(stage.config)
            waiting = f"sim/{stage.cloud.zone('a')}"
            state = await stage.eventually(lambda: state_of(stage), lambda state: _waits_for(state, waiting))
            assert (state.evaluations, {piece.id for piece in state.slices}) == (0, {piece.id for piece in slices})
            await stage.cloud.behave("a")
            await _all_as_before(stage, slices)

    asyncio.run(story())


def _waits_for(state: AutoscalerState, location: str) -> bool:
    return state.recovery is not None and state.recovery.reports_collected and state.recovery.waiting == (location,)


async def _all_as_before(stage: Stage, slices: tuple[Slice, ...]) -> None:
    """Every slice is known and READY, all workflows run, and exactly one resource was ever made for each."""
    ids = sorted(piece.id for piece in slices)
    found = await stage.eventually(lambda: settled(stage, len(ids)), lambda found: sorted(piece.id for piece in found) == ids)
    for piece in found:
        assert await run_of(stage.slice_workflow(piece.group, piece.id)), piece
    await stage.eventually(lambda: state_of(stage), lambda state: state.evaluations)
    assert await made(stage) == ids
    assert sorted(item["labels"]["penstock-slice"] for item in await stage.cloud.existing()) == ids
    verdict = await verified(stage)
    assert verdict.agrees, verdict
