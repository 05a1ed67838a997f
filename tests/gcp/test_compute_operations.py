"""Compute Engine over real sockets: creations in progress, and failures after the create call has returned."""

from typing import Any

import pytest

from activities.providers.gcp.compute import ComputeProvider
from activities.providers.gcp.compute_wire import Slice
from activities.providers.gcp.settings import ComputeSettings, read
from activities.providers.port import (
    Created,
    Deleting,
    FailureKind,
    Gone,
    Phase,
    RateLimited,
    Ref,
    Sighting,
    Transient,
)
from tests.activities.clouds import observed, order_of
from tests.activities.waiting import until
from tests.gcp.clouds import ComputeCloud, Endpoints
from tests.gcp.test_compute_provider import on_a_cloud, order_with, running

REGION_QUOTA = {"scope": "region", "limit": 0}


def test_a_stockout_that_comes_after_the_create_returned_is_observed(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(stockout=True, create_latency="300ms")
        order = order_with(cloud, create_wait=0)
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        seen = await observed(cloud, order.ref, lambda seen: seen.failure is not None)
        assert seen.phase is Phase.GONE
        assert seen.failure is not None
        assert seen.failure.kind is FailureKind.STOCKOUT
        assert "does not have enough resources" in seen.failure.message

    on_a_cloud(endpoints, story)


def test_machines_that_are_not_shown_yet_are_being_created(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(quota=REGION_QUOTA, create_latency="1h")
        order = order_with(cloud, create_wait=0)
        assert await cloud.provider.create(order) == Created(ref=order.ref)
        assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.CREATING)
        assert await cloud.provider.delete(order.ref) == Deleting(ref=order.ref)

    on_a_cloud(endpoints, story)


def test_a_quota_that_fails_machines_which_were_never_shown_is_observed(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(quota=REGION_QUOTA, create_latency="300ms")
        order = order_with(cloud, create_wait=0)
        await cloud.provider.create(order)
        await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))
        seen = await cloud.provider.observe(order.ref)
        assert (seen.phase, seen.hosts) == (Phase.GONE, ())
        assert seen.failure is not None
        assert (seen.failure.kind, seen.failure.subject) == (FailureKind.QUOTA, cloud.region)

    on_a_cloud(endpoints, story)


class LooksTooSoon(ComputeProvider):
    """Its first listing ends before the machines appear."""

    looks = 0

    async def _slice(self, ref: Ref) -> Slice | None:
        self.looks += 1
        return None if self.looks == 1 else await super()._slice(ref)


def test_machines_that_came_up_during_a_look_are_not_gone(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await running(cloud, order)
        async with cloud.session() as session:
            for call in ("observe", "delete"):
                provider = LooksTooSoon(read(ComputeSettings, cloud.settings).connection, session)
                seen = await getattr(provider, call)(order.ref)
                assert isinstance(seen, Deleting) or seen.healthy
                await provider.close()

    on_a_cloud(endpoints, story)


@pytest.mark.parametrize("hosts", [1, 2])
def test_what_was_deleted_while_it_was_made_did_not_fail(endpoints: Endpoints, hosts: int) -> None:
    async def story(cloud: ComputeCloud) -> None:
        await cloud.behave(boot_latency="1h")
        order = order_with(cloud, hosts=hosts, create_wait=0)
        await cloud.provider.create(order)
        await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))
        assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.GONE)

    on_a_cloud(endpoints, story)


def test_without_leave_to_list_operations_what_is_not_shown_is_gone(endpoints: Endpoints) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await cloud.fault("zoneOperations.list", status=403, reason="forbidden", times=2)
        assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.GONE)
        assert await cloud.provider.delete(order.ref) == Gone(ref=order.ref)

    on_a_cloud(endpoints, story)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [({"status": 503}, Transient), ({"status": 403, "reason": "rateLimitExceeded"}, RateLimited)],
)
def test_what_is_not_shown_is_not_gone_while_operations_cannot_be_listed(
    endpoints: Endpoints, fault: dict[str, Any], expected: type[Exception]
) -> None:
    async def story(cloud: ComputeCloud) -> None:
        order = order_of(cloud)
        await cloud.fault("zoneOperations.list", times=2, **fault)
        for call in (cloud.provider.observe, cloud.provider.delete):
            with pytest.raises(expected):
                await call(order.ref)

    on_a_cloud(endpoints, story)
