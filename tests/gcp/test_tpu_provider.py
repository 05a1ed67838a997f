"""Cloud TPU: what the port does not promise of every cloud, over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from google.cloud import tpu_v2

from activities.providers.gcp.settings import Reach, TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.gcp.tpu_wire import SeenNode, SeenQueued, node_of, queued_of
from activities.providers.port import Adopted, Created, FailureKind, Gone, Order, Phase, Queued, Transient
from tests.activities.clouds import listed, observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import Endpoints, TpuCloud, tpu_cloud

DEADLINE_SECONDS = 60.0


def on_a_cloud(endpoints: Endpoints, story: Callable[[TpuCloud], Awaitable[None]]) -> None:
    async def told() -> None:
        async with tpu_cloud(endpoints) as cloud:
            await story(cloud)

    asyncio.run(told())


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
        told = "Cloud TPU received a bad request. update is not supported while in state PREEMPTED"
        await cloud.fault("CreateNode", operation=[{"code": 3, "message": told}])
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.GONE)
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.PREEMPTED

    on_a_cloud(endpoints, story)


def test_a_node_under_maintenance_runs_and_its_hosts_are_silent(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        await cloud.call("POST", cloud.resource(order.name).format("maintenance"), {"lasts": None})
        seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
        assert seen.phase is Phase.RUNNING
        assert [(host.asked, host.answered) for host in seen.hosts] == [(True, None), (True, None)]
        await cloud.call("POST", cloud.resource(order.name).format("maintenance"), {"lasts": 0})
        await observed(cloud, order.ref, lambda seen: seen.healthy)

    on_a_cloud(endpoints, story)


def test_a_queued_order_is_listed_and_observed_while_it_waits(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.hold_queue()
        assert await cloud.provider.create(order) == Queued(ref=order.ref)
        (item,) = (await listed(cloud)).items
        assert (item.ref, item.phase, len(item.hosts)) == (order.ref, Phase.QUEUED, 2)
        assert item.created_at is not None
        await cloud.admit(order.ref)
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        (item,) = (await listed(cloud)).items
        assert item.phase is Phase.RUNNING
        await gone(cloud, order)
        assert not any(made["exists"] for made in await cloud.ever())

    on_a_cloud(endpoints, story)


def test_a_queued_order_that_is_no_longer_valid_failed_for_want_of_capacity(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_with(cloud, queued=True, valid_until="200ms")
        await cloud.hold_queue()
        await cloud.provider.create(order)
        seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.FAILED)
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.STOCKOUT
        (item,) = (await listed(cloud)).items
        assert (item.phase, item.failure) == (Phase.FAILED, seen.failure)
        await gone(cloud, order)

    on_a_cloud(endpoints, story)


def test_a_queued_order_that_the_cloud_gave_up_says_why(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.hold_queue()
        await cloud.provider.create(order)
        why = {"code": 7, "message": "Permission 'tpu.nodes.create' denied"}
        await cloud.call("POST", cloud.resource(order.name, "queued").format("fail"), why)
        seen = await cloud.provider.observe(order.ref)
        assert seen.phase is Phase.FAILED
        assert seen.failure is not None
        assert (seen.failure.kind, seen.failure.subject) == (FailureKind.PERMISSION, cloud.project)

    on_a_cloud(endpoints, story)


def test_a_queued_slice_that_was_taken_away_is_preempted_until_it_is_deleted(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.provider.create(order)
        await observed(cloud, order.ref, lambda seen: seen.phase is Phase.RUNNING)
        await cloud.preempt(order.ref)
        seen = await cloud.provider.observe(order.ref)
        assert seen.phase is Phase.PREEMPTED
        node = f"/resources?kind=node&project={cloud.project}"
        await until(
            lambda: cloud.call("GET", node),
            lambda made: all(not i["exists"] for i in made["items"] if i["kind"] == "node" and i["project"] == cloud.project),
        )
        assert (await cloud.provider.observe(order.ref)).phase is Phase.PREEMPTED
        assert [item.phase for item in (await listed(cloud)).items] == [Phase.PREEMPTED]
        await gone(cloud, order)

    on_a_cloud(endpoints, story)


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


def test_health_is_told_by_guest_attributes_where_there_is_no_route(endpoints: Endpoints) -> None:
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


STATES = {
    "CREATING": Phase.CREATING,
    "STARTING": Phase.BOOTING,
    "READY": Phase.RUNNING,
    "RESTARTING": Phase.RUNNING,
    "REIMAGING": Phase.RUNNING,
    "REPAIRING": Phase.RUNNING,
    "UNHIDING": Phase.RUNNING,
    "UNKNOWN": Phase.RUNNING,
    "STOPPING": Phase.FAILED,
    "STOPPED": Phase.FAILED,
    "PREEMPTED": Phase.PREEMPTED,
    "TERMINATED": Phase.PREEMPTED,
    "DELETING": Phase.DELETING,
    "HIDING": Phase.DELETING,
    "HIDDEN": Phase.DELETING,
    "STATE_UNSPECIFIED": Phase.CREATING,
}


@pytest.mark.parametrize("state", tpu_v2.Node.State, ids=lambda state: state.name)
def test_every_state_of_a_node_is_a_phase(state: tpu_v2.Node.State) -> None:
    node = SeenNode(tpu_v2.Node.pb(tpu_v2.Node(state=state, accelerator_type="v4-16")))
    assert node.phase is STATES[state.name]
    assert (node.failure is not None) == (node.phase is Phase.FAILED)


QUEUED_STATES = {
    "CREATING": Phase.QUEUED,
    "ACCEPTED": Phase.QUEUED,
    "WAITING_FOR_RESOURCES": Phase.QUEUED,
    "PROVISIONING": Phase.CREATING,
    "ACTIVE": Phase.FAILED,
    "FAILED": Phase.FAILED,
    "SUSPENDING": Phase.PREEMPTED,
    "SUSPENDED": Phase.PREEMPTED,
    "DELETING": Phase.DELETING,
    "STATE_UNSPECIFIED": Phase.QUEUED,
}


@pytest.mark.parametrize("state", tpu_v2.QueuedResourceState.State, ids=lambda state: state.name)
def test_every_state_of_a_queued_resource_without_a_node_is_a_phase(state: tpu_v2.QueuedResourceState.State) -> None:
    queued = SeenQueued(tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource(state=tpu_v2.QueuedResourceState(state=state))))
    assert queued.phase is QUEUED_STATES[state.name]


def test_a_queued_resource_that_a_user_suspended_was_not_preempted() -> None:
    by = tpu_v2.QueuedResourceState.StateInitiator.USER
    state = tpu_v2.QueuedResourceState(state=tpu_v2.QueuedResourceState.State.SUSPENDED, state_initiator=by)
    assert SeenQueued(tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource(state=state))).phase is Phase.FAILED


def test_a_host_is_reached_where_the_settings_say() -> None:
    endpoint = tpu_v2.NetworkEndpoint(ip_address="10.0.0.2", access_config=tpu_v2.AccessConfig(external_ip="203.0.113.9"))
    node = SeenNode(tpu_v2.Node.pb(tpu_v2.Node(accelerator_type="v4-16", network_endpoints=[endpoint])))
    assert node.addresses(Reach.INTERNAL) == ("10.0.0.2", None)
    assert node.addresses(Reach.EXTERNAL) == ("203.0.113.9", None)


def tpu_order(**fields: Any) -> Order:
    return Order(**{"cluster": "c", "group": "g", "slice": "s", "location": "z", "hosts": 2, "variant": "v4-16", **fields})


def test_a_node_is_ordered_as_the_settings_say() -> None:
    settings = read(
        TpuSettings,
        {
            "project": "p",
            "network": "global/networks/n",
            "subnetwork": "regions/r/subnetworks/s",
            "external_ips": True,
            "service_account": "worker@p.iam.gserviceaccount.com",
            "runtime_version": "my-runtime",
            "tags": ["a"],
            "capacity": "reserved",
            "reservation": "mine",
        },
    )
    node = node_of(tpu_order(), settings, {"k": "v"})
    assert (node.network_config.network, node.network_config.enable_external_ips) == ("global/networks/n", True)
    assert (node.service_account.email, node.runtime_version) == ("worker@p.iam.gserviceaccount.com", "my-runtime")
    assert (node.scheduling_config.reserved, node.scheduling_config.spot) == (True, False)
    queued = queued_of(tpu_order(), settings, node, parent="projects/p/locations/z")
    assert "guaranteed" in queued
    assert queued.reservation_name == "mine"


def test_a_queued_resource_is_spot_or_guaranteed_as_its_group_is() -> None:
    settings = read(TpuSettings, {"project": "p", "valid_until": "2d"})
    spot = queued_of(tpu_order(preemptible=True), settings, tpu_v2.Node(), parent="projects/p/locations/z")
    assert "spot" in spot
    assert "guaranteed" not in spot
    assert spot.queueing_policy.valid_until_duration == timedelta(days=2)
    assert "guaranteed" in queued_of(tpu_order(), settings, tpu_v2.Node(), parent="projects/p/locations/z")
