"""The Compute API on instances, through Google's own clients."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.activities.waiting import until
from tests.emulators.running_gcp import GcpAdmin, RunningGcp

SECONDS = 60.0
DONE = compute_v1.Operation.Status.DONE
Clients = tuple[compute_v1.InstancesClient, compute_v1.ZoneOperationsClient]


@pytest.fixture(scope="module")
def gcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    running = RunningGcp(tmp_path_factory.mktemp("gcp") / "gcp.db")
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="module")
def clients(gcp: RunningGcp) -> Clients:
    return gcp.compute(compute_v1.InstancesClient), gcp.compute(compute_v1.ZoneOperationsClient)


class Place:
    """A zone of its own for every test, so that one emulator serves them all. Google's client blocks, so it has threads."""

    def __init__(self, clients: Clients, admin: GcpAdmin) -> None:
        self.instances, self.operations = clients
        self.admin = admin
        self.zone = f"zone-{uuid.uuid4().hex[:8]}-a"
        self.where: dict[str, Any] = {"project": "p", "zone": self.zone}

    def instance(self, name: str, *, machine_type: str = "e2-standard-4", **fields: Any) -> compute_v1.Instance:
        about = compute_v1.Metadata(items=[compute_v1.Items(key="penstock-slice", value=f"slice of {name}")])
        asked = {"labels": {"penstock-cluster": "c"}, "metadata": about, "disks": [compute_v1.AttachedDisk(boot=True)]}
        asked |= {"network_interfaces": [compute_v1.NetworkInterface(network="global/networks/default")]}
        return compute_v1.Instance(name=name, machine_type=f"zones/{self.zone}/machineTypes/{machine_type}", **asked | fields)

    async def insert(self, name: str, request_id: str | None = None, **fields: Any) -> compute_v1.Operation:
        request = compute_v1.InsertInstanceRequest(
            **self.where, instance_resource=self.instance(name, **fields), request_id=request_id
        )
        return await asyncio.to_thread(self.instances.insert_unary, request, timeout=SECONDS)

    async def bulk(self, *names: str, machine_type: str = "e2-standard-4", **fields: Any) -> compute_v1.Operation:
        made = self.instance("unnamed")
        properties = compute_v1.InstanceProperties(
            machine_type=machine_type,
            labels=made.labels,
            metadata=made.metadata,
            disks=made.disks,
            network_interfaces=made.network_interfaces,
        )
        each = {name: compute_v1.BulkInsertInstanceResourcePerInstanceProperties() for name in names}
        asked = compute_v1.BulkInsertInstanceResource(
            **{"count": len(names), "instance_properties": properties, "per_instance_properties": each} | fields
        )
        return await asyncio.to_thread(
            self.instances.bulk_insert_unary, **self.where, bulk_insert_instance_resource_resource=asked, timeout=SECONDS
        )

    async def get(self, name: str) -> compute_v1.Instance:
        return await asyncio.to_thread(self.instances.get, **self.where, instance=name, retry=None, timeout=SECONDS)

    async def delete(self, name: str) -> compute_v1.Operation:
        return await asyncio.to_thread(self.instances.delete_unary, **self.where, instance=name, timeout=SECONDS)

    async def done(self, operation: compute_v1.Operation) -> compute_v1.Operation:
        """The operation, once it is done."""
        return await until(
            lambda: asyncio.to_thread(self.operations.get, **self.where, operation=operation.name, timeout=SECONDS),
            lambda seen: seen.status == DONE,
            seconds=SECONDS,
        )

    async def names(self, text: str = "", **more: Any) -> list[str]:
        request = compute_v1.ListInstancesRequest(**self.where, filter=text, **more)
        return await asyncio.to_thread(lambda: [i.name for i in self.instances.list(request, timeout=SECONDS)])

    async def gone(self, name: str) -> bool:
        try:
            await self.get(name)
        except exceptions.NotFound:
            return True
        return False


def play(
    gcp: RunningGcp,
    clients: Clients,
    story: Callable[[Place], Awaitable[None]],
) -> None:
    async def played() -> None:
        async with gcp.admin() as admin:
            await story(Place(clients, admin))

    asyncio.run(played())


def test_an_instance_comes_to_run_and_answers_with_its_slice(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        operation = await place.done(await place.insert("vm-1"))
        assert not operation.error.errors
        instance = await place.get("vm-1")
        assert instance.status == "RUNNING"
        assert instance.machine_type.endswith(f"/zones/{place.zone}/machineTypes/e2-standard-4")
        address = instance.network_interfaces[0].network_i_p
        await until(lambda: place.admin.health(address), lambda said: said == "slice of vm-1", seconds=SECONDS)

    play(gcp, clients, story)


def test_a_request_id_seen_before_gives_the_operation_of_then(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        first = str(uuid.uuid4())
        operation = await place.insert("vm-1", first)
        assert (await place.insert("vm-1", first)).name == operation.name
        with pytest.raises(exceptions.Conflict) as refused:
            await place.insert("vm-1", str(uuid.uuid4()))
        assert refused.value.errors[0]["reason"] == "alreadyExists"
        with pytest.raises(exceptions.BadRequest):
            await place.insert("vm-2", str(uuid.UUID(int=0)))
        assert await place.admin.times_made("vm-1", zone=place.zone, kind="instance") == 1

    play(gcp, clients, story)


def test_many_inserts_of_one_request_id_at_once_make_one(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        request_id = str(uuid.uuid4())
        operations = await asyncio.gather(*(place.insert("vm-1", request_id) for _ in range(5)))
        assert len({operation.name for operation in operations}) == 1
        assert await place.admin.times_made("vm-1", zone=place.zone, kind="instance") == 1

    play(gcp, clients, story)


def test_a_bulk_insert_makes_all(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        operation = await place.done(await place.bulk("b-0", "b-1", "b-2"))
        counted = operation.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{place.zone}"]
        assert (counted.target_vm_count, counted.created_vm_count) == (3, 3)
        assert await place.names() == ["b-0", "b-1", "b-2"]
        addresses = {(await place.get(name)).network_interfaces[0].network_i_p for name in ("b-0", "b-1", "b-2")}
        assert len(addresses) == 3

    play(gcp, clients, story)


def test_a_bulk_insert_for_which_there_is_no_room_makes_none_and_says_why(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.admin.behave(place.zone, capacity=2)
        operation = await place.done(await place.bulk("b-0", "b-1", "b-2"))
        assert [error.code for error in operation.error.errors] == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED"]
        assert operation.http_error_status_code == 503
        assert await place.names() == []

    play(gcp, clients, story)


def test_a_bulk_insert_that_needs_less_makes_what_there_is(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.admin.behave(place.zone, capacity=2)
        operation = await place.done(await place.bulk("b-0", "b-1", "b-2", min_count=1))
        counted = operation.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{place.zone}"]
        assert (counted.created_vm_count, counted.failed_to_create_vm_count) == (2, 1)
        assert await place.names() == ["b-0", "b-1"]

    play(gcp, clients, story)


def test_names_of_a_bulk_insert_may_come_from_a_pattern(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.done(await place.bulk(count=2, name_pattern="b-##"))
        assert await place.names() == ["b-01", "b-02"]

    play(gcp, clients, story)


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
    async def story(place: Place) -> None:
        for name, more in {"vm-1": {"team": "red"}, "vm-2": {"team": "blue"}, "vm-3": {}}.items():
            await place.done(await place.insert(name, labels={"penstock-cluster": "c"} | more))
        assert await place.names(text) == found

    play(gcp, clients, story)


@pytest.mark.parametrize("text", ["labels ~ oops", "(labels.a=b", "labels.a=b)", "AND", "NOT", "labels.a=b OR"])
def test_a_filter_that_cannot_be_read_is_refused(gcp: RunningGcp, clients: Clients, text: str) -> None:
    async def story(place: Place) -> None:
        with pytest.raises(exceptions.BadRequest, match="filter"):
            await place.names(text)

    play(gcp, clients, story)


def test_lists_come_in_pages_and_lists_of_all_zones_name_empty_ones(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        for number in range(3):
            await place.insert(f"vm-{number}", labels={"zone": place.zone})
        assert await place.names(max_results=1) == ["vm-0", "vm-1", "vm-2"]
        request = compute_v1.AggregatedListInstancesRequest(project="p", filter=f"labels.zone={place.zone}", max_results=2)

        def everywhere() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            for scope, listed in place.instances.aggregated_list(request, timeout=SECONDS):
                found.setdefault(scope, []).extend(instance.name for instance in listed.instances)
            return found

        found = await asyncio.to_thread(everywhere)
        assert found.pop(f"zones/{place.zone}") == ["vm-0", "vm-1", "vm-2"]
        assert found["zones/us-east1-b"] == []
        assert not any(found.values())

    play(gcp, clients, story)


def test_a_zone_that_cannot_be_reached_is_named_as_such(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.insert("vm-1")
        await place.admin.behave(place.zone, unreachable=True)
        (page,) = await asyncio.to_thread(lambda: list(place.instances.aggregated_list(project="p", timeout=SECONDS).pages))
        assert f"zones/{place.zone}" in page.unreachables
        assert page.items[f"zones/{place.zone}"].warning.code == "UNREACHABLE"
        own: Any
        (own,) = await asyncio.to_thread(lambda: list(place.instances.list(**place.where, timeout=SECONDS).pages))
        assert (list(own.items), own.warning.code) == ([], "UNREACHABLE")
        await place.admin.behave(place.zone)

    play(gcp, clients, story)


def test_what_is_deleted_goes_and_its_address_serves_another(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.done(await place.insert("vm-1"))
        address = (await place.get("vm-1")).network_interfaces[0].network_i_p
        await until(lambda: place.admin.health(address), lambda said: said == "slice of vm-1", seconds=SECONDS)
        await place.done(await place.delete("vm-1"))
        await until(lambda: place.gone("vm-1"), bool, seconds=SECONDS)
        with pytest.raises(exceptions.NotFound):
            await place.delete("vm-1")
        await place.done(await place.insert("vm-2"))
        assert (await place.get("vm-2")).network_interfaces[0].network_i_p == address
        await until(lambda: place.admin.health(address), lambda said: said == "slice of vm-2", seconds=SECONDS)

    play(gcp, clients, story)


@pytest.mark.parametrize("action", ["STOP", "DELETE"])
def test_a_preempted_instance_stops_or_is_gone(gcp: RunningGcp, clients: Clients, action: str) -> None:
    async def story(place: Place) -> None:
        spot = compute_v1.Scheduling(provisioning_model="SPOT", instance_termination_action=action)
        await place.done(await place.insert("vm-1", scheduling=spot))
        address = (await place.get("vm-1")).network_interfaces[0].network_i_p
        await place.admin.preempt("vm-1", zone=place.zone)
        if action == "DELETE":
            await until(lambda: place.gone("vm-1"), bool, seconds=SECONDS)
        else:
            await until(lambda: place.get("vm-1"), lambda seen: seen.status == "TERMINATED", seconds=SECONDS)
        await until(lambda: place.admin.health(address), lambda said: said is None, seconds=SECONDS)
        told = await asyncio.to_thread(lambda: list(place.operations.list(**place.where, timeout=SECONDS)))
        assert [operation.operation_type for operation in told] == ["insert", "compute.instances.preempted"]

    play(gcp, clients, story)


def test_labels_are_replaced_unless_somebody_was_quicker(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.done(await place.insert("vm-1"))
        seen = (await place.get("vm-1")).label_fingerprint

        async def label(**labels: str) -> compute_v1.Operation:
            asked = compute_v1.InstancesSetLabelsRequest(labels=labels, label_fingerprint=seen)
            return await asyncio.to_thread(
                place.instances.set_labels_unary, **place.where, instance="vm-1", instances_set_labels_request_resource=asked
            )

        await place.done(await label(team="red"))
        assert dict((await place.get("vm-1")).labels) == {"team": "red"}
        with pytest.raises(exceptions.PreconditionFailed):
            await label(team="blue")

    play(gcp, clients, story)


def test_guest_attributes_tell_the_slice_once_the_host_has_started(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.insert("vm-1")
        request = compute_v1.GetGuestAttributesInstanceRequest(**place.where, instance="vm-1", query_path="penstock/")
        written = await asyncio.to_thread(place.instances.get_guest_attributes, request, timeout=SECONDS)
        assert [(entry.key, entry.value) for entry in written.query_value.items] == [("slice", "slice of vm-1")]
        await place.admin.kill_host("vm-1", 0, zone=place.zone)
        with pytest.raises(exceptions.NotFound):
            await asyncio.to_thread(place.instances.get_guest_attributes, request, timeout=SECONDS)

    play(gcp, clients, story)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"machine_type": "nonsense"}, "machineType"),
        ({"machine_type": "a3-highgpu-8g"}, "live migration"),
        ({"labels": {"Team": "red"}}, "Label keys"),
        ({"labels": {"team": "RED!"}}, "Label values"),
        ({"disks": []}, "disks"),
        ({"network_interfaces": []}, "networkInterfaces"),
    ],
)
def test_a_malformed_instance_is_refused(gcp: RunningGcp, clients: Clients, fields: dict[str, Any], told: str) -> None:
    async def story(place: Place) -> None:
        with pytest.raises(exceptions.BadRequest, match=told):
            await place.insert("vm-1", **fields)
        with pytest.raises(exceptions.BadRequest, match="name"):
            await place.insert("Bad_Name")
        assert await place.admin.resources(zone=place.zone) == []

    play(gcp, clients, story)


def test_quotas_can_be_read(gcp: RunningGcp, clients: Clients) -> None:
    async def story(place: Place) -> None:
        await place.admin.behave(place.zone, quota={"scope": "region", "limit": 3, "metric": "NVIDIA_H100_GPUS"})
        await place.done(await place.insert("vm-1"))
        regions, projects = gcp.compute(compute_v1.RegionsClient), gcp.compute(compute_v1.ProjectsClient)
        region = await asyncio.to_thread(regions.get, project="p", region=place.zone[:-2], timeout=SECONDS)
        assert {quota.metric: (quota.limit, quota.usage) for quota in region.quotas}["NVIDIA_H100_GPUS"] == (3.0, 1.0)
        project = await asyncio.to_thread(projects.get, project="p", timeout=SECONDS)
        assert "CPUS_ALL_REGIONS" in {quota.metric for quota in project.quotas}
        with pytest.raises(exceptions.NotFound):
            await asyncio.to_thread(regions.get, project="p", region="nowhere", timeout=SECONDS)

    play(gcp, clients, story)
