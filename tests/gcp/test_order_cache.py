"""Retries of orders on Google's clouds: a transient failure is retried with a new request id, and one resource is made."""

import asyncio
from itertools import islice
from typing import Any

import pytest

from activities.providers.gcp.compute import ComputeProvider
from activities.providers.gcp.error_codes import Meaning
from activities.providers.gcp.errors import Fault
from activities.providers.gcp.order_cache import OrderCache
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.port import Adopted, Order, Phase, Provider, Queued, RateLimited, Transient
from tests.activities.clouds import listed, order_of
from tests.gcp.clouds import ComputeCloud, Endpoints, TpuCloud, compute_cloud, tpu_cloud

FAILURES = 7
ORDER = Order(cluster="c", group="g", slice="s", location="z")
BY_CHANCE: dict[str, tuple[Any, dict[str, Any], str, dict[str, Any]]] = {
    "a machine": (compute_cloud, {"hosts": 1}, "instances.insert", {"code": "INTERNAL_ERROR"}),
    "several machines": (compute_cloud, {"hosts": 2}, "instances.bulkInsert", {"code": "RESOURCE_OPERATION_RATE_EXCEEDED"}),
    "a queued slice": (tpu_cloud, {"queued": True}, "CreateQueuedResource", {"code": 13}),
}


async def made(provider: Provider, order: Order) -> object | None:
    try:
        return await provider.create(order)
    except (Transient, RateLimited):
        return None


def anew(cloud: TpuCloud | ComputeCloud) -> TpuProvider | ComputeProvider:
    """The provider of another worker, with an empty cache."""
    return type(cloud.provider)(cloud.provider._connection, cloud._session)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_an_order_is_made_once_as_soon_as_what_failed_it_has_passed(endpoints: Endpoints, name: str) -> None:
    fresh, asked, method, error = BY_CHANCE[name]

    async def story() -> None:
        async with fresh(endpoints) as cloud:
            order = order_of(cloud, **asked)
            await cloud.fault(method, operation=[error | {"message": "by chance"}], times=FAILURES)
            outcomes = [await made(cloud.provider, order) for _ in range(FAILURES + 1)]
            assert outcomes[0] is None
            assert outcomes[-1] is not None
            made_of_it = [item for item in await cloud.ever() if item["name"] == order.name and item["kind"] != "node"]
            assert len([item for item in made_of_it if not item.get("failed")]) == 1

    asyncio.run(story())


@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_worker_that_knows_of_no_failure_comes_past_them_all_the_same(endpoints: Endpoints, name: str) -> None:
    fresh, asked, method, error = BY_CHANCE[name]

    async def story() -> None:
        async with fresh(endpoints) as cloud:
            order = order_of(cloud, **asked)
            await cloud.fault(method, operation=[error | {"message": "by chance"}], times=None)
            for _ in range(FAILURES):
                assert await made(cloud.provider, order) is None
            await cloud.call("DELETE", "/faults")
            other = anew(cloud)
            outcomes = [await made(other, order) for _ in range(FAILURES + 1)]
            assert outcomes[-1] is not None
            assert await made(cloud.provider, order) in (Adopted(ref=order.ref), Queued(ref=order.ref))
            await other.close()

    asyncio.run(story())


def test_an_id_is_used_until_its_operation_failed_and_never_skipped() -> None:
    first, second = OrderCache("p"), OrderCache("p")
    ids = first.all_request_ids(ORDER.ref)
    assert len(set(ids)) == len(ids)
    assert next(first.request_ids(ORDER)) == next(first.request_ids(ORDER)) == ids[0]
    assert list(islice(first.request_ids(ORDER), 2)) == ids[:2]
    assert list(first.request_ids(ORDER)) == ids[1:4]
    assert list(second.request_ids(ORDER)) == ids[:3]
    for _ in range(len(ids)):
        assert set(first.request_ids(ORDER)) <= set(ids)
    assert next(first.request_ids(ORDER)) == ids[-1]


def test_what_is_remembered_of_orders_is_bounded_and_forgetting_is_harmless() -> None:
    cache = OrderCache("p")
    for number in range(10_001):
        cache.remember_secrets(ORDER.model_copy(update={"slice": f"s{number}"}), ("a-secret",))
    assert len(cache._orders) == 10_000
    forgotten = ORDER.model_copy(update={"slice": "s0"})
    assert next(cache.request_ids(forgotten)) == cache.all_request_ids(forgotten.ref)[0]
    fault = cache.redacted_fault(forgotten.ref, Fault(Meaning.INVALID, "rpc 3", "quoted: a-secret"))
    assert fault.message.startswith("invalid; ")
    assert "a-secret" not in fault.message


@pytest.mark.parametrize("fresh", [tpu_cloud, compute_cloud])
def test_what_is_being_made_exists_and_boots(endpoints: Endpoints, fresh: Any) -> None:
    async def story() -> None:
        async with fresh(endpoints) as cloud:
            await cloud.behave(create_latency="1h")
            order = order_of(cloud)
            order = order.model_copy(update={"settings": order.settings | {"create_wait": 0}})
            await cloud.provider.create(order)
            seen = await cloud.provider.observe(order.ref)
            assert (seen.phase, seen.addressed) == (Phase.BOOTING, False)
            assert [item.phase for item in (await listed(cloud)).items] == [Phase.BOOTING]

    asyncio.run(story())
