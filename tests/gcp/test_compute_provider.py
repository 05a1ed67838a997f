"""Compute Engine over real sockets: its behaviour beyond the rules of the port."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from activities.providers.port import (
    Conflict,
    Created,
    Deleting,
    FailureKind,
    Gone,
    Order,
    Phase,
    Queued,
    Stockout,
    Transient,
)
from tests.activities.clouds import listed, observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import ComputeCloud, Endpoints, compute_cloud


def on_a_cloud(endpoints: Endpoints, story: Callable[[ComputeCloud], Awaitable[None]]) -> None:
    async def play() -> None:
        async with compute_cloud(endpoints) as cloud:
            await story(cloud)

    asyncio.run(play())


def order_with(cloud: ComputeCloud, *, hosts: int = 2, queued: bool = False, **settings: Any) -> Order:
    order = order_of(cloud, hosts=hosts, queued=queued)
    return order.model_copy(update={"settings": order.settings | settings})


async def running(cloud: ComputeCloud, order: Order) -> None:
    await cloud.provider.create(order)
    await observed(cloud, order.ref, lambda seen: seen.healthy)


async def calls(cloud: ComputeCloud, method: str) -> int:
    made: dict[str, dict[str, int]] = await cloud.call("GET", "/calls")
    return made.get(method, {}).get(cloud.location, 0)


def test_a_slice_of_four_machines_is_one_order_and_comes_whole(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud, hosts=4, startup_script="echo hello", labels={"team": "vision"})
        order = order.model_copy(update={"slice": "Cpu.4/a1"})
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert [host.answered for host in seen.hosts] == ["Cpu.4/a1"] * 4
        made = await cloud.ever()
        assert sorted(item["name"] for item in made) == [order.name, *(f"{order.name}-{i}" for i in (1, 2, 3))]
        assert all(item["labels"]["team"] == "vision" for item in made)
        assert (await calls(cloud, "instances.bulkInsert"), await calls(cloud, "instances.insert")) == (1, 0)
        assert "export PENSTOCK_SLICE=Cpu.4/a1\n" in (await cloud.metadata(order.name))["startup-script"]

    on_a_cloud(endpoints, story)


def test_a_slice_that_does_not_fit_whole_leaves_nothing(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(capacity=3)
        with pytest.raises(Stockout):
            await cloud.provider.create(order_with(cloud, hosts=4))
        assert await cloud.ever() == []

    on_a_cloud(endpoints, story)


def test_a_slice_of_one_machine_is_inserted_alone(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud, hosts=1)
        await running(cloud, order)
        assert [item["name"] for item in await cloud.ever()] == [order.name]
        assert (await calls(cloud, "instances.bulkInsert"), await calls(cloud, "instances.insert")) == (0, 1)

    on_a_cloud(endpoints, story)


def test_a_stranger_under_the_name_of_any_machine_is_a_conflict(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await cloud.add_stranger(f"{order.name}-1")
        with pytest.raises(Conflict, match=f"{order.name}-1 in .* is a machine without the labels of slice"):
            await cloud.provider.create(order)
        assert await cloud.has_stranger(f"{order.name}-1")
        assert await cloud.times_made(order.ref) == 0

    on_a_cloud(endpoints, story)


@pytest.mark.parametrize("machine_type", ["a3-highgpu-8g", "g2-standard-48", "a2-ultragpu-1g", "a3-ultragpu-8g", "a4-highgpu-8g"])
def test_machines_with_gpus_come_spot_and_on_demand(endpoints: Endpoints, machine_type: str) -> None:
    async def story(cloud: ComputeCloud) -> None:
        for preemptible in (True, False):
            order = order_with(cloud, machine_type=machine_type)
            order = order.model_copy(update={"preemptible": preemptible, "slice": f"spot-{preemptible}"})
            await running(cloud, order)

    on_a_cloud(endpoints, story)


def test_a_machine_that_somebody_deleted_is_a_silent_host(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await running(cloud, order)
        await cloud.delete_machine(f"{order.name}-1")
        seen = await observed(cloud, order.ref, lambda seen: not seen.hosts[1].address)
        assert seen.phase is Phase.RUNNING
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, order.slice), (True, None)]
        (item,) = (await listed(cloud)).items
        assert [(host.name, bool(host.address)) for host in item.hosts] == [(order.name, True), (f"{order.name}-1", False)]

    on_a_cloud(endpoints, story)


def test_a_machine_that_is_being_deleted_alone_is_a_silent_host_already(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await running(cloud, order)
        await cloud.behave(delete_latency="1h")
        await cloud.delete_machine(f"{order.name}-1")
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert (seen.phase, [host.answered for host in seen.hosts]) == (Phase.RUNNING, [order.slice, None])
        await cloud.delete_machine(order.name)
        assert (await cloud.provider.observe(order.ref)).phase is Phase.DELETING

    on_a_cloud(endpoints, story)


def test_a_spot_machine_that_stops_is_preempted_and_one_being_deleted_is_not(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        taken, dismissed = order_of(cloud, "taken"), order_of(cloud, "dismissed")
        await running(cloud, taken)
        await running(cloud, dismissed)
        await cloud.behave(delete_latency="1h")
        await cloud.preempt(taken.ref)
        assert await cloud.provider.delete(dismissed.ref) == Deleting(ref=dismissed.ref)
        assert (await cloud.provider.observe(taken.ref)).phase is Phase.PREEMPTED
        assert (await cloud.provider.observe(dismissed.ref)).phase is Phase.DELETING
        phases = {item.ref: item.phase for item in (await listed(cloud)).items}
        assert phases == {taken.ref: Phase.PREEMPTED, dismissed.ref: Phase.DELETING}

    on_a_cloud(endpoints, story)


def test_one_machine_preempted_is_the_slice_preempted_and_all_of_it_is_deleted(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await running(cloud, order)
        await cloud.preempt(order.ref)
        await observed(cloud, order.ref, lambda seen: seen.phase is Phase.PREEMPTED)
        await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))
        assert not any(item["exists"] for item in await cloud.ever())

    on_a_cloud(endpoints, story)


def test_a_machine_on_demand_that_was_stopped_has_failed(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud).model_copy(update={"preemptible": False})
        await running(cloud, order)
        await cloud.preempt(order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.FAILED)
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.HOST_LOST
        assert order.name in seen.failure.message

    on_a_cloud(endpoints, story)


def test_a_machine_under_maintenance_runs_and_says_why_it_is_silent(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud)
        await running(cloud, order)
        await cloud.call("POST", cloud.resource(f"{order.name}-1").format("maintenance"), {"lasts": None})
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert (seen.phase, [host.answered for host in seen.hosts]) == (Phase.RUNNING, [order.slice, None])
        assert seen.failure is not None
        assert (seen.failure.kind, f"{order.name}-1" in seen.failure.message) == (FailureKind.PREEMPTED, True)
        (item,) = (await cloud.provider.list(order.location, cluster=order.cluster)).items
        assert item.failure == seen.failure

    on_a_cloud(endpoints, story)


@pytest.mark.parametrize("hosts", [1, 2])
def test_an_order_whose_operation_failed_by_chance_is_placed_again(endpoints: Endpoints, hosts: int) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud, hosts=hosts)
        method = "instances.insert" if hosts == 1 else "instances.bulkInsert"
        await cloud.fault(method, operation=[{"code": "INTERNAL_ERROR", "message": "oops"}], status=500)
        outcomes = [await _outcome(cloud, order) for _ in range(2)]
        assert outcomes[-1] == Created(ref=order.ref)
        assert await cloud.times_made(order.ref) == 1

    on_a_cloud(endpoints, story)


async def _outcome(cloud: ComputeCloud, order: Order) -> object:
    try:
        return await cloud.provider.create(order)
    except Transient as error:
        return error


def test_a_stockout_of_an_order_is_not_asked_for_twice(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await cloud.behave(stockout=True)
        with pytest.raises(Stockout):
            await cloud.provider.create(order)
        await cloud.behave()
        with pytest.raises(Stockout):
            await cloud.provider.create(order)
        assert await cloud.times_made(order.ref) == 0

    on_a_cloud(endpoints, story)


def test_a_zone_that_cannot_be_seen_is_no_evidence_that_a_slice_is_gone(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        await cloud.hide()
        for call in (cloud.provider.observe, cloud.provider.delete):
            with pytest.raises(Transient):
                await call(order.ref)

    on_a_cloud(endpoints, story)


def test_lists_are_read_to_their_last_page(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(page_size=1)
        orders = [order_of(cloud, f"slice-{i}") for i in range(3)]
        await asyncio.gather(*(cloud.provider.create(order) for order in orders))
        assert {item.ref for item in (await listed(cloud)).items} == {order.ref for order in orders}

    on_a_cloud(endpoints, story)


def test_health_is_read_from_guest_attributes_where_there_is_no_route(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud, health="guest_attributes", health_port=1)
        await cloud.provider.create(order)
        seen = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert [host.answered for host in seen.hosts] == [order.slice, order.slice]
        await cloud.kill_host(order.ref, 0)
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, None), (True, order.slice)]

    on_a_cloud(endpoints, story)


def test_a_queued_machine_is_listed_and_observed_while_it_waits(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_with(cloud, hosts=1, queued=True)
        await cloud.hold_queue()
        assert await cloud.provider.create(order) == Queued(ref=order.ref)
        (item,) = (await listed(cloud)).items
        assert (item.ref, item.phase) == (order.ref, Phase.QUEUED)
        assert (await cloud.provider.observe(order.ref)).phase is Phase.QUEUED
        await cloud.behave()
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        await cloud.preempt(order.ref)
        await observed(cloud, order.ref, lambda seen: seen.phase is Phase.PREEMPTED)

    on_a_cloud(endpoints, story)
