"""Queued TPUs: waiting, being let in, expiring and being taken away, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from activities.providers.gcp.settings import TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.gcp.tpu_wire import QueuedView
from activities.providers.port import FailureKind, Phase, Queued, Ref
from tests.activities.clouds import listed, observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import Endpoints, TpuCloud
from tests.gcp.test_tpu_provider import gone, on_a_cloud, order_with

P = TypeVar("P", "HidesNodes", "AdmitsMeanwhile")


class HidesNodes(TpuProvider):
    """Its zone falls out of reach between the two lists that make one."""

    cloud: TpuCloud

    async def _node_pages(self, location: str) -> AsyncIterator[Any]:
        await self.cloud.hide()
        async for page in super()._node_pages(location):
            yield page


def test_a_queued_slice_whose_node_could_not_be_listed_has_not_lost_it(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        running, waiting = order_of(cloud, "running", queued=True), order_of(cloud, "waiting", queued=True)
        await cloud.provider.create(running)
        await observed(cloud, running.ref, lambda seen: seen.healthy)
        await cloud.hold_queue()
        await cloud.provider.create(waiting)
        async with another(HidesNodes, cloud) as provider:
            listing = await provider.list(cloud.location, cluster=cloud.cluster)
        assert not listing.complete
        assert [(item.ref, item.phase) for item in listing.items] == [(waiting.ref, Phase.QUEUED)]

    on_a_cloud(endpoints, story)


class AdmitsMeanwhile(TpuProvider):
    """What waits is let in between a look at the node and one at the queued resource."""

    cloud: TpuCloud

    async def _queued(self, ref: Ref) -> QueuedView | None:
        await self.cloud.admit(ref)
        await observed(self.cloud, ref, lambda seen: seen.healthy)
        return await super()._queued(ref)


def test_a_queued_slice_that_gets_its_node_during_a_look_has_not_lost_it(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.hold_queue()
        await cloud.provider.create(order)
        async with another(AdmitsMeanwhile, cloud) as provider:
            seen = await provider.observe(order.ref)
        assert (seen.phase, seen.healthy, seen.failure) == (Phase.RUNNING, True, None)

    on_a_cloud(endpoints, story)


@asynccontextmanager
async def another(kind: type[P], cloud: TpuCloud) -> AsyncIterator[P]:
    """A provider to the same cloud to which something happens on the way."""
    async with cloud.session() as session:
        provider = kind(read(TpuSettings, cloud.settings).connection, session)
        provider.cloud = cloud
        yield provider
        await provider.close()


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


def test_a_queued_slice_that_is_about_to_be_taken_away_is_preempted_while_its_hosts_still_answer(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.provider.create(order)
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        await cloud.behave(suspend_latency="1h")
        await cloud.preempt(order.ref)
        seen = await cloud.provider.observe(order.ref)
        assert (seen.phase, seen.healthy, seen.failure) == (Phase.PREEMPTED, True, None)
        assert [item.phase for item in (await listed(cloud)).items] == [Phase.PREEMPTED]
        await gone(cloud, order)

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
