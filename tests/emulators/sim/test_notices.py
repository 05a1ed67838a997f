"""Notices of the simulated cloud: announced, shown, taken back, and true by themselves at their moment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from activities.providers.port import Notice, NoticeKind, Order, Phase, Sighting, Stockout
from emulators.sim import cloud as rules
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import ApiError, Request, Resource
from tests.activities.clouds import listed, observed, order_of
from tests.activities.sim_cloud import SimCloud, sim_cloud
from tests.emulators.running import RunningSim, kept_running

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def made(name: str = "one", *, behaviour: Behaviour = Behaviour(), queued: bool = False) -> Resource:  # noqa: B008 - frozen
    request = Request(name=name, hosts=2, queued=queued)
    return rules.create(request, "zone", behaviour=behaviour, existing={}, now=START)[0]


def announced(kind: NoticeKind, seconds: float, resource: Resource | None = None, *, given_at: float = 1) -> Resource:
    return rules.with_notice(resource or made(), Notice(kind=kind, until=at(seconds)), at(given_at))


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        (NoticeKind.PREEMPTION, rules.Phase.PREEMPTED),
        (NoticeKind.MAINTENANCE, rules.Phase.RUNNING),
        (NoticeKind.RESERVATION_END, rules.Phase.GONE),
    ],
)
def test_a_notice_comes_true_at_its_moment_and_not_before(kind: NoticeKind, phase: rules.Phase) -> None:
    resource = announced(kind, 10)
    assert [resource.phase(at(seconds)) for seconds in (9.9, 10, 1000)] == [rules.Phase.RUNNING, phase, phase]
    assert [resource.answers(0, at(seconds)) for seconds in (9.9, 10)] == [True, False]


def test_a_notice_that_was_taken_back_does_not_come_true() -> None:
    resource = rules.with_notice(announced(NoticeKind.PREEMPTION, 10), None, at(9))
    assert resource.phase(at(11)) is rules.Phase.RUNNING
    assert resource.answers(0, at(11))


def test_a_notice_that_has_come_true_is_neither_moved_nor_taken_back() -> None:
    for kind in NoticeKind:
        resource = announced(kind, 10)
        for later in (None, Notice(kind=kind, until=at(100))):
            with pytest.raises(ApiError, match="has come at 2026-01-01 00:00:10Z"):
                rules.with_notice(resource, later, at(10))


def test_only_an_admitted_resource_has_a_notice() -> None:
    queued = made(behaviour=Behaviour(hold_queue=True), queued=True)
    with pytest.raises(ApiError, match="is queued; only an admitted resource can have a notice"):
        announced(NoticeKind.MAINTENANCE, 10, queued)


def test_a_resource_that_is_deleted_before_its_moment_is_gone_when_its_deletion_ends() -> None:
    for kind in (NoticeKind.PREEMPTION, NoticeKind.MAINTENANCE):
        leaving = rules.delete(announced(kind, 10), behaviour=Behaviour(delete_latency=20), now=at(5))
        assert [leaving.phase(at(seconds)) for seconds in (6, 12, 25)] == [
            rules.Phase.DELETING,
            rules.Phase.DELETING,
            rules.Phase.GONE,
        ]


def test_the_end_of_a_reservation_does_not_wait_for_a_slow_deletion() -> None:
    resource = announced(NoticeKind.RESERVATION_END, 10)
    leaving = rules.delete(resource, behaviour=Behaviour(delete_latency=20), now=at(5))
    assert [leaving.phase(at(seconds)) for seconds in (6, 10)] == [rules.Phase.DELETING, rules.Phase.GONE]


def test_a_preemption_that_was_announced_frees_capacity_like_any_other() -> None:
    one = Behaviour(capacity=1)
    existing = {"one": announced(NoticeKind.PREEMPTION, 10)}
    with pytest.raises(ApiError):
        rules.create(Request(name="two"), "zone", behaviour=one, existing=existing, now=at(9))
    assert rules.create(Request(name="two"), "zone", behaviour=one, existing=existing, now=at(10))[0].name == "two"


# Over HTTP.


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSim]:
    with kept_running(RunningSim(tmp_path_factory.mktemp("sim") / "sim.db")) as running:
        yield running


def play(sim: RunningSim, story: Callable[[SimCloud], Awaitable[None]]) -> None:
    async def played() -> None:
        async with sim_cloud(sim.url) as cloud:
            await story(cloud)

    asyncio.run(played())


async def running(cloud: SimCloud, name: str = "one") -> Order:
    order = order_of(cloud, name)
    await cloud.provider.create(order)
    await observed(cloud, order.ref, lambda seen: seen.healthy)
    return order


def notice(kind: NoticeKind, seconds: float) -> Notice:
    return Notice(kind=kind, until=datetime.now(UTC) + timedelta(seconds=seconds))


def test_each_kind_of_notice_comes_true_by_itself(sim: RunningSim) -> None:
    ends: dict[NoticeKind, Callable[[Sighting], bool]] = {
        NoticeKind.PREEMPTION: lambda seen: seen.phase is Phase.PREEMPTED,
        NoticeKind.MAINTENANCE: lambda seen: seen.phase is Phase.RUNNING and seen.silent_hosts == (0, 1),
        NoticeKind.RESERVATION_END: lambda seen: seen.phase is Phase.GONE,
    }

    async def story(cloud: SimCloud) -> None:
        orders = {kind: await running(cloud, kind.replace("_", "-")) for kind in NoticeKind}
        for kind, order in orders.items():
            await cloud.announce(order.ref, notice(kind, 0.3))
        for kind, order in orders.items():
            await observed(cloud, order.ref, ends[kind])
        gone = orders[NoticeKind.RESERVATION_END]
        assert gone.ref not in {item.ref for item in (await listed(cloud)).items}

    play(sim, story)


def test_a_notice_survives_a_kill_of_the_cloud_and_comes_true_while_the_cloud_is_down(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        announced, ended, reserved = [await running(cloud, name) for name in ("announced", "ended", "reserved")]
        later, soon = notice(NoticeKind.MAINTENANCE, 3600), notice(NoticeKind.PREEMPTION, 0.2)
        await cloud.announce(announced.ref, later)
        await cloud.announce(ended.ref, soon)
        await cloud.announce(reserved.ref, notice(NoticeKind.RESERVATION_END, 0.2))
        sim.kill()
        sim.start()
        seen = await cloud.provider.observe(announced.ref)
        assert (seen.notice, seen.healthy) == (later, True)
        await observed(cloud, ended.ref, lambda seen: seen.phase is Phase.PREEMPTED)
        await observed(cloud, reserved.ref, lambda seen: seen.phase is Phase.GONE)
        items = await cloud.call("GET", "/resources")
        assert {item["name"]: item["notice"] for item in items["items"]}[announced.name] == later.model_dump(mode="json")

    play(sim, story)


def test_the_end_of_a_reservation_makes_room_and_frees_the_name(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        await cloud.behave(capacity=1)
        first = await running(cloud, "first")
        with pytest.raises(Stockout):
            await cloud.provider.create(order_of(cloud, "second"))
        await cloud.announce(first.ref, notice(NoticeKind.RESERVATION_END, 0))
        await running(cloud, "second")
        assert [item.slice_id for item in (await listed(cloud)).items] == ["second"]

    play(sim, story)


@pytest.mark.parametrize(
    "body",
    [{"kind": "flood", "until": "2026-01-01T00:00:00Z"}, {"kind": "maintenance"}, {"kind": "maintenance", "until": "soon"}],
)
def test_a_notice_that_cannot_be_read_is_refused(sim: RunningSim, body: dict[str, str]) -> None:
    async def story(cloud: SimCloud) -> None:
        order = await running(cloud)
        with pytest.raises(aiohttp.ClientResponseError) as refused:
            await cloud.call("PUT", f"/resources/{order.name}/notice", body)
        assert refused.value.status == 400
        assert (await cloud.provider.observe(order.ref)).notice is None

    play(sim, story)
