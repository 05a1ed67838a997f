"""Queued resources of the TPU API, through Google's own client."""

import uuid
from datetime import timedelta

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

from tests.activities.waiting import until
from tests.emulators.gcp.zones import SECONDS, TpuZone, play_tpu
from tests.emulators.running_gcp import RunningGcp

State = tpu_v2.QueuedResourceState.State
Initiator = tpu_v2.QueuedResourceState.StateInitiator


def test_a_queued_resource_becomes_active_with_a_node_whose_hosts_answer(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        operation = await zone.operation(await zone.enqueue("q-1"))
        assert not operation.HasField("error")
        await zone.queued_until("q-1", State.ACTIVE)
        node = await zone.get("q-1")
        assert node.queued_resource == f"{zone.parent}/queuedResources/q-1"
        await zone.answered(node.network_endpoints[0].ip_address, "slice of q-1")

    play_tpu(gcp, story)


@pytest.mark.parametrize(("accepting", "state"), [(False, State.WAITING_FOR_RESOURCES), (True, State.ACCEPTED)])
def test_a_held_queue_waits_until_a_queued_resource_is_admitted_by_name(gcp: RunningGcp, accepting: bool, state: int) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, hold_queue=True, accept_queue=accepting)
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", state)
        assert await zone.gone("q-1")
        await zone.admin.admit("q-1", zone=zone.zone)
        await zone.queued_until("q-1", State.ACTIVE)

    play_tpu(gcp, story)


def test_an_admitted_queued_resource_is_provisioning_until_its_node_is_ready(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, boot_latency="1h")
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.PROVISIONING)
        assert (await zone.get("q-1")).state == tpu_v2.Node.State.CREATING

    play_tpu(gcp, story)


def test_queued_resources_are_admitted_first_come_first_served(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, capacity=1)
        for name in ("q-1", "q-2", "q-3"):
            await zone.enqueue(name)
        await zone.queued_until("q-1", State.ACTIVE)
        assert (await zone.queued("q-2")).state == State.WAITING_FOR_RESOURCES
        await zone.dequeue("q-1", force=True)
        await zone.queued_until("q-2", State.ACTIVE)
        assert (await zone.queued("q-3")).state == State.WAITING_FOR_RESOURCES

    play_tpu(gcp, story)


def test_a_stockout_keeps_the_queue_waiting(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, stockout=True)
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.WAITING_FOR_RESOURCES)
        await zone.admin.behave(zone.zone)
        await zone.queued_until("q-1", State.ACTIVE)

    play_tpu(gcp, story)


def test_a_preempted_node_suspends_its_queued_resource_and_is_deleted(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.enqueue("q-1", spot=tpu_v2.QueuedResource.Spot())
        await zone.queued_until("q-1", State.ACTIVE)
        await zone.admin.preempt("q-1", zone=zone.zone)
        seen = await zone.queued_until("q-1", State.SUSPENDED)
        assert seen.state_initiator == Initiator.SERVICE
        assert await zone.gone("q-1")
        await zone.dequeue("q-1")

    play_tpu(gcp, story)


def test_a_queued_resource_is_suspending_while_its_node_is_deleted(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.ACTIVE)
        await zone.admin.behave(zone.zone, delete_latency="1h")
        await zone.admin.preempt("q-1", zone=zone.zone)
        await zone.queued_until("q-1", State.SUSPENDING)
        assert (await zone.get("q-1")).state == tpu_v2.Node.State.PREEMPTED

    play_tpu(gcp, story)


def test_a_queued_resource_may_be_suspending_before_its_node_is_preempted(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.ACTIVE)
        await zone.admin.behave(zone.zone, suspend_latency="300ms", delete_latency="1h")
        await zone.admin.preempt("q-1", zone=zone.zone)
        state = await zone.queued("q-1")
        assert (state.state, state.state_initiator) == (State.SUSPENDING, tpu_v2.QueuedResourceState.StateInitiator.SERVICE)
        preempted = tpu_v2.Node.State.PREEMPTED
        await until(lambda: zone.get("q-1"), lambda node: node.state == preempted, seconds=SECONDS)
        assert (await zone.queued("q-1")).state == State.SUSPENDING

    play_tpu(gcp, story)


def test_an_expired_queued_resource_fails_and_stays_until_deleted(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, hold_queue=True)
        policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_duration=timedelta(milliseconds=50))
        await zone.enqueue("q-1", queueing_policy=policy)
        seen = await zone.queued_until("q-1", State.FAILED)
        assert "expired" in seen.failed_data.error.message
        await zone.admin.behave(zone.zone)
        assert (await zone.queued("q-1")).state == State.FAILED
        await zone.dequeue("q-1")
        with pytest.raises(exceptions.NotFound):
            await zone.queued("q-1")

    play_tpu(gcp, story)


def test_a_waiting_queued_resource_can_be_made_to_fail(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, hold_queue=True)
        await zone.enqueue("q-1")
        why = {"code": "RESOURCE_EXHAUSTED", "message": "There is no more capacity"}
        await zone.admin.call("POST", f"/resources/q-1/fail?zone={zone.zone}", why)
        seen = await zone.queued("q-1")
        assert (seen.state, seen.failed_data.error.code) == (State.FAILED, 8)

    play_tpu(gcp, story)


def test_a_repeated_request_id_returns_the_first_operation(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        request_id = str(uuid.uuid4())
        assert await zone.enqueue("q-1", request_id) == await zone.enqueue("q-1", request_id)
        with pytest.raises(exceptions.AlreadyExists):
            await zone.enqueue("q-1", str(uuid.uuid4()))
        assert await zone.admin.times_made("q-1", zone=zone.zone, kind="queued") == 1

    play_tpu(gcp, story)


def test_a_queued_resource_with_nodes_is_deleted_only_with_force(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.ACTIVE)
        with pytest.raises(exceptions.FailedPrecondition):
            await zone.dequeue("q-1")
        await zone.dequeue("q-1", force=True)
        await until(lambda: zone.gone("q-1"), bool, seconds=SECONDS)
        with pytest.raises(exceptions.NotFound):
            await zone.queued("q-1")

    play_tpu(gcp, story)


def test_deleting_its_node_suspends_a_queued_resource(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.enqueue("q-1")
        await zone.queued_until("q-1", State.ACTIVE)
        await zone.delete("q-1")
        assert (await zone.queued_until("q-1", State.SUSPENDED)).state_initiator == Initiator.USER

    play_tpu(gcp, story)


def test_a_queued_resource_may_have_several_nodes(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        several = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(node_count=2, node_id_prefix="part")
        node = tpu_v2.Node(accelerator_type="v6e-8", runtime_version="v2-alpha-tpuv6e")
        spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=zone.parent, multislice_params=several, node=node)
        await zone.enqueue("q-1", tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
        await zone.queued_until("q-1", State.ACTIVE)
        listed = await zone.tpu.list_nodes(parent=zone.parent, timeout=SECONDS)
        assert [seen.name async for seen in listed] == [zone.name("part-0"), zone.name("part-1")]

    play_tpu(gcp, story)


def test_queued_resources_are_listed_in_pages_and_unreachable_zones_named(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, hold_queue=True, page_size=2)
        for number in range(3):
            await zone.enqueue(f"q-{number}")
        pages = [page async for page in (await zone.tpu.list_queued_resources(parent=zone.parent, timeout=SECONDS)).pages]
        assert [len(page.queued_resources) for page in pages] == [2, 1]
        await zone.admin.behave(zone.zone, unreachable=True, hold_queue=True)
        listed = await zone.tpu.list_queued_resources(parent=zone.parent, timeout=SECONDS)
        assert (list(listed.unreachable), len(listed.queued_resources)) == ([zone.parent], 0)
        await zone.admin.behave(zone.zone, hold_queue=True)

    play_tpu(gcp, story)
