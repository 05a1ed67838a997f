"""The simulated cloud as a process: restarts, queues, scenarios, and errors at start-up."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner, Result

from activities.providers.port import Adopted, Created, Phase, Queued, Stockout, Transient
from emulators.sim.__main__ import main
from tests.activities.clouds import listed, observed, order_of
from tests.activities.sim_cloud import SimCloud, sim_cloud
from tests.activities.waiting import until
from tests.emulators.running import START_SECONDS, RunningSim, ensure_running, kept_running


@pytest.fixture(scope="module")
def shared_sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSim]:
    with kept_running(RunningSim(tmp_path_factory.mktemp("sim") / "sim.db")) as running:
        yield running


@pytest.fixture
def sim(shared_sim: RunningSim) -> RunningSim:
    """The shared simulated cloud, started again if an earlier test stopped it."""
    return ensure_running(shared_sim)


def play(sim: RunningSim, story: Callable[[SimCloud], Awaitable[None]]) -> None:
    async def played() -> None:
        async with sim_cloud(sim.url) as cloud:
            await story(cloud)

    asyncio.run(played())


def test_what_was_ever_created_is_listed_by_labels(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        for name, owner in (("by-us", "us"), ("by-them", "them"), ("by-no-one", None)):
            labels = {"owner": owner, 'quoted"': cloud.location} if owner else {}
            await cloud.call("POST", f"/zones/{cloud.location}/resources", {"name": f"{name}-{cloud.location}", "labels": labels})

        async def listed_with(*labels: str) -> list[str]:
            items = (await cloud.call("GET", "/resources?" + "&".join(f"label={label}" for label in labels)))["items"]
            return [item["name"] for item in items if item["zone"] == cloud.location]

        us, them = f"by-us-{cloud.location}", f"by-them-{cloud.location}"
        assert len(await listed_with()) == 3
        assert await listed_with("owner=us") == [us]
        assert await listed_with(f"quoted%22={cloud.location}") == [us, them]
        assert await listed_with("owner=us", f"quoted%22={cloud.location}") == [us]
        assert await listed_with("owner=nobody") == []

    play(sim, story)


def test_a_resource_survives_a_kill_between_commit_and_reply(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        order, earlier = order_of(cloud), order_of(cloud, "earlier")
        await cloud.provider.create(earlier)
        await cloud.behave(reply_latency="1h", hold_queue=True)
        creating = asyncio.create_task(cloud.provider.create(order))
        await until(lambda: cloud.provider.observe(order.ref), lambda seen: seen.phase is not Phase.GONE)
        assert not creating.done()
        sim.kill()
        with pytest.raises(Transient):
            await creating
        with pytest.raises(Transient):
            await cloud.provider.observe(order.ref)
        sim.start()
        assert await cloud.provider.create(order) == Adopted(ref=order.ref)
        await observed(cloud, order.ref, lambda seen: seen.healthy)
        assert {item.ref for item in (await listed(cloud)).items} == {order.ref, earlier.ref}
        assert await cloud.times_made(order.ref) == 1
        assert (await cloud.call("GET", f"/zones/{cloud.location}"))["hold_queue"]

    play(sim, story)


def test_preemption_dead_hosts_queue_and_deletion_survive_a_kill(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        preempted, damaged, deleted = (order_of(cloud, name) for name in ("preempted", "damaged", "deleted"))
        queued = order_of(cloud, "queued", queued=True)
        await cloud.hold_queue()
        for order in (preempted, damaged, queued, deleted):
            await cloud.provider.create(order)
        await cloud.preempt(preempted.ref)
        await cloud.kill_host(damaged.ref, 0)
        await cloud.provider.delete(deleted.ref)
        sim.kill()
        sim.start()
        await observed(cloud, deleted.ref, lambda seen: seen.phase is Phase.GONE)
        await observed(cloud, damaged.ref, lambda seen: [host.answered for host in seen.hosts] == [None, damaged.slice])
        assert (await cloud.provider.observe(preempted.ref)).phase is Phase.PREEMPTED
        assert (await cloud.provider.observe(queued.ref)).phase is Phase.QUEUED
        assert await cloud.times_made(deleted.ref) == 1

    play(sim, story)


def test_a_queued_resource_is_admitted_when_capacity_is_freed(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        await cloud.behave(capacity=1)
        first, second = order_of(cloud, "first"), order_of(cloud, "second", queued=True)
        assert await cloud.provider.create(first) == Created(ref=first.ref)
        assert await cloud.provider.create(second) == Queued(ref=second.ref)
        with pytest.raises(Stockout):
            await cloud.provider.create(order_of(cloud, "third"))
        await cloud.provider.delete(first.ref)
        await observed(cloud, second.ref, lambda seen: seen.healthy)

    play(sim, story)


def test_deleting_a_queued_resource_lets_the_next_one_be_admitted(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        await cloud.behave(capacity=0, delete_latency="1h")
        withdrawn, patient = order_of(cloud, "withdrawn", queued=True), order_of(cloud, "patient", queued=True)
        await cloud.provider.create(withdrawn)
        await cloud.provider.create(patient)
        await cloud.provider.delete(withdrawn.ref)
        await cloud.behave(capacity=1)
        await observed(cloud, patient.ref, lambda seen: seen.healthy)
        assert (await cloud.provider.observe(withdrawn.ref)).phase is Phase.DELETING

    play(sim, story)


def test_preempting_a_zone_takes_only_preemptible_resources(sim: RunningSim) -> None:
    async def story(cloud: SimCloud) -> None:
        spot, firm = order_of(cloud, "spot"), order_of(cloud, "firm").model_copy(update={"preemptible": False})
        await cloud.provider.create(spot)
        await cloud.provider.create(firm)
        assert await cloud.call("POST", f"/zones/{cloud.location}/preempt") == {"preempted": [spot.name]}
        assert (await cloud.provider.observe(spot.ref)).phase is Phase.PREEMPTED
        await observed(cloud, firm.ref, lambda seen: seen.healthy)

    play(sim, story)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("PUT", "/zones/z", {"boot_latency": "soon"}, 400, "boot_latency: 'soon' is not a duration"),
        ("PUT", "/zones/z", {"stokout": True}, 400, "stokout: unknown key; did you mean stockout?"),
        ("POST", "/zones/z/resources", {"name": "Not A Name"}, 400, "name: "),
        ("POST", "/resources/missing/admit", None, 404, "there is no missing"),
        ("GET", "/health/missing/0", None, 404, "there is no missing"),
    ],
)
def test_an_invalid_call_is_refused_with_the_reason(
    sim: RunningSim, method: str, path: str, body: dict[str, object] | None, status: int, expected: str
) -> None:
    async def response_to_call() -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.request(method, sim.url + path, json=body) as response:
            return response.status, (await response.json())["error"]["message"]

    answered, message = asyncio.run(response_to_call())
    assert (answered, expected in message) == (status, True), message


def test_a_restart_continues_the_scenario_and_a_changed_one_resets_the_zones(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("defaults: {boot_latency: 20ms}\nzones:\n  zone-a: {stockout_after: 3}\n")
    sim = RunningSim(tmp_path / "sim.db", scenario=scenario)

    async def left() -> tuple[object, object]:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{sim.url}/zones/zone-a/resources", json={"name": f"r{len(seen)}"}) as created:
                assert created.status == 201
            async with session.get(f"{sim.url}/zones/zone-a") as a, session.get(f"{sim.url}/zones/zone-b") as b:
                return (await a.json())["stockout_after"], (await b.json())["boot_latency"]

    seen: list[tuple[object, object]] = []
    try:
        for text in (scenario.read_text(), scenario.read_text(), scenario.read_text().replace("3", "9")):
            scenario.write_text(text)
            sim.start()
            seen.append(asyncio.run(left()))
            sim.kill()
    finally:
        sim.kill()
    assert seen == [(2, 0.02), (1, 0.02), (8, 0.02)]


def outcome_of(*arguments: object) -> Result:
    """The result of a start that fails, in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "zones:\n  us-west4-a:\n    boot_latency: soon\n",
            "scenario.yaml:3: zones.us-west4-a.boot_latency: 'soon' is not a duration",
        ),
        ("zones:\n  us-west4-a: {quota: {scope: planet, limit: 1}}\n", "zones.us-west4-a.quota.scope: "),
        ("zones:\n  us-west4-a: {lost_reply: 1}\n", "zones.us-west4-a.lost_reply: unknown key; did you mean lost_replies?"),
        ("- a list\n", "scenario.yaml:1: must be a mapping"),
        ("zones: {", "scenario.yaml:1: is not YAML"),
    ],
)
def test_an_invalid_scenario_is_refused_with_line_and_field(tmp_path: Path, text: str, expected: str) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(text)
    ended = outcome_of("--port", 0, "--database", tmp_path / "sim.db", "--scenario", scenario)
    assert (ended.exit_code, type(ended.exception)) == (1, SystemExit)
    assert expected in ended.output


def test_a_second_process_on_the_same_file_is_refused(sim: RunningSim) -> None:
    command = [sys.executable, "-m", "emulators.sim", "--port", "0", "--database", str(sim.database)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert (ended.returncode, "in use by another simulated cloud" in ended.stderr) == (1, True), ended.stderr


@pytest.mark.parametrize("database", ["no-such-folder/sim.db", "text.db"])
def test_an_unusable_database_is_reported(tmp_path: Path, database: str) -> None:
    (tmp_path / "text.db").write_text("this is no database, and never was one\n" * 100)
    ended = outcome_of("--port", 0, "--database", tmp_path / database)
    assert (ended.exit_code, f"{database} cannot be used" in ended.output) == (1, True), ended.output


def test_a_port_in_use_is_reported(sim: RunningSim, tmp_path: Path) -> None:
    ended = outcome_of("--port", sim.url.rsplit(":", 1)[1], "--database", tmp_path / "other.db")
    assert (ended.exit_code, "cannot be used" in ended.output) == (1, True), ended.output


def test_sigterm_ends_it_with_exit_code_0(sim: RunningSim) -> None:
    assert sim.stop() == 0
