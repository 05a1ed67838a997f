"""Cloud TPU over real sockets: its behaviour beyond the rules of the port."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from activities.providers.gcp.settings import TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.port import Adopted, Created, Deleting, FailureKind, Gone, Order, Phase, Sighting, Transient
from penstock.model.failures import Failure
from tests.activities.clouds import listed, observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import Endpoints, TpuCloud, tpu_cloud

DEADLINE_SECONDS = 60.0
QUOTA_IN_OPERATION = {"scope": "region", "limit": 0, "in_operation": True}


def on_a_cloud(endpoints: Endpoints, story: Callable[[TpuCloud], Awaitable[None]]) -> None:
    async def play() -> None:
        async with tpu_cloud(endpoints) as cloud:
            await story(cloud)

    asyncio.run(play())


def order_with(cloud: TpuCloud, *, queued: bool = False, **settings: Any) -> Order:
    order = order_of(cloud, queued=queued)
    return order.model_copy(update={"settings": order.settings | settings})


async def gone(cloud: TpuCloud, order: Order) -> None:
    await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone), seconds=DEADLINE_SECONDS)


def test_a_v5litepod_16_has_four_hosts_that_know_their_slice(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_with(cloud, startup_script="#!/bin/bash\necho hello\n", env={"A": "it's"}, labels={"team": "vision"})
        order = order.model_copy(update={"variant": "v5litepod-16", "hosts": 4, "group": "v5e.16", "slice": "V5e-16/a1"})
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert [host.answered for host in seen.hosts] == ["V5e-16/a1"] * 4
        assert len({host.address for host in seen.hosts}) == 4
        assert [item.ref for item in (await listed(cloud)).items] == [order.ref]
        (made,) = await cloud.ever()
        assert made["labels"]["team"] == "vision"
        assert made["spot"]
        script = (await cloud.metadata(order.name))["startup-script"]
        assert script.startswith("#!/bin/bash\nexport PENSTOCK_CLUSTER=")
        assert "export PENSTOCK_SLICE=V5e-16/a1\n" in script
        assert "export A='it'\"'\"'s'\necho hello\n" in script

    on_a_cloud(endpoints, story)


def test_hosts_that_serve_before_the_cloud_says_so_are_running(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(ready_lag="1h")
        order = order_with(cloud, create_wait="50ms")
        await cloud.provider.create(order)
        seen = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert seen.phase is Phase.RUNNING
        assert [item.phase for item in (await listed(cloud)).items] == [Phase.BOOTING]

    on_a_cloud(endpoints, story)


def test_a_stockout_that_comes_after_the_create_returned_is_observed(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(stockout=True, create_latency="300ms")
        order = order_with(cloud, create_wait=0)
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.GONE)
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.STOCKOUT
        assert "no more capacity" in seen.failure.message
        assert await cloud.provider.delete(order.ref) == Gone(ref=order.ref)

    on_a_cloud(endpoints, story)


def test_a_node_that_is_not_shown_yet_is_being_created(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(quota=QUOTA_IN_OPERATION, create_latency="1h")
        order = order_with(cloud, create_wait=0)
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.CREATING)
        assert await cloud.provider.delete(order.ref) == Deleting(ref=order.ref)

    on_a_cloud(endpoints, story)


def test_a_quota_that_fails_a_node_which_was_never_shown_is_observed(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(quota=QUOTA_IN_OPERATION, create_latency="300ms")
        order = order_with(cloud, create_wait=0)
        await cloud.provider.create(order)
        await gone(cloud, order)
        seen = await cloud.provider.observe(order.ref)
        assert seen.phase is Phase.GONE
        assert seen.failure is not None
        assert (seen.failure.kind, seen.failure.subject) == (FailureKind.QUOTA, cloud.region)

    on_a_cloud(endpoints, story)


def test_a_strangers_node_that_is_being_created_is_not_ours(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(boot_latency="1h")
        order = order_with(cloud, create_wait=0)
        await cloud.provider.create(order)
        other = order.ref.model_copy(update={"labels": order.labels.model_copy(update={"cluster": "other"})})
        assert await cloud.provider.observe(other) == Sighting(ref=other, phase=Phase.GONE)
        assert await cloud.provider.delete(other) == Gone(ref=other)

    on_a_cloud(endpoints, story)


def test_without_leave_to_list_operations_what_is_not_shown_is_gone(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.fault("ListOperations", code="PERMISSION_DENIED", times=2)
        assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.GONE)
        assert await cloud.provider.delete(order.ref) == Gone(ref=order.ref)

    on_a_cloud(endpoints, story)


def test_what_is_not_shown_is_not_gone_while_operations_cannot_be_listed(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.fault("ListOperations", code="UNAVAILABLE", times=2)
        for call in (cloud.provider.observe, cloud.provider.delete):
            with pytest.raises(Transient):
                await call(order.ref)

    on_a_cloud(endpoints, story)


def test_what_was_deleted_while_it_was_made_did_not_fail(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(boot_latency="1h")
        order = order_with(cloud, create_wait=0)
        await cloud.provider.create(order)
        await gone(cloud, order)
        assert (await cloud.provider.observe(order.ref)).failure is None

    on_a_cloud(endpoints, story)


def test_an_order_whose_operation_failed_by_chance_is_placed_again(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.fault("CreateNode", operation=[{"code": 13, "message": "internal"}])
        with pytest.raises(Transient):
            await cloud.provider.create(order)
        made = await until(lambda: _made(cloud, order), lambda made: made is not None)
        assert made == Created(ref=order.ref)

    on_a_cloud(endpoints, story)


async def _made(cloud: TpuCloud, order: Order) -> object:
    try:
        return await cloud.provider.create(order)
    except Transient:
        return None


def test_a_slice_preempted_while_it_was_made_was_created(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        message = "Cloud TPU received a bad request. update is not supported while in state PREEMPTED"
        await cloud.fault("CreateNode", operation=[{"code": 3, "message": message}])
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.GONE)
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.PREEMPTED

    on_a_cloud(endpoints, story)


def test_a_node_under_maintenance_runs_and_says_why_its_hosts_are_silent(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        await cloud.call("POST", cloud.resource(order.name).format("maintenance"), {"lasts": None})
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert seen.phase is Phase.RUNNING
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, None), (True, None)]
        why = "out of service for maintenance: The TPU had a maintenance event."
        assert seen.failure == Failure(kind=FailureKind.PREEMPTED, message=why)
        (item,) = (await cloud.provider.list(order.location, cluster=order.cluster)).items
        assert item.failure == seen.failure
        await cloud.call("POST", cloud.resource(order.name).format("maintenance"), {"lasts": 0})
        mended = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert mended.failure is None

    on_a_cloud(endpoints, story)


def test_hosts_that_answer_while_their_node_is_under_maintenance_are_not_silent(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        well = await observed(cloud, order.ref, lambda seen: seen.healthy)
        await cloud.call("POST", cloud.resource(order.name).format("maintenance"), {"lasts": None})
        await observed(cloud, order.ref, lambda seen: not seen.healthy)
        async with serving_hosts(order.slice, [str(host.address) for host in well.hosts], endpoints.health_port):
            seen = await cloud.provider.observe(order.ref)
        assert (seen.phase, seen.hosts) == (Phase.RUNNING, well.hosts)

    on_a_cloud(endpoints, story)


@asynccontextmanager
async def serving_hosts(slice_id: str, addresses: Sequence[str], port: int) -> AsyncIterator[None]:
    """Hosts that answer at addresses which the emulator has given up."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"slice": slice_id}, headers={"Connection": "close"})

    app = web.Application()
    app.router.add_get("/health", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        for address in addresses:
            await until(lambda: _taken(web.TCPSite(runner, address, port)), bool)  # noqa: B023 - awaited in this very turn
        yield
    finally:
        await runner.cleanup()


async def _taken(site: web.TCPSite) -> bool:
    try:
        await site.start()
    except OSError:
        await site.stop()
        return False
    return True


def test_lists_are_read_to_their_last_page(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        await cloud.behave(page_size=1, hold_queue=True)
        orders = [order_of(cloud, f"slice-{i}", queued=i > 2) for i in range(5)]
        await asyncio.gather(*(cloud.provider.create(order) for order in orders))
        listing = await listed(cloud)
        assert {item.ref for item in listing.items} == {order.ref for order in orders}
        assert [item.ref.name for item in listing.items] == sorted(order.name for order in orders)
        assert sum(item.phase is Phase.QUEUED for item in listing.items) == 2

    on_a_cloud(endpoints, story)


def test_health_is_read_from_guest_attributes_where_there_is_no_route(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_with(cloud, health="guest_attributes", health_port=1)
        await cloud.provider.create(order)
        seen = await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert [host.answered for host in seen.hosts] == [order.slice, order.slice]
        await cloud.kill_host(order.ref, 0)
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, None), (True, order.slice)]
        assert (await cloud.metadata(order.name))["enable-guest-attributes"] == "TRUE"

    on_a_cloud(endpoints, story)


def test_groups_of_one_place_may_have_their_hosts_asked_differently(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        orders = [order_of(cloud, "here"), order_of(cloud, "elsewhere")]
        orders[1] = orders[1].model_copy(update={"settings": orders[1].settings | {"health_port": 1}})
        for order in orders:
            await cloud.provider.create(order)
        await observed(cloud, orders[0].ref, lambda seen: seen.healthy)
        seen = await observed(cloud, orders[1].ref, lambda seen: seen.phase is Phase.RUNNING)
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, None), (True, None)]

    on_a_cloud(endpoints, story)


def test_a_worker_that_starts_anew_adopts_what_the_last_one_made(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        async with cloud.session() as session:
            other = TpuProvider(read(TpuSettings, order.settings).connection, session)
            assert await other.create(order) == Adopted(ref=order.ref)
            await other.close()

    on_a_cloud(endpoints, story)
