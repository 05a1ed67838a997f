"""Stories through the whole system on Google's emulated clouds; after each, `penstock verify` agrees with the emulator's list."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from penstock.contract import names
from penstock.contract.answers import GroupStatus
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, Slice
from tests.gcp.machine import GcpMachine, running_gcp_machine
from tests.gcp.machine_stage import GcpStage, gangs, staged, tpu, vm
from tests.journeys.facts import agreed_by_command, attempts
from tests.workflows.ledgers import recent_failures
from tests.workflows.test_demand import tasks

RESTARTS = 3
PATIENCE = "10s"
"""Longer than a busy machine takes to learn that an order was queued: one not known to be queued by then is repeated."""
FAILING_DELETES = 3
"""Temporal repeats them after 1, 2 and 4 seconds."""
LATE = "4s"
"""Long after a create that does not wait has returned, and after a slice that no listing shows counts as lost."""
PACED_PROJECT, CREATES_PER_SECOND = "paced", 1
LEAST_SECONDS = 4.0
"""The least time for eight creates at that rate: the first two may run at once."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpMachine]:
    paced = {"PENSTOCK_CREATES_PER_SECOND": f"gce:{PACED_PROJECT}={CREATES_PER_SECOND}"}
    with running_gcp_machine(tmp_path_factory.mktemp("google"), paced) as running:
        yield running


def played(machine: GcpMachine, story: Callable[[GcpStage], Awaitable[None]], *groups: dict[str, Any], **config: Any) -> None:
    """Play a story on its own stage."""

    async def play() -> None:
        async with staged(machine, *groups, **config) as stage:
            await story(stage)
            await agreed_by_command(stage)

    asyncio.run(play())


async def groups_of(stage: GcpStage) -> dict[str, GroupStatus]:
    return {group.name: group for group in (await stage.autoscaler.status()).groups}


async def drained(stage: GcpStage, piece: Slice) -> None:
    """Withdraw all demand and drain the slice."""
    await stage.autoscaler.report([], usage={piece.id: "idle"})
    await stage.autoscaler.drain(piece.id)
    await stage.autoscaler.report(confirmed=[piece.id])


def test_a_gang_of_four_gets_a_v5litepod_16_with_four_hosts(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.autoscaler.submit_demand(gangs(1))
        (piece,) = await stage.quiet(v5e=1)
        (node,) = await stage.cloud.ever_made()
        assert (node["name"], node["variant"]) == (stage.name_of(piece), "v5litepod-16")
        assert [host["answers"] for host in node["hosts"]] == [True] * 4
        assert len({host["address"] for host in node["hosts"]}) == 4

    played(machine, story, tpu("v5e", "west-a"))


def test_a_stockout_moves_demand_to_the_next_zone_and_the_block_shows_its_end(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.cloud.behave("west-a", stockout=True)
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        await stage.quiet(**{"tpu-b": 1, "vm-b": 1})
        status = await stage.autoscaler.status()
        assert {(failed.group, failed.failure.kind) for failed in status.recent_failures} == {
            ("tpu-a", FailureKind.STOCKOUT),
            ("vm-a", FailureKind.STOCKOUT),
        }
        groups = await groups_of(stage)
        assert [groups[name].availability for name in ("tpu-a", "vm-a")] == [Availability.BACKOFF] * 2
        assert status.now is not None
        assert all((end := groups[name].until) is not None and end > status.now for name in ("tpu-a", "vm-a"))
        assert {item["zone"] for item in await stage.cloud.existing()} == {stage.cloud.zone("east-b")}

    first = [tpu("tpu-a", "west-a", priority=1), vm("vm-a", "west-a", priority=1)]
    second = [tpu("tpu-b", "east-b", priority=2), vm("vm-b", "east-b", priority=2)]
    played(machine, story, *first, *second, backoff={"first": "10m", "longest": "10m"})


def test_a_stockout_that_comes_long_after_the_create_call_blocks_its_group_all_the_same(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.cloud.behave("west-a", stockout=True, create_latency="1s")
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        await stage.quiet(**{"tpu-b": 1, "vm-b": 1})
        kinds = {(failed.group, failed.failure.kind) for failed in (await stage.autoscaler.status()).recent_failures}
        assert kinds == {("tpu-a", FailureKind.STOCKOUT), ("vm-a", FailureKind.STOCKOUT)}

    first = [impatient(tpu("tpu-a", "west-a", priority=1)), impatient(vm("vm-a", "west-a", priority=1))]
    second = [tpu("tpu-b", "east-b", priority=2), vm("vm-b", "east-b", priority=2)]
    played(machine, story, *first, *second, backoff={"first": "10m", "longest": "10m"})


def impatient(group: dict[str, Any]) -> dict[str, Any]:
    """The group with create calls that do not wait for early failures."""
    return group | {"provider": group["provider"] | {"create_wait": "0s"}}


def test_a_quota_of_a_region_blocks_its_groups_and_no_other(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        for zone in ("west-a", "west-b"):
            await stage.cloud.behave(zone, quota={"scope": "region", "limit": 0})
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        await stage.quiet(**{"tpu-east": 1, "vm-east": 1})
        groups = await groups_of(stage)
        blocked = {name for name, group in groups.items() if group.availability is Availability.QUOTA_EXCEEDED}
        assert blocked == {"tpu-a", "tpu-b", "vm-a", "vm-b"}
        assert all(groups[name].until is not None for name in blocked)
        assert {groups[name].availability for name in groups.keys() - blocked} == {Availability.AVAILABLE}
        assert await creates_in(stage, "west-b") == 0

    zones = {"a": "west-a", "b": "west-b", "east": "east-a"}
    played(
        machine,
        story,
        *(
            make(f"{kind}-{name}", zone, priority=rank)
            for kind, make in (("tpu", tpu), ("vm", vm))
            for rank, (name, zone) in enumerate(zones.items())
        ),
    )


def test_a_quota_that_fails_machines_long_after_they_were_ordered_blocks_its_region_and_no_other(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.cloud.behave("west-a", quota={"scope": "region", "limit": 0}, create_latency=LATE)
        await stage.autoscaler.submit_demand([{"id": "pair", "gang": {"size": 2}, "resources": {"cpu": 4}}])
        await stage.quiet(east=1)
        kinds = [(failed.group, failed.failure.kind) for failed in (await stage.autoscaler.status()).recent_failures]
        assert kinds == [("west-a", FailureKind.QUOTA)]
        groups = {name: group.availability for name, group in (await groups_of(stage)).items()}
        blocked, free = Availability.QUOTA_EXCEEDED, Availability.AVAILABLE
        assert groups == {"west-a": blocked, "west-b": blocked, "east": free}
        assert await creates_in(stage, "west-b") == 0

    pairs = [
        vm(name, zone, hosts_per_slice=2, priority=rank)
        for rank, (name, zone) in enumerate({"west-a": "west-a", "west-b": "west-b", "east": "east-a"}.items())
    ]
    played(machine, story, *map(impatient, pairs))


async def creates_in(stage: GcpStage, zone: str) -> int:
    """The number of create calls in a zone."""
    calls = await stage.cloud.admin.call("GET", "/calls")
    creates = ("CreateNode", "CreateQueuedResource", "instances.insert", "instances.bulkInsert")
    return sum(calls.get(method, {}).get(stage.cloud.zone(zone), 0) for method in creates)


def test_preempted_slices_end_so_their_corpses_are_deleted_and_they_are_replaced(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        taken = await stage.quiet(tpu=1, vm=1)
        for piece in taken:
            await stage.cloud.preempt(stage.name_of(piece))
        expected = {(piece.id, FailureKind.PREEMPTED) for piece in taken}
        await stage.eventually(lambda: recent_failures(stage), lambda found: found == expected)
        replaced = await stage.quiet(tpu=1, vm=1)
        assert {piece.id for piece in replaced}.isdisjoint(piece.id for piece in taken)
        made = {item["name"]: item["exists"] for item in await stage.cloud.ever_made()}
        assert made == {stage.name_of(piece): False for piece in taken} | {stage.name_of(piece): True for piece in replaced}

    played(machine, story, tpu("tpu", "west-a", preemptible=True), vm("vm", "west-a", preemptible=True))


def test_a_pair_that_lost_a_machine_ends_with_it_and_is_replaced(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.autoscaler.submit_demand([{"id": "pair", "gang": {"size": 2}, "resources": {"cpu": 4}}])
        (broken,) = await stage.quiet(pair=1)
        await stage.cloud.delete_machine("west-a", f"{stage.name_of(broken)}-1")
        await stage.eventually(lambda: recent_failures(stage), lambda found: found == {(broken.id, FailureKind.HOST_LOST)})
        (whole,) = await stage.quiet(pair=1)
        assert whole.id != broken.id
        names = {stage.name_of(whole), f"{stage.name_of(whole)}-1"}
        assert {item["name"] for item in await stage.cloud.existing()} == names

    played(machine, story, vm("pair", "west-a", hosts_per_slice=2))


def test_slices_under_maintenance_for_too_long_count_as_preempted_and_are_replaced(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        ill = await stage.quiet(tpu=1, vm=1)
        for piece in ill:
            await stage.cloud.admin.maintain(stage.name_of(piece), zone=stage.cloud.zone("west-a"))
        expected = {(piece.id, FailureKind.PREEMPTED) for piece in ill}
        await stage.eventually(lambda: recent_failures(stage), lambda found: found == expected)
        status = await stage.autoscaler.status()
        assert all("maintenance" in failed.failure.message for failed in status.recent_failures)
        well = await stage.quiet(tpu=1, vm=1)
        assert {piece.id for piece in well}.isdisjoint(piece.id for piece in ill)
        assert {item["name"] for item in await stage.cloud.existing()} == {stage.name_of(piece) for piece in well}

    played(machine, story, tpu("tpu", "west-a"), vm("vm", "west-a"))


def test_a_worker_killed_between_create_and_record_leaves_one_resource_that_is_adopted(machine: GcpMachine) -> None:
    async def story(stage: GcpStage) -> None:
        await stage.cloud.behave("west-a", reply_latency="1h")
        await stage.autoscaler.start(stage.config)
        await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
        await stage.eventually(stage.cloud.ever_made, lambda items: len(items) == 2)
        assert machine.worker is not None
        machine.worker.kill()
        await stage.cloud.behave("west-a")
        await machine.revive_worker()
        adopted = await stage.quiet(tpu=1, vm=1)
        tries = [await attempts(stage, piece, names.CREATE) for piece in adopted]
        assert all(len(calls) == 1 and calls[0] > 1 for calls in tries), tries
        assert len(await stage.cloud.ever_made()) == 2

    played(machine, story, tpu("tpu", "west-a"), vm("vm", "west-a"), start=False)


def test_a_queue_outlasts_workers_and_a_delete_outlasts_failures(machine: GcpMachine) -> None:
    """Two stories at once after the restarts of the worker, because both take seconds."""

    async def play() -> None:
        queue = [tpu("queue", "west-a", queued=True, priority=1, patience=PATIENCE), tpu("other", "east-a", priority=2)]
        async with staged(machine, *queue, start=False) as waiting, staged(machine, tpu("v5e", "west-a")) as leaving:
            queued = await _kept_waiting(waiting, machine)
            await asyncio.gather(_let_in(waiting, queued), _deleted_in_the_end(leaving))
            await asyncio.gather(agreed_by_command(waiting), agreed_by_command(leaving))

    asyncio.run(play())


async def _kept_waiting(stage: GcpStage, machine: GcpMachine) -> dict[str, Any]:
    """The queued resource of an order, which survives restarts of the worker."""
    await stage.cloud.behave("west-a", hold_queue=True)
    await stage.autoscaler.start(stage.config)
    await stage.autoscaler.submit_demand(gangs(1))
    (queued,) = await stage.eventually(stage.cloud.ever_made, lambda items: [i for i in items if i["kind"] == "queued"])
    await stage.eventually(lambda: groups_of(stage), lambda groups: groups["queue"].queued == 1)
    assert machine.worker is not None
    for _ in range(RESTARTS):
        machine.worker.stop()
        await machine.revive_worker()
    return queued


async def _let_in(stage: GcpStage, queued: dict[str, Any]) -> None:
    """It was created once, and another group serves its demand until it gets capacity."""
    ready = stage.autoscaler.slices
    await stage.eventually(lambda: ready(group="other", state="READY"), lambda page: page.total == 1)
    assert (await groups_of(stage))["queue"].queued == 1
    decision = await stage.autoscaler.decision()
    assert decision.groups["queue"].reason == "1 of its slices waits in the cloud's queue"

    await stage.cloud.admin.admit(queued["name"], zone=stage.cloud.zone("west-a"))
    pieces = await stage.quiet(queue=1, other=1)
    (admitted,) = [piece for piece in pieces if piece.group == "queue"]
    assert stage.name_of(admitted) == queued["name"]
    made = [item for item in await stage.cloud.ever_made() if item["zone"] == stage.cloud.zone("west-a")]
    assert sorted(item["kind"] for item in made) == ["node", "queued"]
    assert [item["created_at"] for item in made if item["kind"] == "queued"] == [queued["created_at"]]


async def _deleted_in_the_end(stage: GcpStage) -> None:
    """The cloud fails the first deletes; in the end nothing is left."""
    await stage.autoscaler.submit_demand(gangs(1))
    (piece,) = await stage.quiet(v5e=1)
    await stage.cloud.behave("west-a", failing_deletes=FAILING_DELETES)
    await drained(stage, piece)
    await stage.quiet()
    assert [item["exists"] for item in await stage.cloud.ever_made()] == [False]
    behaviour = await stage.cloud.admin.call("GET", f"/zones/{stage.cloud.zone('west-a')}")
    assert behaviour["failing_deletes"] == 0


def test_clusters_of_one_project_share_its_rate_of_creates_over_all_workers(machine: GcpMachine) -> None:
    async def play() -> None:
        second = machine.new_worker("second-worker")
        try:
            await machine.revive_worker(second)
            group = vm("vm", "west-a", max_slices=4)
            async with staged(machine, group, project=PACED_PROJECT) as one, staged(machine, group, project=PACED_PROJECT) as two:
                await asyncio.gather(*(stage.autoscaler.submit_demand(tasks(4, cpu=4)) for stage in (one, two)))
                await asyncio.gather(one.quiet(vm=4), two.quiet(vm=4))
                items = [*await one.cloud.ever_made(), *await two.cloud.ever_made()]
                made = sorted(datetime.fromisoformat(item["created_at"]) for item in items)
                assert len(made) == 8
                assert (made[-1] - made[0]).total_seconds() >= LEAST_SECONDS
        finally:
            second.kill()

    asyncio.run(play())
