"""Instances of the Compute API, through Google's own clients."""

import asyncio
import uuid
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.activities.waiting import until
from tests.emulators.gcp.zones import SECONDS, Clients, ComputeZone, play_compute
from tests.emulators.running_gcp import RunningGcp


def test_an_instance_becomes_running_and_answers_with_its_slice(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        operation = await zone.done(await zone.insert("vm-1"))
        assert not operation.error.errors
        instance = await zone.get("vm-1")
        assert instance.status == "RUNNING"
        assert instance.machine_type.endswith(f"/zones/{zone.zone}/machineTypes/e2-standard-4")
        address = instance.network_interfaces[0].network_i_p
        await until(lambda: zone.admin.health(address), lambda answer: answer == "slice of vm-1", seconds=SECONDS)

    play_compute(gcp, clients, story)


def test_a_repeated_request_id_returns_the_first_operation(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        first = str(uuid.uuid4())
        operation = await zone.insert("vm-1", first)
        assert (await zone.insert("vm-1", first)).name == operation.name
        with pytest.raises(exceptions.Conflict) as refused:
            await zone.insert("vm-1", str(uuid.uuid4()))
        assert refused.value.errors[0]["reason"] == "alreadyExists"
        with pytest.raises(exceptions.BadRequest):
            await zone.insert("vm-2", str(uuid.UUID(int=0)))
        assert await zone.admin.times_made("vm-1", zone=zone.zone, kind="instance") == 1

    play_compute(gcp, clients, story)


def test_concurrent_inserts_with_one_request_id_create_one_instance(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        request_id = str(uuid.uuid4())
        operations = await asyncio.gather(*(zone.insert("vm-1", request_id) for _ in range(5)))
        assert len({operation.name for operation in operations}) == 1
        assert await zone.admin.times_made("vm-1", zone=zone.zone, kind="instance") == 1

    play_compute(gcp, clients, story)


def test_a_bulk_insert_creates_all(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        operation = await zone.done(await zone.bulk("b-0", "b-1", "b-2"))
        counted = operation.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{zone.zone}"]
        assert (counted.target_vm_count, counted.created_vm_count) == (3, 3)
        assert await zone.names() == ["b-0", "b-1", "b-2"]
        addresses = {(await zone.get(name)).network_interfaces[0].network_i_p for name in ("b-0", "b-1", "b-2")}
        assert len(addresses) == 3

    play_compute(gcp, clients, story)


def test_a_bulk_insert_without_capacity_creates_none_and_reports_why(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, capacity=2)
        operation = await zone.done(await zone.bulk("b-0", "b-1", "b-2"))
        assert [error.code for error in operation.error.errors] == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED"]
        assert operation.http_error_status_code == 503
        assert await zone.names() == []

    play_compute(gcp, clients, story)


def test_a_bulk_insert_fails_when_its_last_instance_is_deleted_during_creation(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, boot_latency="1h")
        started = await zone.bulk("b-0", "b-1")
        await zone.delete("b-0")
        assert (await zone.operation(started)).status != compute_v1.Operation.Status.DONE
        await zone.delete("b-1")
        ended = await zone.done(started)
        assert [error.code for error in ended.error.errors] == ["OPERATION_CANCELED_BY_USER"]

    play_compute(gcp, clients, story)


def test_a_bulk_insert_with_a_minimum_creates_as_many_as_fit(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, capacity=2)
        operation = await zone.done(await zone.bulk("b-0", "b-1", "b-2", min_count=1))
        counted = operation.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{zone.zone}"]
        assert (counted.created_vm_count, counted.failed_to_create_vm_count) == (2, 1)
        assert await zone.names() == ["b-0", "b-1"]

    play_compute(gcp, clients, story)


def test_a_bulk_insert_names_instances_by_a_pattern(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.done(await zone.bulk(count=2, name_pattern="b-##"))
        assert await zone.names() == ["b-01", "b-02"]

    play_compute(gcp, clients, story)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["vm-1", "vm-2", "vm-3"]),
        ("labels.team=red", ["vm-1"]),
        ("labels.team = red OR labels.team = blue", ["vm-1", "vm-2"]),
        ("labels.penstock-cluster=c AND NOT labels.team:*", ["vm-3"]),
        ("(labels.team=red OR labels.team=blue) AND (status = RUNNING OR status = STAGING)", ["vm-1", "vm-2"]),
        ("labels.penstock-cluster=c labels.team!=red", ["vm-2", "vm-3"]),
        ("name eq vm-[12]", ["vm-1", "vm-2"]),
        ('(labels.team = "blue")', ["vm-2"]),
        ("status = TERMINATED", []),
        ("-labels.team:*", ["vm-3"]),
    ],
)
def test_lists_are_filtered(gcp: RunningGcp, clients: Clients, text: str, found: list[str]) -> None:
    async def story(zone: ComputeZone) -> None:
        for name, more in {"vm-1": {"team": "red"}, "vm-2": {"team": "blue"}, "vm-3": {}}.items():
            await zone.done(await zone.insert(name, labels={"penstock-cluster": "c"} | more))
        assert await zone.names(text) == found

    play_compute(gcp, clients, story)


@pytest.mark.parametrize("text", ["labels ~ oops", "(labels.a=b", "labels.a=b)", "AND", "NOT", "labels.a=b OR"])
def test_an_invalid_filter_is_refused(gcp: RunningGcp, clients: Clients, text: str) -> None:
    async def story(zone: ComputeZone) -> None:
        with pytest.raises(exceptions.BadRequest, match="filter"):
            await zone.names(text)

    play_compute(gcp, clients, story)


def test_lists_are_paginated_and_aggregated_lists_name_empty_zones(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        for number in range(3):
            await zone.insert(f"vm-{number}", labels={"zone": zone.zone})
        assert await zone.names(max_results=1) == ["vm-0", "vm-1", "vm-2"]
        request = compute_v1.AggregatedListInstancesRequest(project="p", filter=f"labels.zone={zone.zone}", max_results=2)

        def everywhere() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            for scope, listed in zone.instances.aggregated_list(request, timeout=SECONDS):
                found.setdefault(scope, []).extend(instance.name for instance in listed.instances)
            return found

        found = await asyncio.to_thread(everywhere)
        assert found.pop(f"zones/{zone.zone}") == ["vm-0", "vm-1", "vm-2"]
        assert found["zones/us-east1-b"] == []
        assert not any(found.values())

    play_compute(gcp, clients, story)


def test_lists_name_an_unreachable_zone(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        await zone.admin.behave(zone.zone, unreachable=True)
        page: Any
        (page,) = await asyncio.to_thread(lambda: list(zone.instances.aggregated_list(project="p", timeout=SECONDS).pages))
        assert f"zones/{zone.zone}" in page.unreachables
        assert page.items[f"zones/{zone.zone}"].warning.code == "UNREACHABLE"
        own: Any
        (own,) = await asyncio.to_thread(lambda: list(zone.instances.list(**zone.where, timeout=SECONDS).pages))
        assert (list(own.items), own.warning.code) == ([], "UNREACHABLE")
        await zone.admin.behave(zone.zone)

    play_compute(gcp, clients, story)


def test_a_deleted_instance_disappears_and_its_address_is_reused(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.done(await zone.insert("vm-1"))
        address = (await zone.get("vm-1")).network_interfaces[0].network_i_p
        await until(lambda: zone.admin.health(address), lambda answer: answer == "slice of vm-1", seconds=SECONDS)
        await zone.done(await zone.delete("vm-1"))
        await until(lambda: zone.gone("vm-1"), bool, seconds=SECONDS)
        with pytest.raises(exceptions.NotFound):
            await zone.delete("vm-1")
        await zone.done(await zone.insert("vm-2"))
        assert (await zone.get("vm-2")).network_interfaces[0].network_i_p == address
        await until(lambda: zone.admin.health(address), lambda answer: answer == "slice of vm-2", seconds=SECONDS)

    play_compute(gcp, clients, story)


@pytest.mark.parametrize("action", ["STOP", "DELETE"])
def test_a_preempted_instance_stops_or_is_deleted(gcp: RunningGcp, clients: Clients, action: str) -> None:
    async def story(zone: ComputeZone) -> None:
        spot = compute_v1.Scheduling(provisioning_model="SPOT", instance_termination_action=action)
        await zone.done(await zone.insert("vm-1", scheduling=spot))
        address = (await zone.get("vm-1")).network_interfaces[0].network_i_p
        await zone.admin.preempt("vm-1", zone=zone.zone)
        if action == "DELETE":
            await until(lambda: zone.gone("vm-1"), bool, seconds=SECONDS)
        else:
            await until(lambda: zone.get("vm-1"), lambda seen: seen.status == "TERMINATED", seconds=SECONDS)
        await until(lambda: zone.admin.health(address), lambda answer: answer is None, seconds=SECONDS)
        operations = await asyncio.to_thread(lambda: list(zone.operations.list(**zone.where, timeout=SECONDS)))
        assert [operation.operation_type for operation in operations] == ["insert", "compute.instances.preempted"]

    play_compute(gcp, clients, story)


def test_labels_are_replaced_unless_they_changed_meanwhile(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.done(await zone.insert("vm-1"))
        seen = (await zone.get("vm-1")).label_fingerprint

        async def label(**labels: str) -> compute_v1.Operation:
            request = compute_v1.InstancesSetLabelsRequest(labels=labels, label_fingerprint=seen)
            return await asyncio.to_thread(
                zone.instances.set_labels_unary, **zone.where, instance="vm-1", instances_set_labels_request_resource=request
            )

        await zone.done(await label(team="red"))
        assert dict((await zone.get("vm-1")).labels) == {"team": "red"}
        with pytest.raises(exceptions.PreconditionFailed):
            await label(team="blue")

    play_compute(gcp, clients, story)


def test_guest_attributes_hold_the_slice_while_the_host_is_healthy(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        request = compute_v1.GetGuestAttributesInstanceRequest(**zone.where, instance="vm-1", query_path="penstock/")
        written = await asyncio.to_thread(zone.instances.get_guest_attributes, request, timeout=SECONDS)
        assert [(entry.key, entry.value) for entry in written.query_value.items] == [("slice", "slice of vm-1")]
        await zone.admin.kill_host("vm-1", 0, zone=zone.zone)
        with pytest.raises(exceptions.NotFound):
            await asyncio.to_thread(zone.instances.get_guest_attributes, request, timeout=SECONDS)

    play_compute(gcp, clients, story)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"machine_type": "nonsense"}, "machineType"),
        ({"machine_type": "a3-highgpu-8g"}, "live migration"),
        ({"labels": {"Team": "red"}}, "Label keys"),
        ({"labels": {"team": "RED!"}}, "Label values"),
        ({"disks": []}, "disks"),
        ({"network_interfaces": []}, "networkInterfaces"),
    ],
)
def test_a_malformed_instance_is_refused(gcp: RunningGcp, clients: Clients, fields: dict[str, Any], expected: str) -> None:
    async def story(zone: ComputeZone) -> None:
        with pytest.raises(exceptions.BadRequest, match=expected):
            await zone.insert("vm-1", **fields)
        with pytest.raises(exceptions.BadRequest, match="name"):
            await zone.insert("Bad_Name")
        with pytest.raises(exceptions.BadRequest, match="Unknown zone"):
            await asyncio.to_thread(zone.instances.get, project="p", zone="No_Zone", instance="vm-1", timeout=SECONDS)
        assert await zone.admin.resources(zone=zone.zone) == []

    play_compute(gcp, clients, story)


def test_quotas_can_be_read(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, quota={"scope": "region", "limit": 3, "metric": "NVIDIA_H100_GPUS"})
        await zone.done(await zone.insert("vm-1"))
        regions, projects = gcp.compute(compute_v1.RegionsClient), gcp.compute(compute_v1.ProjectsClient)
        region = await asyncio.to_thread(regions.get, project="p", region=zone.zone[:-2], timeout=SECONDS)
        assert {quota.metric: (quota.limit, quota.usage) for quota in region.quotas}["NVIDIA_H100_GPUS"] == (3.0, 1.0)
        project = await asyncio.to_thread(projects.get, project="p", timeout=SECONDS)
        assert "CPUS_ALL_REGIONS" in {quota.metric for quota in project.quotas}
        with pytest.raises(exceptions.NotFound):
            await asyncio.to_thread(regions.get, project="p", region="nowhere", timeout=SECONDS)

    play_compute(gcp, clients, story)


def flex_start(seconds: int) -> dict[str, Any]:
    """Fields of an instance that waits for capacity."""
    runs, waits = compute_v1.Duration(seconds=3600), compute_v1.Duration(seconds=seconds)
    scheduling = compute_v1.Scheduling(
        provisioning_model="FLEX_START",
        max_run_duration=runs,
        instance_termination_action="DELETE",
        on_host_maintenance="TERMINATE",
    )
    return {"scheduling": scheduling, "params": compute_v1.InstanceParams(request_valid_for_duration=waits)}


def test_a_flex_start_instance_waits_until_there_is_capacity(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, capacity=1)
        await zone.done(await zone.insert("vm-1"))
        operation = await zone.insert("vm-2", **flex_start(3600))
        assert (await zone.get("vm-2")).status == "PENDING"
        await zone.delete("vm-1")
        assert not (await zone.done(operation)).error.errors
        await until(lambda: zone.get("vm-2"), lambda seen: seen.status == "RUNNING", seconds=SECONDS)

    play_compute(gcp, clients, story)


def test_a_flex_start_instance_that_is_not_admitted_in_time_is_gone(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, capacity=1)
        assert not (await zone.done(await zone.insert("vm-0", **flex_start(0)))).error.errors
        operation = await zone.done(await zone.insert("vm-1", **flex_start(0)))
        assert [error.code for error in operation.error.errors] == ["ZONE_RESOURCE_POOL_EXHAUSTED"]
        assert await zone.gone("vm-1")

    play_compute(gcp, clients, story)


def test_a_flex_start_instance_can_be_admitted_by_name(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, hold_queue=True)
        operation = await zone.insert("vm-1", **flex_start(3600))
        await zone.admin.call("POST", f"/resources/vm-1/admit?kind=instance&zone={zone.zone}")
        assert not (await zone.done(operation)).error.errors

    play_compute(gcp, clients, story)
