"""Calls to the Cloud TPU API of one project: nodes, queued resources and operations."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc
from google.api_core import exceptions as api
from google.api_core.operation_async import AsyncOperation
from google.auth import exceptions as auth
from google.auth.credentials import Credentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from google.longrunning import operations_pb2  # type: ignore[import-untyped]

from activities.providers.gcp import health
from activities.providers.gcp.calls import CALL_SECONDS, keep_requests_out_of_logs
from activities.providers.gcp.credentials import find_credentials, refresh
from activities.providers.gcp.errors import CLIENT_ERRORS, Fault, ProjectZone, error_of, fault_of, fault_of_status, lacks_token
from activities.providers.gcp.settings import Connection
from activities.providers.gcp.tpu_wire import NodeView, QueuedView
from activities.providers.port import Order, Ref

_CANCELLED = 1
_OPERATION_PAGES = 5
"""Pages of operations searched for the cause of a failure: useful to know, but not worth a thousand calls."""


class OpenClient(NamedTuple):
    """A client and its credentials; a client of an emulator has none."""

    client: tpu_v2.TpuAsyncClient
    credentials: Credentials | None = None


class TpuApi:
    """The Cloud TPU API of one project. Resources that do not exist are None; other errors are Google's."""

    def __init__(self, connection: Connection, opened: OpenClient | None = None) -> None:
        self._project = connection.project
        self._endpoint = connection.tpu_endpoint
        self._opened = opened
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            await self._opened.client.transport.close()  # type: ignore[no-untyped-call]
            self._opened = None

    @asynccontextmanager
    async def translated(self, location: str) -> AsyncIterator[None]:
        """Raise the port's errors instead of Google's. The cause is dropped: it may quote the request, and with it a secret."""
        try:
            yield
        except CLIENT_ERRORS as error:
            fault = await _call_fault(error, self._opened.credentials if self._opened else None)
            raise error_of(fault, self.zone(location)) from None

    async def create_node(self, order: Order, node: tpu_v2.Node) -> operations_pb2.Operation:
        """Create the node. Only its name makes the call repeatable: the API takes no request id."""
        client, parent = await self._client(), self.parent(order.location)
        return await _accepted(await client.create_node(parent=parent, node_id=order.name, node=node, timeout=CALL_SECONDS))

    async def create_queued(self, request: tpu_v2.CreateQueuedResourceRequest) -> operations_pb2.Operation:
        """Create a queued resource, once for each request id."""
        return await _accepted(await (await self._client()).create_queued_resource(request, timeout=CALL_SECONDS))

    async def delete_node(self, ref: Ref) -> None:
        """Delete the node; no error if it does not exist."""
        try:
            await (await self._client()).delete_node(name=self._node_name(ref), timeout=CALL_SECONDS)
        except api.NotFound:
            return

    async def delete_queued(self, ref: Ref) -> None:
        """Delete the queued resource together with its node; no error if it does not exist."""
        request = tpu_v2.DeleteQueuedResourceRequest(name=self._queued_name(ref), force=True)
        try:
            await (await self._client()).delete_queued_resource(request, timeout=CALL_SECONDS)
        except api.NotFound:
            return

    async def node(self, ref: Ref) -> NodeView | None:
        """The node with the name of the ref, ours or not."""
        try:
            found = await (await self._client()).get_node(name=self._node_name(ref), timeout=CALL_SECONDS)
        except api.NotFound:
            return None
        return NodeView(tpu_v2.Node.pb(found))

    async def queued(self, ref: Ref) -> QueuedView | None:
        """The queued resource with the name of the ref, ours or not."""
        try:
            found = await (await self._client()).get_queued_resource(name=self._queued_name(ref), timeout=CALL_SECONDS)
        except api.NotFound:
            return None
        return QueuedView(tpu_v2.QueuedResource.pb(found))

    async def node_pages(self, location: str) -> AsyncIterator[Any]:
        """The listing of all nodes, page by page."""
        pager = await (await self._client()).list_nodes(parent=self.parent(location), timeout=CALL_SECONDS)
        async for page in pager.pages:
            yield tpu_v2.ListNodesResponse.pb(page)

    async def queued_pages(self, location: str) -> AsyncIterator[Any]:
        """The listing of all queued resources, page by page."""
        pager = await (await self._client()).list_queued_resources(parent=self.parent(location), timeout=CALL_SECONDS)
        async for page in pager.pages:
            yield tpu_v2.ListQueuedResourcesResponse.pb(page)

    async def guest_answers(self, ref: Ref) -> list[str | None]:
        """The slice ids that the node's hosts wrote into their guest attributes, in the order of worker numbers."""
        path = f"{health.GUEST_NAMESPACE}/{health.GUEST_KEY}"
        request = tpu_v2.GetGuestAttributesRequest(name=self._node_name(ref), query_path=path)
        try:
            reply = await (await self._client()).get_guest_attributes(request, timeout=CALL_SECONDS)
        except api.NotFound:
            return []
        return [health.slice_id_in(attributes.query_value.items) for attributes in reply.guest_attributes]

    async def operation(self, name: str) -> operations_pb2.Operation:
        """The current state of an operation."""
        return await (await self._client()).get_operation({"name": name}, timeout=CALL_SECONDS)

    async def creation(self, ref: Ref) -> operations_pb2.Operation | None:
        """The last operation that creates or queues the node; None without one, or without the permission to list operations."""
        request, names = {"name": self.parent(ref.location), "page_token": ""}, (self._node_name(ref), self._queued_name(ref))
        for _ in range(_OPERATION_PAGES):
            try:
                page = await (await self._client()).list_operations(request, timeout=CALL_SECONDS)
            except api.Forbidden:
                return None
            found = [
                (about.create_time, operation)
                for operation in page.operations
                if (about := tpu_v2.OperationMetadata.deserialize(operation.metadata.value)).target in names
                and about.verb == "create"
            ]
            if found or not page.next_page_token:
                return max(found, key=lambda one: one[0], default=(None, None))[1]
            request["page_token"] = page.next_page_token
        return None

    def zone(self, location: str) -> ProjectZone:
        """The subject of errors about a location."""
        return ProjectZone(self._project, location)

    def parent(self, location: str) -> str:
        """The full name of a location."""
        return f"projects/{self._project}/locations/{location}"

    def _node_name(self, ref: Ref) -> str:
        return f"{self.parent(ref.location)}/nodes/{ref.name}"

    def _queued_name(self, ref: Ref) -> str:
        return f"{self.parent(ref.location)}/queuedResources/{ref.name}"

    async def _client(self) -> tpu_v2.TpuAsyncClient:
        """The client, opened at the first call because it belongs to the running event loop."""
        async with self._opening:
            if self._opened is None:
                self._opened = await _open_client(self._endpoint)
            return self._opened.client


async def _open_client(endpoint: str | None) -> OpenClient:
    """A client of Google with the worker's credentials, or of an emulator without any.

    A thread looks for the credentials, because on a machine without any that takes seconds.
    """
    keep_requests_out_of_logs()
    if endpoint is None:
        found = await asyncio.to_thread(find_credentials)
        return OpenClient(tpu_v2.TpuAsyncClient(credentials=found), found)
    return OpenClient(tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(endpoint))))


async def _call_fault(error: BaseException, credentials: Credentials | None) -> Fault:
    """The fault of a failed call. If it got no token, request one again: that error has the real cause."""
    if credentials is not None and lacks_token(error):
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await asyncio.to_thread(refresh, credentials)
        except (auth.GoogleAuthError, TimeoutError) as refused:
            return fault_of(refused)
    return fault_of(error)


async def _accepted(operation: AsyncOperation) -> operations_pb2.Operation:
    """The operation behind a future. If it failed already, consume the exception: the future would log it otherwise."""
    if operation.operation.done:
        await operation.exception()  # type: ignore[no-untyped-call]
    return operation.operation


def operation_fault(operation: operations_pb2.Operation) -> Fault | None:
    """Why an operation failed; None if it did not, or was cancelled because its node was deleted."""
    failed = operation.done and operation.HasField("error") and operation.error.code != _CANCELLED
    return fault_of_status(operation.error) if failed else None
