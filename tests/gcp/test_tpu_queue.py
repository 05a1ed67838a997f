"""Queued TPUs over real sockets: waiting, admission, expiry and preemption."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from activities.providers.gcp.settings import TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.gcp.tpu_api import TpuApi
from activities.providers.gcp.tpu_wire import QueuedView
from activities.providers.port import FailureKind, Phase, Queued, Ref
from tests.activities.clouds import listed, observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import Endpoints, TpuCloud
from tests.gcp.test_tpu_provider import gone, on_a_cloud, order_with


class ApiOfCloud(TpuApi):
    """The API of a test's cloud, to which something happens between two calls."""

    def __init__(self, cloud: TpuCloud) -> None:
        super().__init__(read(TpuSettings, cloud.settings).connection)
        self.cloud = cloud


class HidesNodes(ApiOfCloud):
    """The zone becomes unreachable between the listing of queued resources and that of nodes."""

    async def node_pages(self, location: str) -> AsyncIterator[Any]:
        await self.cloud.hide()
        async for page in super().node_pages(location):
            yield page


def test_a_queued_slice_whose_node_could_not_be_listed_has_not_lost_it(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        running, waiting = order_of(cloud, "running", queued=True), order_of(cloud, "waiting", queued=True)
        await cloud.provider.create(running)
        await observed(cloud, running.ref, lambda seen: seen.healthy)
        await cloud.hold_queue()
        await cloud.provider.create(waiting)
        async with provider_over(HidesNodes(cloud)) as provider:
            listing = await provider.list(cloud.location, cluster=cloud.cluster)
        assert not listing.complete
        assert [(item.ref, item.phase) for item in listing.items] == [(waiting.ref, Phase.QUEUED)]

    on_a_cloud(endpoints, story)


class AdmitsMeanwhile(ApiOfCloud):
    """The queued resource gets its node between the call for the node and the one for the queued resource."""

    async def queued(self, ref: Ref) -> QueuedView | None:
        await self.cloud.admit(ref)
        await observed(self.cloud, ref, lambda seen: seen.healthy)
        return await super().queued(ref)


def test_a_queued_slice_that_gets_its_node_during_a_look_has_not_lost_it(endpoints: Endpoints) -> None:
    async def story(cloud: TpuCloud) -> None:
        order = order_of(cloud, queued=True)
        await cloud.hold_queue()
        await cloud.provider.create(order)
        async with provider_over(AdmitsMeanwhile(cloud)) as provider:
            seen = await provider.observe(order.ref)
        assert (seen.phase, seen.healthy, seen.failure) == (Phase.RUNNING, True, None)

    on_a_cloud(endpoints, story)


@asynccontextmanager
async def provider_over(api: ApiOfCloud) -> AsyncIterator[TpuProvider]:
    """Another provider of the same cloud, with this API."""
    async with api.cloud.session() as session:
        provider = TpuProvider(read(TpuSettings, api.cloud.settings).connection, session, api=api)
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
