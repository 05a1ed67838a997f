"""Cloud TPU as a provider: a slice is a node, or a queued resource that becomes one of the same name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from google.api_core import exceptions as api
from google.api_core.operation_async import AsyncOperation
from google.cloud import tpu_v2
from google.longrunning import operations_pb2  # type: ignore[import-untyped]

from activities.providers.gcp import health, tpu_wire
from activities.providers.gcp.calls import CALL_SECONDS, looks
from activities.providers.gcp.codes import PASSING, Meaning
from activities.providers.gcp.errors import CAUGHT, Fault, Place, error_of, failure_of, fault_of_status
from activities.providers.gcp.naming import CLUSTER_LABEL, label_value
from activities.providers.gcp.placed import Placed
from activities.providers.gcp.quoting import unspoken
from activities.providers.gcp.settings import Connection, HealthBy, TpuSettings, read
from activities.providers.gcp.startup import told
from activities.providers.gcp.tpu_client import Opened, call_fault, open_client
from activities.providers.gcp.tpu_wire import SeenNode, SeenQueued, is_ours, standing
from activities.providers.port import (
    Adopted,
    Conflict,
    Created,
    Deleting,
    Gone,
    Host,
    Listing,
    Order,
    Phase,
    Queued,
    Ref,
    Sighting,
    Transient,
)

_CANCELLED = 1
_OPERATION_PAGES = 5
"""How far back the reason of a failure is looked for: a reason is good to have, not worth a thousand calls."""


class TpuProvider:
    """Keeps the promises of `Provider` for one project; the session belongs to the caller, the client to this."""

    def __init__(self, connection: Connection, session: aiohttp.ClientSession) -> None:
        self._connection = connection
        self._session = session
        self._opened: Opened | None = None
        self._placed = Placed(connection.project)
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Give the connection back."""
        if self._opened is not None:
            await self._opened.client.transport.close()  # type: ignore[no-untyped-call]
            self._opened = None

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Order the node or put it in the queue, wait a little for the order to fail, and adopt what exists."""
        settings = read(TpuSettings, order.settings)
        metadata, secrets = told(order, settings, self._connection)
        node = tpu_wire.node_of(order, settings, metadata)
        self._placed.told(order, secrets)
        with unspoken(secrets):
            async with self._translated(order.location):
                if order.queued:
                    return await self._enqueue(order, settings, node)
                return await self._make(order, settings, node)

    async def observe(self, ref: Ref) -> Sighting:
        """Look at the node, or at what waits for one; its hosts are asked wherever they have addresses."""
        async with self._translated(ref.location):
            node, queued = await self._node(ref), None
            if not is_ours(node, ref):
                queued = await self._queued(ref)
                # One that is ACTIVE may have got its node since that was looked for.
                node = await self._node(ref) if queued is not None and queued.active else node
            if node is None or not is_ours(node, ref):
                return await self._without_node(ref, node, queued)
            missing = queued is None and bool(node.pb.queued_resource)
            hosts, queued = await asyncio.gather(self._hosts(ref, node), self._queued(ref) if missing else _known(queued))
        phase, failure = standing(node, queued)
        seen = Sighting(ref=ref, phase=phase, hosts=hosts, created_at=node.created_at, failure=failure)
        return seen.model_copy(update={"phase": Phase.RUNNING}) if seen.healthy and phase is Phase.BOOTING else seen

    async def list(self, location: str, *, cluster: str) -> Listing:
        """Nodes, and queued resources without one. There is no filter: what is not ours is left out here.

        Queued resources are listed first: one that is ACTIVE has its node by the time that nodes are listed. If not all
        of them were, it is left out, for its node is no more absent than any other.
        """
        queued: dict[str, SeenQueued] = {}
        nodes: dict[str, SeenNode] = {}
        all_queued = all_nodes = True
        async with self._translated(location):
            async for page in self._queued_pages(location):
                all_queued = all_queued and not page.unreachable
                queued |= {tpu_wire.name_of(pb): SeenQueued(pb) for pb in page.queued_resources}
            async for page in self._node_pages(location):
                all_nodes = all_nodes and not page.unreachable
                nodes |= {tpu_wire.name_of(pb): SeenNode(pb) for pb in page.nodes}
        if not all_nodes:
            queued = {name: seen for name, seen in queued.items() if name in nodes or not seen.active}
        items = [self._listed(name, nodes.get(name), queued.get(name), location) for name in sorted(nodes.keys() | queued.keys())]
        ours = tuple(item for item in items if item and item.labels.cluster == cluster)
        return Listing(items=ours, complete=all_queued and all_nodes)

    async def strays(self, location: str, *, cluster: str) -> tuple[str, ...]:
        """Names of nodes that carry the cluster's label and are yet nobody's: labels or metadata were changed by hand."""
        async with self._translated(location):
            nodes = [pb async for page in self._node_pages(location) for pb in page.nodes]
        labelled = [pb for pb in nodes if pb.labels.get(CLUSTER_LABEL) == label_value(cluster)]
        return tuple(sorted(tpu_wire.name_of(pb) for pb in labelled if SeenNode(pb).owner is None))

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete the queued resource, and its node with it, or the node alone; each only if it is ours."""
        async with self._translated(ref.location):
            node, queued = await asyncio.gather(self._node(ref), self._queued(ref))
            if not is_ours(node, ref) and not is_ours(queued, ref):
                seen = await self._without_node(ref, node, queued)
                return Gone(ref=ref) if seen.phase is Phase.GONE else Deleting(ref=ref)
            try:
                if queued is not None and is_ours(queued, ref):
                    if not queued.deleting:
                        request = tpu_v2.DeleteQueuedResourceRequest(name=self._queued_name(ref), force=True)
                        await (await self._client()).delete_queued_resource(request, timeout=CALL_SECONDS)
                elif node is not None and not node.deleting:
                    await (await self._client()).delete_node(name=self._node_name(ref), timeout=CALL_SECONDS)
            except api.NotFound:
                return Deleting(ref=ref)
        return Deleting(ref=ref)

    async def _make(self, order: Order, settings: TpuSettings, node: tpu_v2.Node) -> Created | Adopted:
        """Nothing but its name makes this call repeatable: it takes no request id."""
        try:
            begun = await _taken(
                await (await self._client()).create_node(
                    parent=self._parent(order.location), node_id=order.name, node=node, timeout=CALL_SECONDS
                )
            )
        except api.AlreadyExists:
            await self._adopt(order)
            return Adopted(ref=order.ref)
        await self._raise_early_failure(begun.name, order, settings)
        return Created(ref=order.ref)

    async def _adopt(self, order: Order) -> None:
        found = await self._node(order.ref)
        if found is None:
            raise Transient(f"{order.name} existed and is gone; create it again")
        if not is_ours(found, order.ref):
            raise Conflict(
                f"node {order.name} is taken in {order.location} by something without the labels of slice {order.slice}"
            )

    async def _enqueue(self, order: Order, settings: TpuSettings, node: tpu_v2.Node) -> Adopted | Queued:
        parent = self._parent(order.location)
        request = tpu_v2.CreateQueuedResourceRequest(
            parent=parent,
            queued_resource_id=order.name,
            queued_resource=tpu_wire.queued_of(order, settings, node, parent=parent),
        )
        try:
            begun = await self._begun(order, request)
            await self._raise_early_failure(begun, order, settings)
        except api.AlreadyExists:
            pass
        if await self._node(order.ref) is not None:
            await self._adopt(order)
            return Adopted(ref=order.ref)
        queued = await self._queued(order.ref)
        if queued is None:
            raise Transient(f"queued resource {order.name} is not to be seen; create it again")
        if not is_ours(queued, order.ref):
            raise Conflict(f"queued resource {order.name} is taken in {order.location} by something that is not ours")
        return Queued(ref=order.ref)

    async def _begun(self, order: Order, request: tpu_v2.CreateQueuedResourceRequest) -> str:
        """The operation that puts the order in the queue.

        One that failed for a passing reason before this call is given again for its request id: then the next id is tried.
        """
        name = ""
        for request.request_id in self._placed.request_ids(order):
            begun = await _taken(await (await self._client()).create_queued_resource(request, timeout=CALL_SECONDS))
            name, fault = begun.name, _operation_fault(begun)
            if fault is None or fault.meaning not in PASSING:
                break
        return name

    async def _raise_early_failure(self, operation: str, order: Order, settings: TpuSettings) -> None:
        """Wait for the operation to end, but not for long; raise what it failed of. A slice preempted so soon was created."""
        async for _ in looks(settings.create_wait_seconds):
            try:
                seen = await (await self._client()).get_operation({"name": operation}, timeout=CALL_SECONDS)
            except CAUGHT:
                continue
            if seen.done:
                fault = _operation_fault(seen)
                if fault is not None and fault.meaning is not Meaning.PREEMPTED:
                    raise error_of(fault, self._place(order.location))
                return

    async def _without_node(self, ref: Ref, stranger: SeenNode | None, queued: SeenQueued | None) -> Sighting:
        """What waits for a node, or lost it; or why there is nothing, unless others hold the name."""
        if queued is None and stranger is None:
            return await self._absent(ref)
        if queued is None or not is_ours(queued, ref):
            return Sighting(ref=ref, phase=Phase.GONE)
        hosts = (Host(),) * queued.hosts
        failure = queued.failure(self._place(ref.location))
        return Sighting(ref=ref, phase=queued.phase, hosts=hosts, created_at=queued.created_at, failure=failure)

    async def _absent(self, ref: Ref) -> Sighting:
        """Being created, or gone; with the reason, if its creation failed after the order was taken: only the operation knows."""
        making = await self._making(ref)
        if making is not None and not making.done:
            return Sighting(ref=ref, phase=Phase.CREATING)
        fault = None if making is None else _operation_fault(making)
        failure = None if fault is None else failure_of(self._placed.spoken(ref, fault), self._place(ref.location))
        return Sighting(ref=ref, phase=Phase.GONE, failure=failure)

    async def _making(self, ref: Ref) -> operations_pb2.Operation | None:
        """The last operation that was to make the node or to queue it, if one is known; none is to who may not list them."""
        request, names = {"name": self._parent(ref.location), "page_token": ""}, (self._node_name(ref), self._queued_name(ref))
        for _ in range(_OPERATION_PAGES):
            try:
                page = await (await self._client()).list_operations(request, timeout=CALL_SECONDS)
            except api.Forbidden:
                return None
            making = [
                (about.create_time, operation)
                for operation in page.operations
                if (about := tpu_v2.OperationMetadata.deserialize(operation.metadata.value)).target in names
                and about.verb == "create"
            ]
            if making or not page.next_page_token:
                return max(making, key=lambda one: one[0], default=(None, None))[1]
            request["page_token"] = page.next_page_token
        return None

    async def _hosts(self, ref: Ref, node: SeenNode) -> tuple[Host, ...]:
        asking = self._connection.asking(node.health_said)
        addresses = node.addresses(asking.reach)
        if not node.serving:
            return tuple(Host(address=address, asked=address is not None) for address in addresses)
        if asking.health is HealthBy.GUEST_ATTRIBUTES:
            return await self._guests(ref, addresses)
        return await health.ask(addresses, asking, self._session)

    async def _guests(self, ref: Ref, addresses: tuple[str | None, ...]) -> tuple[Host, ...]:
        """What the hosts wrote about themselves, for workers without a route to them."""
        path = f"{health.GUEST_NAMESPACE}/{health.GUEST_KEY}"
        request = tpu_v2.GetGuestAttributesRequest(name=self._node_name(ref), query_path=path)
        try:
            reply = await (await self._client()).get_guest_attributes(request, timeout=CALL_SECONDS)
        except api.NotFound:
            return tuple(Host(address=address, asked=address is not None) for address in addresses)
        said = [health.said(attributes.query_value.items) for attributes in reply.guest_attributes]
        said += [None] * (len(addresses) - len(said))
        pairs = zip(addresses, said, strict=False)
        return tuple(Host() if address is None else Host(address=address, asked=True, answered=word) for address, word in pairs)

    def _listed(self, name: str, node: SeenNode | None, queued: SeenQueued | None, location: str) -> Sighting | None:
        if node is not None and (labels := node.owner) is not None:
            phase, failure = standing(node, queued)
            reach = self._connection.asking(node.health_said).reach
            hosts = tuple(Host(address=address) for address in node.addresses(reach))
            created_at = node.created_at
        elif queued is not None and (labels := queued.owner) is not None:
            phase, hosts, created_at = queued.phase, (Host(),) * queued.hosts, queued.created_at
            failure = queued.failure(self._place(location))
        else:
            return None
        ref = Ref(location=location, name=name, labels=labels)
        return Sighting(ref=ref, phase=phase, hosts=hosts, created_at=created_at, failure=failure)

    async def _node(self, ref: Ref) -> SeenNode | None:
        try:
            return SeenNode(
                tpu_v2.Node.pb(await (await self._client()).get_node(name=self._node_name(ref), timeout=CALL_SECONDS))
            )
        except api.NotFound:
            return None

    async def _queued(self, ref: Ref) -> SeenQueued | None:
        try:
            found = await (await self._client()).get_queued_resource(name=self._queued_name(ref), timeout=CALL_SECONDS)
        except api.NotFound:
            return None
        return SeenQueued(tpu_v2.QueuedResource.pb(found))

    async def _node_pages(self, location: str) -> AsyncIterator[Any]:
        pager = await (await self._client()).list_nodes(parent=self._parent(location), timeout=CALL_SECONDS)
        async for page in pager.pages:
            yield tpu_v2.ListNodesResponse.pb(page)

    async def _queued_pages(self, location: str) -> AsyncIterator[Any]:
        pager = await (await self._client()).list_queued_resources(parent=self._parent(location), timeout=CALL_SECONDS)
        async for page in pager.pages:
            yield tpu_v2.ListQueuedResourcesResponse.pb(page)

    async def _client(self) -> tpu_v2.TpuAsyncClient:
        """Opened at the first call, because it belongs to the loop that it is opened in."""
        async with self._opening:
            if self._opened is None:
                self._opened = await open_client(self._connection.tpu_endpoint)
            return self._opened.client

    @asynccontextmanager
    async def _translated(self, location: str) -> AsyncIterator[None]:
        """Raise the port's errors for Google's. The cause is left behind: it may quote the request, and with it a secret."""
        try:
            yield
        except CAUGHT as error:
            fault = await call_fault(error, self._opened.credentials if self._opened else None)
            raise error_of(fault, self._place(location)) from None

    def _place(self, location: str) -> Place:
        return Place(self._connection.project, location)

    def _parent(self, location: str) -> str:
        return f"projects/{self._connection.project}/locations/{location}"

    def _node_name(self, ref: Ref) -> str:
        return f"{self._parent(ref.location)}/nodes/{ref.name}"

    def _queued_name(self, ref: Ref) -> str:
        return f"{self._parent(ref.location)}/queuedResources/{ref.name}"


async def _known(queued: SeenQueued | None) -> SeenQueued | None:
    return queued


async def _taken(begun: AsyncOperation) -> operations_pb2.Operation:
    """The operation that was begun. A failure that it has already is taken from its future, which would log it unasked."""
    if begun.operation.done:
        await begun.exception()  # type: ignore[no-untyped-call]
    return begun.operation


def _operation_fault(operation: operations_pb2.Operation) -> Fault | None:
    """Why it failed, if it did; one that was cancelled because its node was deleted did as it was told."""
    failed = operation.done and operation.HasField("error") and operation.error.code != _CANCELLED
    return fault_of_status(operation.error) if failed else None
