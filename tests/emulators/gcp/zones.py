"""A zone of the Google emulator for each test, with the calls that tests make through Google's own clients."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from google.api_core import exceptions
from google.cloud import compute_v1, tpu_v2

from tests.activities.waiting import until
from tests.emulators.running_gcp import GcpAdmin, RunningGcp

SECONDS = 60.0
"""Deadline of every wait, generous for a busy machine."""
Clients = tuple[compute_v1.InstancesClient, compute_v1.ZoneOperationsClient]


class TpuZone(NamedTuple):
    """TPU calls in a zone that no other test uses, so that all share one emulator."""

    tpu: tpu_v2.TpuAsyncClient
    admin: GcpAdmin
    zone: str

    @property
    def parent(self) -> str:
        return f"projects/p/locations/{self.zone}"

    def name(self, node: str) -> str:
        return f"{self.parent}/nodes/{node}"

    async def create(self, node: str, **fields: Any) -> str:
        """Create a node; returns the name of the operation."""
        settings = {
            "accelerator_type": "v5litepod-16",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "labels": {"penstock-cluster": "c"},
        }
        made = tpu_v2.Node(**settings | {"metadata": {"penstock-slice": f"slice of {node}"}} | fields)
        operation = await self.tpu.create_node(parent=self.parent, node_id=node, node=made, timeout=SECONDS)
        return str(operation.operation.name)

    async def get(self, node: str) -> tpu_v2.Node:
        return await self.tpu.get_node(name=self.name(node), timeout=SECONDS)

    async def delete(self, node: str) -> None:
        await self.tpu.delete_node(name=self.name(node), timeout=SECONDS)

    async def operation(self, name: str) -> Any:
        """Wait until the operation is done."""
        return await until(
            lambda: self.tpu.get_operation({"name": name}, timeout=SECONDS), lambda seen: seen.done, seconds=SECONDS
        )

    async def answered(self, address: str, slice_id: str | None) -> None:
        """Wait until the host at an address answers with the slice id, or with None until it does not answer."""
        await until(lambda: self.admin.health(address), lambda answer: answer == slice_id, seconds=SECONDS)

    async def gone(self, node: str) -> bool:
        try:
            await self.get(node)
        except exceptions.NotFound:
            return True
        return False

    async def enqueue(self, name: str, request_id: str = "", **fields: Any) -> str:
        """Create a queued resource with one node of the same name; returns the name of the operation."""
        node = tpu_v2.Node(accelerator_type="v5litepod-16", runtime_version="v2-alpha-tpuv5-lite")
        node.metadata = {"penstock-slice": f"slice of {name}"}
        spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=self.parent, node_id=name, node=node)
        settings = {"tpu": tpu_v2.QueuedResource.Tpu(node_spec=[spec])} | fields
        request = tpu_v2.CreateQueuedResourceRequest(
            parent=self.parent, queued_resource_id=name, queued_resource=tpu_v2.QueuedResource(**settings), request_id=request_id
        )
        return str((await self.tpu.create_queued_resource(request, timeout=SECONDS)).operation.name)

    async def queued(self, name: str) -> tpu_v2.QueuedResourceState:
        """The state of a queued resource."""
        full = f"{self.parent}/queuedResources/{name}"
        return (await self.tpu.get_queued_resource(name=full, timeout=SECONDS)).state

    async def queued_until(self, name: str, state: int) -> tpu_v2.QueuedResourceState:
        """Wait until a queued resource has the state."""
        return await until(lambda: self.queued(name), lambda seen: seen.state == state, seconds=SECONDS)

    async def dequeue(self, name: str, *, force: bool = False) -> None:
        full = f"{self.parent}/queuedResources/{name}"
        request = tpu_v2.DeleteQueuedResourceRequest(name=full, force=force)
        await self.tpu.delete_queued_resource(request, timeout=SECONDS)


class ComputeZone:
    """Compute calls in a zone that no other test uses. Google's client blocks, so calls run in threads."""

    def __init__(self, clients: Clients, admin: GcpAdmin) -> None:
        self.instances, self.operations = clients
        self.admin = admin
        self.zone = f"zone-{uuid.uuid4().hex[:8]}-a"
        self.where: dict[str, Any] = {"project": "p", "zone": self.zone}

    def instance(self, name: str, *, machine_type: str = "e2-standard-4", **fields: Any) -> compute_v1.Instance:
        metadata = compute_v1.Metadata(items=[compute_v1.Items(key="penstock-slice", value=f"slice of {name}")])
        settings = {"labels": {"penstock-cluster": "c"}, "metadata": metadata, "disks": [compute_v1.AttachedDisk(boot=True)]}
        settings |= {"network_interfaces": [compute_v1.NetworkInterface(network="global/networks/default")]}
        return compute_v1.Instance(name=name, machine_type=f"zones/{self.zone}/machineTypes/{machine_type}", **settings | fields)

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
        settings = compute_v1.BulkInsertInstanceResource(
            **{"count": len(names), "instance_properties": properties, "per_instance_properties": each} | fields
        )
        return await asyncio.to_thread(
            self.instances.bulk_insert_unary, **self.where, bulk_insert_instance_resource_resource=settings, timeout=SECONDS
        )

    async def get(self, name: str) -> compute_v1.Instance:
        return await asyncio.to_thread(self.instances.get, **self.where, instance=name, retry=None, timeout=SECONDS)

    async def delete(self, name: str) -> compute_v1.Operation:
        return await asyncio.to_thread(self.instances.delete_unary, **self.where, instance=name, timeout=SECONDS)

    async def done(self, operation: compute_v1.Operation) -> compute_v1.Operation:
        """Wait until the operation is done."""
        done = compute_v1.Operation.Status.DONE
        return await until(lambda: self.operation(operation), lambda seen: seen.status == done, seconds=SECONDS)

    async def operation(self, started: compute_v1.Operation) -> compute_v1.Operation:
        """The operation in its current state."""
        return await asyncio.to_thread(self.operations.get, **self.where, operation=started.name, timeout=SECONDS)

    async def names(self, text: str = "", **more: Any) -> list[str]:
        request = compute_v1.ListInstancesRequest(**self.where, filter=text, **more)
        return await asyncio.to_thread(lambda: [i.name for i in self.instances.list(request, timeout=SECONDS)])

    async def gone(self, name: str) -> bool:
        try:
            await self.get(name)
        except exceptions.NotFound:
            return True
        return False


def play_tpu(gcp: RunningGcp, story: Callable[[TpuZone], Awaitable[None]]) -> None:
    async def played() -> None:
        async with gcp.tpu() as tpu, gcp.admin() as admin:
            await story(TpuZone(tpu, admin, f"zone-{uuid.uuid4().hex[:8]}-a"))

    asyncio.run(played())


def play_compute(
    gcp: RunningGcp,
    clients: Clients,
    story: Callable[[ComputeZone], Awaitable[None]],
) -> None:
    async def played() -> None:
        async with gcp.admin() as admin:
            await story(ComputeZone(clients, admin))

    asyncio.run(played())
