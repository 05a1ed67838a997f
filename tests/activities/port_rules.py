"""The rules of the port: one function per rule, for any cloud in which faults can be injected."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from activities.providers.port import (
    Adopted,
    Conflict,
    Created,
    Deleting,
    Gone,
    Invalid,
    Notice,
    NoticeKind,
    PermissionDenied,
    Phase,
    ProviderError,
    Queued,
    QuotaExceeded,
    RateLimited,
    Ref,
    Sighting,
    Stockout,
    Transient,
)
from tests.activities.clouds import Announcing, Cloud, listed, observed, order_of
from tests.activities.waiting import until

E = TypeVar("E", bound=ProviderError)


async def a_created_slice_comes_to_run_with_every_host_healthy(cloud: Cloud) -> None:
    order = order_of(cloud)
    assert await cloud.provider.create(order) == Created(ref=order.ref)
    phases: list[Phase] = []

    def healthy(seen: Sighting) -> bool:
        phases.append(seen.phase)
        return seen.healthy

    seen = await observed(cloud, order.ref, healthy)
    assert seen.phase is Phase.RUNNING
    assert seen.addressed
    assert [host.answered for host in seen.hosts] == [order.slice, order.slice]
    assert seen.labels == order.labels
    assert seen.created_at is not None
    ahead = [Phase.CREATING, Phase.BOOTING, Phase.RUNNING]
    assert phases == sorted(phases, key=ahead.index)


async def each_host_has_a_name_and_an_address_observed_and_listed_alike(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    seen = await observed(cloud, order.ref, lambda seen: seen.addressed)
    assert len({host.name for host in seen.hosts}) == len({host.address for host in seen.hosts}) == 2
    assert all(host.name.startswith(order.name) for host in seen.hosts)
    (item,) = (await listed(cloud)).items
    fields = {"name", "address", "external_address"}
    assert [host.model_dump(include=fields) for host in item.hosts] == [host.model_dump(include=fields) for host in seen.hosts]


async def creating_twice_makes_one_and_adopts_it(cloud: Cloud) -> None:
    order = order_of(cloud)
    assert await cloud.provider.create(order) == Created(ref=order.ref)
    assert await cloud.provider.create(order) == Adopted(ref=order.ref)
    assert await cloud.times_made(order.ref) == 1


async def creating_many_times_at_once_makes_one(cloud: Cloud) -> None:
    order = order_of(cloud)
    outcomes = await asyncio.gather(*(cloud.provider.create(order) for _ in range(5)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Adopted"] * 4 + ["Created"]
    assert await cloud.times_made(order.ref) == 1


async def a_create_whose_reply_was_lost_is_adopted_by_the_next(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.lose_next_reply()
    with pytest.raises(Transient):
        await cloud.provider.create(order)
    assert await cloud.provider.create(order) == Adopted(ref=order.ref)
    assert await cloud.times_made(order.ref) == 1


async def a_name_that_a_foreign_resource_holds_is_a_conflict_and_the_resource_stays(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.add_stranger(order.name)
    with pytest.raises(Conflict):
        await cloud.provider.create(order)
    assert (await cloud.provider.observe(order.ref)).phase is Phase.GONE
    assert await cloud.provider.delete(order.ref) == Gone(ref=order.ref)
    assert await cloud.has_stranger(order.name)


async def a_resource_of_another_slice_is_not_deleted_by_its_name(cloud: Cloud) -> None:
    mine, other = order_of(cloud, "mine"), order_of(cloud, "other")
    await cloud.provider.create(mine)
    mistaken = Ref(location=mine.location, name=mine.name, labels=other.labels)
    assert await cloud.provider.delete(mistaken) == Gone(ref=mistaken)
    seen = await cloud.provider.observe(mine.ref)
    assert seen.phase not in (Phase.DELETING, Phase.GONE)


async def deleting_goes_on_until_gone_and_stays_gone(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    assert isinstance(await cloud.provider.delete(order.ref), Deleting | Gone)
    assert await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone)) == Gone(ref=order.ref)
    assert await cloud.provider.delete(order.ref) == Gone(ref=order.ref)
    assert await cloud.provider.observe(order.ref) == Sighting(ref=order.ref, phase=Phase.GONE)
    assert (await listed(cloud)).items == ()


async def deleting_a_resource_that_never_existed_is_gone(cloud: Cloud) -> None:
    ref = order_of(cloud).ref
    assert await cloud.provider.delete(ref) == Gone(ref=ref)
    assert await cloud.provider.observe(ref) == Sighting(ref=ref, phase=Phase.GONE)


async def a_delete_that_failed_is_transient_and_can_be_repeated(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    await cloud.fail_next_delete()
    with pytest.raises(Transient):
        await cloud.provider.delete(order.ref)
    await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))


async def a_listing_has_our_resources_with_labels_and_no_others(cloud: Cloud) -> None:
    ours = [order_of(cloud, "one"), order_of(cloud, "two")]
    for order in (*ours, order_of(cloud, "theirs", cluster=f"{cloud.cluster}-2")):
        await cloud.provider.create(order)
    await cloud.add_stranger(f"stranger-to-{cloud.cluster}")
    listing = await listed(cloud)
    assert listing.complete
    assert {item.ref: item.labels for item in listing.items} == {order.ref: order.labels for order in ours}
    assert all(len(item.hosts) == 2 and not any(host.asked for host in item.hosts) for item in listing.items)


async def an_incomplete_listing_is_marked_as_such(cloud: Cloud) -> None:
    await cloud.provider.create(order_of(cloud))
    await cloud.hide()
    assert not (await listed(cloud)).complete


async def a_preemption_is_observed_and_listed(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    await observed(cloud, order.ref, lambda seen: seen.phase is Phase.RUNNING)
    await cloud.preempt(order.ref)
    seen = await observed(cloud, order.ref, lambda seen: seen.phase is Phase.PREEMPTED)
    assert not seen.healthy
    assert [item.phase for item in (await listed(cloud)).items] == [Phase.PREEMPTED]
    await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))


async def a_notice_is_observed_and_listed_alike_as_long_as_it_stands(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    await observed(cloud, order.ref, lambda seen: seen.phase is Phase.RUNNING)
    assert (await cloud.provider.observe(order.ref)).notice is None
    assert [item.notice for item in (await listed(cloud)).items] == [None]
    hour = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    announced = [Notice(kind=kind, until=hour) for kind in NoticeKind]
    moved = Notice(kind=NoticeKind.MAINTENANCE, until=hour + timedelta(hours=1))
    if not isinstance(cloud, Announcing):
        return
    for notice in (*announced, moved, None):
        await cloud.announce(order.ref, notice)
        assert (await cloud.provider.observe(order.ref)).notice == notice
        assert [item.notice for item in (await listed(cloud)).items] == [notice]


async def a_dead_host_is_silent_while_the_others_answer(cloud: Cloud) -> None:
    order = order_of(cloud)
    await cloud.provider.create(order)
    await observed(cloud, order.ref, lambda seen: seen.healthy)
    await cloud.kill_host(order.ref, 1)
    seen = await observed(cloud, order.ref, lambda seen: not seen.healthy)
    assert [(host.asked, host.answered) for host in seen.hosts] == [(True, order.slice), (True, None)]


async def a_queued_order_waits_and_is_then_created_once(cloud: Cloud) -> None:
    order = order_of(cloud, queued=True)
    await cloud.hold_queue()
    assert await cloud.provider.create(order) == Queued(ref=order.ref)
    assert await cloud.provider.create(order) == Queued(ref=order.ref)
    assert (await cloud.provider.observe(order.ref)).phase is Phase.QUEUED
    await cloud.admit(order.ref)
    await observed(cloud, order.ref, lambda seen: seen.healthy)
    assert await cloud.provider.create(order) == Adopted(ref=order.ref)
    assert await cloud.times_made(order.ref) == 1


async def a_queued_order_can_be_withdrawn(cloud: Cloud) -> None:
    order = order_of(cloud, queued=True)
    await cloud.hold_queue()
    await cloud.provider.create(order)
    await until(lambda: cloud.provider.delete(order.ref), lambda left: isinstance(left, Gone))


async def a_stockout_is_a_stockout(cloud: Cloud) -> None:
    await _refused(cloud, Stockout)


async def invalid_arguments_are_invalid(cloud: Cloud) -> None:
    await _refused(cloud, Invalid)


async def an_exceeded_quota_names_what_it_covers(cloud: Cloud) -> None:
    error = await _refused(cloud, QuotaExceeded)
    assert error.subject == cloud.subject(error.scope)


async def a_missing_permission_names_what_it_covers(cloud: Cloud) -> None:
    error = await _refused(cloud, PermissionDenied)
    assert error.subject == cloud.subject(error.scope)


async def a_rate_limit_names_the_time_until_the_next_call(cloud: Cloud) -> None:
    await cloud.refuse(RateLimited)
    orders = [order_of(cloud, f"slice-{i}") for i in range(5)]
    outcomes = await asyncio.gather(*(cloud.provider.create(order) for order in orders), return_exceptions=True)
    limited = [outcome for outcome in outcomes if isinstance(outcome, RateLimited)]
    assert limited
    assert all(error.retry_after > 0 for error in limited)
    assert all(isinstance(outcome, Created | RateLimited) for outcome in outcomes)


async def _refused(cloud: Cloud, kind: type[E]) -> E:
    order = order_of(cloud)
    await cloud.refuse(kind)
    with pytest.raises(kind) as raised:
        await cloud.provider.create(order)
    assert await cloud.times_made(order.ref) == 0
    return raised.value


RULES: tuple[Callable[[Cloud], Awaitable[None]], ...] = (
    a_created_slice_comes_to_run_with_every_host_healthy,
    each_host_has_a_name_and_an_address_observed_and_listed_alike,
    creating_twice_makes_one_and_adopts_it,
    creating_many_times_at_once_makes_one,
    a_create_whose_reply_was_lost_is_adopted_by_the_next,
    a_name_that_a_foreign_resource_holds_is_a_conflict_and_the_resource_stays,
    a_resource_of_another_slice_is_not_deleted_by_its_name,
    deleting_goes_on_until_gone_and_stays_gone,
    deleting_a_resource_that_never_existed_is_gone,
    a_delete_that_failed_is_transient_and_can_be_repeated,
    a_listing_has_our_resources_with_labels_and_no_others,
    an_incomplete_listing_is_marked_as_such,
    a_preemption_is_observed_and_listed,
    a_notice_is_observed_and_listed_alike_as_long_as_it_stands,
    a_dead_host_is_silent_while_the_others_answer,
    a_queued_order_waits_and_is_then_created_once,
    a_queued_order_can_be_withdrawn,
    a_stockout_is_a_stockout,
    invalid_arguments_are_invalid,
    an_exceeded_quota_names_what_it_covers,
    a_missing_permission_names_what_it_covers,
    a_rate_limit_names_the_time_until_the_next_call,
)
