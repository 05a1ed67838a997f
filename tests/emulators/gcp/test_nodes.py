"""Nodes of the TPU API, through Google's own client."""

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask

from tests.activities.waiting import until
from tests.emulators.gcp.zones import SECONDS, TpuZone, play_tpu
from tests.emulators.running_gcp import RunningGcp

State = tpu_v2.Node.State


def test_a_node_becomes_ready_and_every_host_answers_with_its_slice(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        operation = await zone.operation(await zone.create("n-1"))
        reply = tpu_v2.Node.deserialize(operation.response.value)
        assert (reply.state, reply.health) == (State.READY, tpu_v2.Node.Health.HEALTH_UNSPECIFIED)
        node = await zone.get("n-1")
        assert (node.state, node.health) == (State.READY, tpu_v2.Node.Health.HEALTHY)
        assert dict(node.labels) == {"penstock-cluster": "c"}
        addresses = [endpoint.ip_address for endpoint in node.network_endpoints]
        assert len(set(addresses)) == 4
        for address in addresses:
            await zone.answered(address, "slice of n-1")

    play_tpu(gcp, story)


def test_hosts_have_addresses_before_the_node_is_ready(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, boot_latency="1h")
        await zone.create("n-1")
        node = await until(lambda: zone.get("n-1"), lambda seen: len(seen.network_endpoints) == 4, seconds=SECONDS)
        assert node.state == State.CREATING
        assert await zone.admin.health(node.network_endpoints[0].ip_address) is None

    play_tpu(gcp, story)


def test_hosts_may_answer_before_the_api_shows_ready(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, ready_lag="1h")
        await zone.create("n-1")
        node = await zone.get("n-1")
        assert node.state == State.CREATING
        await zone.answered(node.network_endpoints[0].ip_address, "slice of n-1")

    play_tpu(gcp, story)


def test_a_name_is_taken_until_its_node_is_gone(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.create("n-1")
        with pytest.raises(exceptions.AlreadyExists):
            await zone.create("n-1")
        await zone.delete("n-1")
        await until(lambda: zone.gone("n-1"), bool, seconds=SECONDS)
        with pytest.raises(exceptions.NotFound):
            await zone.delete("n-1")
        await zone.create("n-1")
        assert await zone.admin.times_made("n-1", zone=zone.zone) == 2

    play_tpu(gcp, story)


def test_a_preempted_node_stays_until_deleted_and_its_hosts_do_not_answer(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.operation(await zone.create("n-1", scheduling_config={"spot": True}))
        address = (await zone.get("n-1")).network_endpoints[0].ip_address
        await zone.answered(address, "slice of n-1")
        assert await zone.admin.call("POST", f"/zones/{zone.zone}/preempt") == {"preempted": ["n-1"]}
        assert (await zone.get("n-1")).state == State.PREEMPTED
        await zone.answered(address, None)
        await zone.delete("n-1")
        await until(lambda: zone.gone("n-1"), bool, seconds=SECONDS)

    play_tpu(gcp, story)


def test_preempting_a_node_during_creation_fails_its_operation(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, boot_latency="1h")
        name = await zone.create("n-1")
        await zone.admin.preempt("n-1", zone=zone.zone)
        operation = await zone.operation(name)
        assert (operation.error.code, "in state PREEMPTED" in operation.error.message) == (3, True)
        assert (await zone.get("n-1")).state == State.PREEMPTED

    play_tpu(gcp, story)


def test_a_dead_host_does_not_answer_and_the_others_do(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.operation(await zone.create("n-1"))
        addresses = [endpoint.ip_address for endpoint in (await zone.get("n-1")).network_endpoints]
        await zone.answered(addresses[2], "slice of n-1")
        await zone.admin.kill_host("n-1", 2, zone=zone.zone)
        await zone.answered(addresses[2], None)
        await zone.answered(addresses[1], "slice of n-1")
        assert (await zone.get("n-1")).state == State.READY

    play_tpu(gcp, story)


def test_a_node_is_repairing_during_a_maintenance_and_ready_after_it(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.operation(await zone.create("n-1"))
        await zone.admin.maintain("n-1", zone=zone.zone)
        node = await zone.get("n-1")
        assert (node.state, node.health) == (State.REPAIRING, tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE)
        await zone.answered(node.network_endpoints[0].ip_address, None)
        await zone.admin.maintain("n-1", 0, zone=zone.zone)
        await zone.answered(node.network_endpoints[0].ip_address, "slice of n-1")
        assert (await zone.get("n-1")).state == State.READY

    play_tpu(gcp, story)


def test_lists_of_one_zone_or_all_are_paginated(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, page_size=2)
        for number in range(5):
            await zone.create(f"n-{number}", accelerator_type="v5litepod-1")
        pages = [page async for page in (await zone.tpu.list_nodes(parent=zone.parent, timeout=SECONDS)).pages]
        assert [len(page.nodes) for page in pages] == [2, 2, 1]
        everywhere = await zone.tpu.list_nodes(
            tpu_v2.ListNodesRequest(parent="projects/p/locations/-", page_size=3), timeout=SECONDS
        )
        names = [node.name async for node in everywhere]
        assert [name for name in names if name.startswith(f"{zone.parent}/")] == [zone.name(f"n-{number}") for number in range(5)]
        other = await zone.tpu.list_nodes(parent="projects/another/locations/-", timeout=SECONDS)
        assert [node.name async for node in other] == []

    play_tpu(gcp, story)


def test_lists_name_an_unreachable_zone_and_omit_its_nodes(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.create("n-1")
        await zone.admin.behave(zone.zone, unreachable=True)
        for parent in (zone.parent, "projects/p/locations/-"):
            pages = [page async for page in (await zone.tpu.list_nodes(parent=parent, timeout=SECONDS)).pages]
            assert all(zone.parent in page.unreachable for page in pages)
            assert zone.name("n-1") not in [node.name for page in pages for node in page.nodes]
        await zone.admin.behave(zone.zone)

    play_tpu(gcp, story)


def test_guest_attributes_hold_the_slice_of_each_host(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.operation(await zone.create("n-1"))
        await zone.admin.kill_host("n-1", 1, zone=zone.zone)
        request = tpu_v2.GetGuestAttributesRequest(name=zone.name("n-1"), query_path="penstock/slice")
        written = (await zone.tpu.get_guest_attributes(request, timeout=SECONDS)).guest_attributes
        values = [[entry.value for entry in attributes.query_value.items] for attributes in written]
        assert values == [["slice of n-1"], [], ["slice of n-1"], ["slice of n-1"]]

    play_tpu(gcp, story)


def test_labels_can_be_changed_only_when_a_node_is_ready(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, boot_latency="1h")
        await zone.create("n-1")
        await zone.admin.behave(zone.zone)
        await zone.operation(await zone.create("n-2"))

        async def label(node: str) -> None:
            changed = tpu_v2.Node(name=zone.name(node), labels={"team": "red"})
            await zone.tpu.update_node(node=changed, update_mask=FieldMask(paths=["labels"]), timeout=SECONDS)

        with pytest.raises(exceptions.FailedPrecondition, match="CREATING"):
            await label("n-1")
        await label("n-2")
        assert dict((await zone.get("n-2")).labels) == {"team": "red"}

    play_tpu(gcp, story)


@pytest.mark.parametrize(
    ("node", "fields", "expected"),
    [
        ("Bad_Name", {}, "node_id"),
        ("n" * 64, {}, "node_id"),
        ("n-1", {"accelerator_type": "v5litepod-3"}, "v5litepod-3"),
        ("n-1", {"accelerator_type": ""}, "accelerator_type"),
        ("n-1", {"runtime_version": ""}, "runtime_version"),
        ("n-1", {"labels": {"Team": "red"}}, "Label keys"),
        ("n-1", {"labels": {"team": "Red"}}, "Label values"),
    ],
)
def test_a_malformed_node_is_refused(gcp: RunningGcp, node: str, fields: dict[str, object], expected: str) -> None:
    async def story(zone: TpuZone) -> None:
        with pytest.raises(exceptions.InvalidArgument, match=expected):
            await zone.create(node, **fields)
        with pytest.raises(exceptions.InvalidArgument, match="parent"):
            await zone.tpu.list_nodes(parent="projects/p", timeout=SECONDS)
        assert await zone.admin.resources(zone=zone.zone) == []

    play_tpu(gcp, story)


def test_a_topology_is_resolved_to_its_accelerator_type(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        config = {"type_": "V5P", "topology": "2x2x2"}
        await zone.operation(await zone.create("n-1", accelerator_type="", accelerator_config=config))
        node = await zone.get("n-1")
        assert (node.accelerator_type, len(node.network_endpoints)) == ("v5p-16", 2)

    play_tpu(gcp, story)


def test_a_zone_refuses_types_that_it_does_not_offer(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, offers=["v6e-8"])
        with pytest.raises(exceptions.InvalidArgument):
            await zone.create("n-1")
        await zone.create("n-1", accelerator_type="v6e-8")

    play_tpu(gcp, story)


def test_operations_are_listed_with_verb_and_target(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        created = await zone.create("n-1")
        await zone.delete("n-1")
        listed = await zone.tpu.list_operations({"name": zone.parent}, timeout=SECONDS)
        about = [tpu_v2.OperationMetadata.deserialize(operation.metadata.value) for operation in listed.operations]
        assert [(one.verb, one.target) for one in about] == [("delete", zone.name("n-1")), ("create", zone.name("n-1"))]
        assert listed.operations[1].name == created

    play_tpu(gcp, story)


def test_deleting_a_node_during_creation_ends_its_operation(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, create_latency="1h")
        name = await zone.create("n-1")
        await zone.delete("n-1")
        assert (await zone.operation(name)).error.code == 1

    play_tpu(gcp, story)


def test_a_foreign_machine_is_ready_at_once(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, create_latency="1h", stockout=True)
        await zone.admin.add_stranger("n-1", kind="node", project="p", zone=zone.zone, labels={"owner": "another-team"})
        assert (await zone.get("n-1")).state == State.READY
        with pytest.raises(exceptions.AlreadyExists):
            await zone.create("n-1")

    play_tpu(gcp, story)
