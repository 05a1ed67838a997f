"""Create, observe and delete as activities, against the simulated cloud."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import provision
from activities.providers import port
from activities.providers.open_providers import Providers
from activities.providers.port import Labels, Ref
from activities.provision import MISTAKE_DELAY, ProvisionActivities, failure_of, order_of
from activities.slice_reports import Reporter
from activities.wakeups import Wakeups
from penstock.contract.slices import CreateResult, SliceSpec
from penstock.model.cluster import ProviderConfig, ScaleGroup
from penstock.model.failures import Failure, FailureKind, Phase, Scope
from penstock.model.location import Location
from tests.activities.sim_cloud import SimCloud, sim_cloud
from tests.activities.waiting import until
from tests.emulators.running import RunningSim

UNUSED = Reporter(cast(Client, None))
"""Without a last report to send."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sim = RunningSim(tmp_path_factory.mktemp("sim") / "sim.sqlite")
    sim.start()
    yield sim.url
    sim.kill()


class Bench:
    """The activities, run as a worker runs them, and a zone of their own."""

    def __init__(self, cloud: SimCloud, providers: Providers) -> None:
        self.cloud = cloud
        self.wakeups = Wakeups()
        self.provisioning = ProvisionActivities(providers, self.wakeups, UNUSED)
        self.spec = spec(cluster=cloud.cluster, location=at(name=cloud.location, settings={"url": cloud.url}))

    async def run(self, call: Callable[[SliceSpec], Awaitable[Any]], spec: SliceSpec | None = None) -> Any:
        return await ActivityEnvironment().run(call, spec or self.spec)

    async def was_woken(self) -> bool:
        return await self.wakeups.wait(self.spec.cluster, self.spec.location.key, 0.01)


@asynccontextmanager
async def bench(url: str, **behaviour: Any) -> AsyncIterator[Bench]:
    providers = Providers()
    async with sim_cloud(url) as cloud:
        await cloud.behave(**behaviour)
        try:
            yield Bench(cloud, providers)
        finally:
            await providers.close()


def played(url: str, story: Callable[[Bench], Coroutine[Any, Any, None]], **behaviour: Any) -> None:
    async def play() -> None:
        async with bench(url, **behaviour) as stage:
            await story(stage)

    asyncio.run(play())


def at(**rest: Any) -> Location:
    return Location.model_validate({"provider": "sim", "account": "sim", "name": "zone-a"} | rest)


def spec(**rest: Any) -> SliceSpec:
    given = {"cluster": "c", "group": "v5e-16", "slice_id": "v5e-16-a1", "location": at(), "hosts": 2}
    return SliceSpec.model_validate(given | rest)


def test_a_slice_is_created_then_adopted_and_the_watch_of_its_location_wakes(url: str) -> None:
    async def story(stage: Bench) -> None:
        assert await stage.run(stage.provisioning.create) == CreateResult(outcome="created")
        assert await stage.was_woken()
        assert await stage.run(stage.provisioning.create) == CreateResult(outcome="adopted")

    played(url, story)


def test_the_result_of_a_queued_order_is_queued(url: str) -> None:
    async def story(stage: Bench) -> None:
        waiting = stage.spec.model_copy(update={"queued": True})
        assert await stage.run(stage.provisioning.create, waiting) == CreateResult(outcome="queued")

    played(url, story, hold_queue=True)


def test_a_slice_is_observed_while_it_starts(url: str) -> None:
    async def story(stage: Bench) -> None:
        await stage.run(stage.provisioning.create)
        seen = await until(lambda: stage.run(stage.provisioning.observe), lambda sighting: sighting.healthy, seconds=60)
        assert (seen.phase, seen.addressed) == (Phase.RUNNING, True)
        assert [host.address for host in seen.addresses] == [host.address for host in seen.hosts]
        assert seen.ref == order_of(stage.spec).ref

    played(url, story)


def test_a_slice_is_deleted_until_it_is_gone(url: str) -> None:
    async def story(stage: Bench) -> None:
        await stage.run(stage.provisioning.create)
        await until(lambda: stage.run(stage.provisioning.delete), lambda result: result.gone, seconds=60)
        assert await stage.was_woken()
        assert (await stage.run(stage.provisioning.observe)).phase is Phase.GONE

    played(url, story)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ({"stockout": True}, FailureKind.STOCKOUT),
        ({"quota": {"scope": "region", "limit": 0}}, FailureKind.QUOTA),
        ({"permission_denied": "project"}, FailureKind.PERMISSION),
        ({"invalid": True}, FailureKind.INVALID),
    ],
)
def test_a_refusal_is_a_result(url: str, behaviour: dict[str, Any], kind: FailureKind) -> None:
    async def story(stage: Bench) -> None:
        result = await stage.run(stage.provisioning.create)
        assert (result.outcome, result.failure.kind) == ("refused", kind)

    played(url, story, **behaviour)


def test_a_name_that_a_foreign_resource_holds_is_a_conflict(url: str) -> None:
    async def story(stage: Bench) -> None:
        await stage.cloud.add_stranger(order_of(stage.spec).name)
        result = await stage.run(stage.provisioning.create)
        assert (result.outcome, result.failure.kind) == ("refused", FailureKind.CONFLICT)

    played(url, story)


def test_an_unknown_provider_refuses_a_create_and_fails_a_delete_for_good(url: str) -> None:
    async def story(stage: Bench) -> None:
        unknown = spec(location=at(provider="nimbus"))
        result = await stage.run(stage.provisioning.create, unknown)
        assert (result.outcome, result.failure.kind) == ("refused", FailureKind.INVALID)
        with pytest.raises(ApplicationError, match="nimbus") as raised:
            await stage.run(stage.provisioning.delete, unknown)
        assert raised.value.non_retryable

    played(url, story)


def test_a_transient_error_is_raised_for_a_retry(url: str) -> None:
    async def story(stage: Bench) -> None:
        nowhere = spec(location=at(settings={"url": "http://127.0.0.1:9"}))
        for call in (stage.provisioning.create, stage.provisioning.observe, stage.provisioning.delete):
            with pytest.raises(ApplicationError) as raised:
                await stage.run(call, nowhere)
            assert raised.value.type == "Transient"
            assert not raised.value.non_retryable
            assert raised.value.next_retry_delay is None

    played(url, story)


class Refusing:
    """A cloud that refuses to delete, for one reason."""

    def __init__(self, error: port.ProviderError) -> None:
        self.error = error

    async def of(self, kind: str, settings: Any) -> Any:
        return self

    async def delete(self, ref: Ref) -> port.Gone:
        raise self.error


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (port.PermissionDenied("no", scope=Scope.PROJECT, subject="p"), MISTAKE_DELAY.total_seconds()),
        (port.Conflict("taken"), MISTAKE_DELAY.total_seconds()),
        (port.RateLimited("slow down", retry_after=7), 7),
    ],
)
def test_a_delete_is_retried_after_any_error(error: port.ProviderError, seconds: float) -> None:
    providers: Any = Refusing(error)
    with pytest.raises(ApplicationError) as raised:
        asyncio.run(ActivityEnvironment().run(ProvisionActivities(providers, Wakeups(), UNUSED).delete, spec()))
    assert not raised.value.non_retryable
    assert raised.value.next_retry_delay is not None
    assert raised.value.next_retry_delay.total_seconds() == seconds


class Slow:
    """A cloud whose creates take as long as the test wants."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def of(self, kind: str, settings: Any) -> Any:
        return self

    async def create(self, order: port.Order) -> port.Created:
        self.asked.set()
        await self.answer.wait()
        return port.Created(ref=order.ref)


def test_a_long_call_heartbeats_and_is_not_broken_off_by_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "BEAT_SECONDS", 0.005)

    async def story() -> None:
        slow: Any = Slow()
        environment = ActivityEnvironment()
        beats = asyncio.Event()
        environment.on_heartbeat = lambda *_: beats.set()
        creating = asyncio.create_task(environment.run(ProvisionActivities(slow, Wakeups(), UNUSED).create, spec()))
        await slow.asked.wait()
        environment.cancel()
        beats.clear()
        await asyncio.wait_for(beats.wait(), 60)
        slow.answer.set()
        assert await creating == CreateResult(outcome="created")

    asyncio.run(story())


def test_a_worker_that_shuts_down_breaks_a_call_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "BEAT_SECONDS", 0.005)

    async def story() -> None:
        slow: Any = Slow()
        environment = ActivityEnvironment()
        creating = asyncio.create_task(environment.run(ProvisionActivities(slow, Wakeups(), UNUSED).create, spec()))
        await slow.asked.wait()
        environment.worker_shutdown()
        environment.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating

    asyncio.run(story())


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (port.Stockout("none left"), Failure(kind=FailureKind.STOCKOUT, message="none left")),
        (
            port.QuotaExceeded("too many", scope=Scope.REGION, subject="r"),
            Failure(kind=FailureKind.QUOTA, message="too many", scope=Scope.REGION, subject="r"),
        ),
        (
            port.RateLimited("slow down", retry_after=3),
            Failure(kind=FailureKind.RATE_LIMIT, message="slow down", retry_after_seconds=3),
        ),
        (
            port.PermissionDenied("no", scope=Scope.PROJECT, subject="p"),
            Failure(kind=FailureKind.PERMISSION, message="no", scope=Scope.PROJECT, subject="p"),
        ),
        (port.Invalid("what?"), Failure(kind=FailureKind.INVALID, message="what?")),
        (port.Conflict("taken"), Failure(kind=FailureKind.CONFLICT, message="taken")),
    ],
)
def test_every_refusal_has_its_kind(error: port.ProviderError, failure: Failure) -> None:
    assert failure_of(error) == failure


def test_an_order_has_the_settings_of_its_group() -> None:
    ordered = order_of(spec(location=at(settings={"command": "true"}), variant="v5litepod-16"))
    assert ordered.settings == {"command": "true"}
    assert (ordered.hosts, ordered.variant, ordered.labels) == (
        2,
        "v5litepod-16",
        Labels(cluster="c", group="v5e-16", slice="v5e-16-a1"),
    )


def test_the_location_of_a_group_is_named_by_account_and_zone_also_in_a_changed_copy() -> None:
    group = ScaleGroup.model_validate({"name": "g", "zone": "zone-a", "max_slices": 1, "host": {"cpu": 1}})
    assert group.location.key == "sim/zone-a"
    provider = ProviderConfig.model_validate({"kind": "gce", "project": "p"})
    moved = group.model_copy(update={"provider": provider, "zone": "zone-b"})
    assert (moved.location.key, moved.location.settings) == ("gce:p/zone-b", {"project": "p"})
