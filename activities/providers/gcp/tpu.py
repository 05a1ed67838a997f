"""The provider of Cloud TPU: a slice is a node, or a queued resource that becomes a node of the same name."""

import asyncio
from collections.abc import Sequence

import aiohttp
from google.api_core import exceptions as api
from google.cloud import tpu_v2

from activities.providers.gcp import health, tpu_wire
from activities.providers.gcp.calls import poll_times
from activities.providers.gcp.error_codes import RETRYABLE, Meaning
from activities.providers.gcp.errors import CLIENT_ERRORS, error_of, failure_of
from activities.providers.gcp.machine_metadata import machine_metadata
from activities.providers.gcp.naming import CLUSTER_LABEL, label_value
from activities.providers.gcp.order_cache import OrderCache
from activities.providers.gcp.redaction import redacted
from activities.providers.gcp.settings import Connection, HealthBy, TpuSettings, read
from activities.providers.gcp.tpu_api import TpuApi, operation_fault
from activities.providers.gcp.tpu_wire import NodeView, QueuedView, is_ours, phase_and_failure
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
    Provider,
    Queued,
    Ref,
    Sighting,
    Transient,
    checked,
)


class TpuProvider(Provider):
    """Cloud TPU in one project. The HTTP session belongs to the caller."""

    def __init__(self, connection: Connection, session: aiohttp.ClientSession, *, api: TpuApi | None = None) -> None:
        self._connection = connection
        self._session = session
        self._api = api or TpuApi(connection)
        self._order_cache = OrderCache(connection.project)

    async def close(self) -> None:
        """Close the connection."""
        await self._api.close()

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Create or queue the node, or adopt an existing one; wait `create_wait` for an early failure of the operation."""
        settings = read(TpuSettings, order.settings)
        metadata, secrets = machine_metadata(order, settings, self._connection)
        node = tpu_wire.node_of(order, settings, metadata)
        self._order_cache.remember_secrets(order, secrets)
        with redacted(secrets):
            async with self._api.translated(order.location):
                if order.queued:
                    return await self._enqueue(order, settings, node)
                return await self._make(order, settings, node)

    async def observe(self, ref: Ref) -> Sighting:
        """The node with its hosts' health, or the queued resource that waits for it."""
        async with self._api.translated(ref.location):
            node, queued = await self._api.node(ref), None
            if not is_ours(node, ref):
                queued = await self._api.queued(ref)
                # An ACTIVE queued resource may have got its node since the first look.
                node = await self._api.node(ref) if queued is not None and queued.active else node
            if node is None or not is_ours(node, ref):
                return await self._without_node(ref, node, queued)
            missing = queued is None and bool(node.pb.queued_resource)
            hosts, queued = await asyncio.gather(self._hosts(ref, node), self._api.queued(ref) if missing else _known(queued))
        phase, failure = phase_and_failure(node, queued)
        seen = Sighting(ref=ref, phase=phase, hosts=hosts, created_at=node.created_at, failure=failure)
        return seen.model_copy(update={"phase": Phase.RUNNING}) if seen.healthy and phase is Phase.BOOTING else seen

    async def list(self, location: str, *, cluster: str) -> Listing:
        """Nodes, and queued resources without a node. The API has no filter, so resources of others are dropped here.

        Queued resources are listed first, so that the node of an ACTIVE one is in the later listing. If that listing is
        incomplete, ACTIVE ones without a node are dropped: their nodes may be among the missing.
        """
        queued: dict[str, QueuedView] = {}
        nodes: dict[str, NodeView] = {}
        all_queued = all_nodes = True
        async with self._api.translated(location):
            async for page in self._api.queued_pages(location):
                all_queued = all_queued and not page.unreachable
                queued |= {tpu_wire.name_of(pb): QueuedView(pb) for pb in page.queued_resources}
            async for page in self._api.node_pages(location):
                all_nodes = all_nodes and not page.unreachable
                nodes |= {tpu_wire.name_of(pb): NodeView(pb) for pb in page.nodes}
        if not all_nodes:
            queued = {name: seen for name, seen in queued.items() if name in nodes or not seen.active}
        items = [self._listed(name, nodes.get(name), queued.get(name), location) for name in sorted(nodes.keys() | queued.keys())]
        ours = tuple(item for item in items if item and item.labels.cluster == cluster)
        return Listing(items=ours, complete=all_queued and all_nodes)

    async def mislabelled(self, location: str, *, cluster: str) -> tuple[str, ...]:
        """Names of nodes with the cluster's label whose other labels and metadata do not agree."""
        async with self._api.translated(location):
            nodes = [pb async for page in self._api.node_pages(location) for pb in page.nodes]
        labelled = [pb for pb in nodes if pb.labels.get(CLUSTER_LABEL) == label_value(cluster)]
        return tuple(sorted(tpu_wire.name_of(pb) for pb in labelled if NodeView(pb).owner is None))

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete the queued resource with its node, or the node alone; each only if it is ours."""
        async with self._api.translated(ref.location):
            node, queued = await asyncio.gather(self._api.node(ref), self._api.queued(ref))
            if not is_ours(node, ref) and not is_ours(queued, ref):
                seen = await self._without_node(ref, node, queued)
                return Gone(ref=ref) if seen.phase is Phase.GONE else Deleting(ref=ref)
            if queued is not None and is_ours(queued, ref):
                if not queued.deleting:
                    await self._api.delete_queued(ref)
            elif node is not None and not node.deleting:
                await self._api.delete_node(ref)
        return Deleting(ref=ref)

    async def _make(self, order: Order, settings: TpuSettings, node: tpu_v2.Node) -> Created | Adopted:
        try:
            operation = await self._api.create_node(order, node)
        except api.AlreadyExists:
            await self._adopt(order)
            return Adopted(ref=order.ref)
        await self._raise_early_failure(operation.name, order, settings)
        return Created(ref=order.ref)

    async def _adopt(self, order: Order) -> None:
        found = await self._api.node(order.ref)
        if found is None:
            raise Transient(f"{order.name} existed and is gone; repeat the create")
        if not is_ours(found, order.ref):
            raise Conflict(f"{order.name} in {order.location} is a node without the labels of slice {order.slice}")

    async def _enqueue(self, order: Order, settings: TpuSettings, node: tpu_v2.Node) -> Adopted | Queued:
        parent = self._api.parent(order.location)
        request = tpu_v2.CreateQueuedResourceRequest(
            parent=parent,
            queued_resource_id=order.name,
            queued_resource=tpu_wire.queued_of(order, settings, node, parent=parent),
        )
        try:
            operation = await self._enqueue_once(order, request)
            await self._raise_early_failure(operation, order, settings)
        except api.AlreadyExists:
            pass
        if await self._api.node(order.ref) is not None:
            await self._adopt(order)
            return Adopted(ref=order.ref)
        queued = await self._api.queued(order.ref)
        if queued is None:
            raise Transient(f"queued resource {order.name} is no longer listed; repeat the create")
        if not is_ours(queued, order.ref):
            raise Conflict(f"{order.name} in {order.location} is a queued resource without the labels of slice {order.slice}")
        return Queued(ref=order.ref)

    async def _enqueue_once(self, order: Order, request: tpu_v2.CreateQueuedResourceRequest) -> str:
        """The name of the operation that queues the order.

        For a used request id, the cloud returns the old operation. If that one failed for a transient reason, use the next id.
        """
        name = ""
        for request.request_id in self._order_cache.request_ids(order):
            operation = await self._api.create_queued(request)
            name, fault = operation.name, operation_fault(operation)
            if fault is None or fault.meaning not in RETRYABLE:
                break
        return name

    async def _raise_early_failure(self, operation: str, order: Order, settings: TpuSettings) -> None:
        """Raise the error of an operation that fails within `create_wait`; a slice preempted by then was created."""
        async for _ in poll_times(settings.create_wait_seconds):
            try:
                seen = await self._api.operation(operation)
            except CLIENT_ERRORS:
                continue
            if seen.done:
                fault = operation_fault(seen)
                if fault is not None and fault.meaning is not Meaning.PREEMPTED:
                    raise error_of(fault, self._api.zone(order.location))
                return

    async def _without_node(self, ref: Ref, other: NodeView | None, queued: QueuedView | None) -> Sighting:
        """The slice without a node: by its queued resource, else by its create operation; GONE if others have the name."""
        if queued is None and other is None:
            return await self._absent(ref)
        if queued is None or not is_ours(queued, ref):
            return Sighting(ref=ref, phase=Phase.GONE)
        failure = queued.failure(self._api.zone(ref.location))
        return Sighting(ref=ref, phase=queued.phase, hosts=queued.hosts, created_at=queued.created_at, failure=failure)

    async def _absent(self, ref: Ref) -> Sighting:
        """The slice without node and queued resource: its create operation shows whether it is creating, gone or failed."""
        creation = await self._api.creation(ref)
        if creation is not None and not creation.done:
            return Sighting(ref=ref, phase=Phase.CREATING)
        fault = None if creation is None else operation_fault(creation)
        if fault is None:
            return Sighting(ref=ref, phase=Phase.GONE)
        failure = failure_of(self._order_cache.redacted_fault(ref, fault), self._api.zone(ref.location))
        return Sighting(ref=ref, phase=Phase.GONE, failure=failure)

    async def _hosts(self, ref: Ref, node: NodeView) -> tuple[Host, ...]:
        connection = self._connection.with_health_settings(node.health_metadata)
        hosts = node.hosts
        if not node.serving:
            return _checked(hosts, ())
        if connection.health is HealthBy.GUEST_ATTRIBUTES:
            return _checked(hosts, await self._api.guest_answers(ref))
        return await health.check(hosts, connection, self._session)

    def _listed(self, name: str, node: NodeView | None, queued: QueuedView | None, location: str) -> Sighting | None:
        if node is not None and (labels := node.owner) is not None:
            phase, failure = phase_and_failure(node, queued)
            hosts, created_at = node.hosts, node.created_at
        elif queued is not None and (labels := queued.owner) is not None:
            phase, hosts, created_at = queued.phase, queued.hosts, queued.created_at
            failure = queued.failure(self._api.zone(location))
        else:
            return None
        ref = Ref(location=location, name=name, labels=labels)
        return Sighting(ref=ref, phase=phase, hosts=hosts, created_at=created_at, failure=failure)


async def _known(queued: QueuedView | None) -> QueuedView | None:
    return queued


def _checked(hosts: Sequence[Host], answers: Sequence[str | None]) -> tuple[Host, ...]:
    """The hosts with their answers, in order; hosts without an address are not checked."""
    padded = [*answers, *(None,) * (len(hosts) - len(answers))]
    return tuple(checked(host, answer) if host.address else host for host, answer in zip(hosts, padded, strict=False))
