"""Slices are given back by themselves: through the client, on a real server, in the simulated cloud."""

from typing import Any

import pytest

from penstock.contract.answers import ClusterStatus
from penstock.model.slices import DrainCause, DrainTerms, Slice, SliceState
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_configuration import changed
from tests.workflows.test_demand import played, ready, tasks

SOON: dict[str, Any] = {"idle_timeout": "200ms", "cancel_after": "200ms"}
LONG: dict[str, Any] = {"idle_timeout": "1h"}


async def ids(stage: Stage, **filters: str) -> list[str]:
    return sorted([piece.id async for piece in stage.autoscaler.all_slices(**filters)])


async def used(stage: Stage, slice_ids: list[str], word: str) -> None:
    await stage.autoscaler.usage(dict.fromkeys(slice_ids, word))


def draining(status: ClusterStatus) -> list[str]:
    return sorted(drain.slice_id for drain in status.drains)


def test_a_cluster_shrinks_to_zero_once_its_slices_are_idle_and_wakes_for_demand(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        slices = await ids(stage)
        await stage.autoscaler.submit_demand([])
        await used(stage, slices, "idle")
        status = await stage.eventually(stage.autoscaler.status, lambda status: draining(status) == slices)
        assert {drain.cause for drain in status.drains} == {DrainCause.IDLE}
        assert sorted(drain.number for drain in status.drains) == [1, 2]
        await stage.autoscaler.confirm_drain(*slices)
        await stage.eventually(stage.cloud.existing, lambda found: found == [])
        await stage.eventually(lambda: ids(stage), lambda found: found == [])
        await stage.autoscaler.submit_demand(tasks(1, cpu=4, name="again"))
        await ready(stage, "small", 1)

    played(machine, story, group(**SOON))


def test_demand_takes_a_draining_slice_back(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "small", 1)
        (slice_id,) = await ids(stage)
        await stage.autoscaler.submit_demand([])
        await used(stage, [slice_id], "idle")
        await stage.eventually(lambda: ids(stage, state="DRAINING"), lambda found: found == [slice_id])
        await stage.autoscaler.submit_demand(tasks(1, cpu=4, name="again"))
        await ready(stage, "small", 1)
        assert draining(await stage.autoscaler.status()) == []
        assert len(await stage.cloud.ever_made()) == 1

    played(machine, story, group(**SOON))


def test_an_idle_slice_that_nobody_confirms_is_deleted_at_the_deadline_and_a_busy_one_serves_again(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 2)
        busy, idle = await ids(stage)
        await used(stage, [busy], "busy")
        await used(stage, [idle], "idle")
        for slice_id in (busy, idle):
            await stage.autoscaler.drain(slice_id)
        await stage.eventually(lambda: ids(stage, state="DRAINING"), lambda found: {busy, idle} <= {*found})
        await stage.workflow.signal("usage", {"usage": {}})  # A heartbeat: the source still means what it said.
        await stage.eventually(lambda: ids(stage), lambda found: idle not in found)
        await stage.eventually(lambda: ids(stage, state="READY"), lambda found: busy in found)

    played(machine, story, group(min_slices=2, timeouts={"drain": "5s"}, **LONG))


def test_a_confirmation_that_is_too_late_for_its_drain_is_refused_and_the_newer_drain_goes_on(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        (slice_id,) = await ids(stage)
        await used(stage, [slice_id], "busy")
        await stage.autoscaler.drain(slice_id)
        (old,) = (await stage.autoscaler.status()).drains
        await stage.autoscaler.cancel_drain(slice_id)
        await stage.autoscaler.drain(slice_id)
        await stage.autoscaler.confirm_drain(old)
        status = await stage.eventually(stage.autoscaler.status, lambda status: status.rejected)
        (new,) = status.drains
        assert (old.number, new.number) == (1, 2)
        assert f"drain 1 of '{slice_id}' is over, and drain 2 is under way" in status.rejected[-1].problem
        assert await ids(stage) == [slice_id]
        await stage.autoscaler.confirm_drain(new)
        await stage.eventually(lambda: ids(stage), lambda found: slice_id not in found)

    played(machine, story, group(min_slices=1, max_slices=1, **LONG))


def test_an_operators_drain_over_an_idle_one_is_shown_and_carried_out_on_the_same_terms(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "small", 1)
        (slice_id,) = await ids(stage)
        await stage.autoscaler.submit_demand([])
        await used(stage, [slice_id], "idle")
        await stage.eventually(lambda: ids(stage, state="DRAINING"), lambda found: found == [slice_id])
        await stage.autoscaler.drain(slice_id, cause="noisy fan")
        (shown,) = (await stage.autoscaler.status()).drains

        async def terms() -> DrainTerms | None:
            return (await stage.autoscaler.lifecycle(slice_id)).drain

        drain = await stage.eventually(terms, lambda drain: drain is not None and drain.number == 2)
        assert drain == DrainTerms(cause=shown.cause, number=shown.number, deadline=shown.deadline)
        await stage.autoscaler.submit_demand(tasks(1, cpu=4, name="again"))
        await stage.eventually(stage.cloud.ever_made, lambda made: len(made) == 2)
        assert draining(await stage.autoscaler.status()) == [slice_id], "demand takes no drain of an operator back"

    played(machine, story, group(**SOON))


def test_a_slice_in_the_cloud_s_queue_that_nothing_wants_is_called_off(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await stage.eventually(stage.autoscaler.slices, lambda page: [piece.queued for piece in page.slices] == [True])
        await stage.autoscaler.submit_demand([])
        await stage.eventually(lambda: ids(stage), lambda found: found == [])
        assert await stage.cloud.existing() == []

    async def with_queue(stage: Stage) -> None:
        await stage.cloud.behave(hold_queue=True)
        await story(stage)

    played(machine, with_queue, group(queued=True, **SOON))


def test_a_lowered_maximum_drains_what_is_idle_at_once_and_what_is_busy_later(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 2)
        busy, idle = await ids(stage)
        await used(stage, [busy], "busy")
        await used(stage, [idle], "idle")
        await stage.autoscaler.apply_config(changed(stage, group(max_slices=0, **LONG)))
        await stage.eventually(stage.autoscaler.status, lambda status: draining(status) == [idle])
        await used(stage, [busy], "idle")
        await stage.eventually(stage.autoscaler.status, lambda status: draining(status) == [busy, idle])
        await stage.autoscaler.confirm_drain(busy, idle)
        await stage.eventually(stage.cloud.existing, lambda found: found == [])

    played(machine, story, group(min_slices=2, **LONG))


def test_slices_of_a_removed_group_leave_when_they_are_idle(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        (slice_id,) = await ids(stage)
        await used(stage, [slice_id], "busy")
        await stage.autoscaler.apply_config(changed(stage, group("other")))
        await used(stage, [slice_id], "idle")
        status = await stage.eventually(stage.autoscaler.status, lambda status: draining(status) == [slice_id])
        assert status.drains[0].cause == DrainCause.GROUP_REMOVED
        await stage.autoscaler.confirm_drain(slice_id)
        status = await stage.eventually(stage.autoscaler.status, lambda status: status.slices == 0)
        assert [each.name for each in status.groups] == ["other"]

    played(machine, story, group(min_slices=1, **SOON))


def test_idle_time_and_what_it_has_cost_are_kept_when_the_workflow_continues_as_new(machine_of_short_runs: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        (slice_id,) = await ids(stage)
        await used(stage, [slice_id], "idle")

        async def piece() -> Slice:
            return (await stage.autoscaler.slices()).slices[0]

        since = (await stage.eventually(piece, lambda piece: piece.idle_since)).idle_since
        run = (await stage.workflow.describe()).run_id
        for number in range(30):
            await stage.autoscaler.submit_demand(tasks(number % 2, cpu=1))
        await stage.eventually(stage.workflow.describe, lambda described: described.run_id != run)
        kept = await piece()
        assert (kept.id, kept.state, kept.idle_since) == (slice_id, SliceState.READY, since)
        status = await stage.autoscaler.status()
        assert status.now is not None
        assert since is not None
        assert status.idle_cost_of_day == pytest.approx((status.now - since).total_seconds(), abs=0.01)

    played(machine_of_short_runs, story, group(min_slices=1, price_per_hour=3600, **LONG))
