"""The TPU API over gRPC: parsed with the types of Google's own client package, faults applied, refusals told."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from google.cloud import tpu_v2

from emulators.gcp import wording
from emulators.gcp.behaviour import Fault
from emulators.gcp.calls import Calls
from emulators.gcp.cloud import Cloud
from emulators.gcp.messages import Message, locations_pb2, operations_pb2, status_pb2
from emulators.gcp.records import Api
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.tpu import TpuCalls

_SERVICE = "google.cloud.tpu.v2.Tpu"
_OPERATIONS = "google.longrunning.Operations"
_LOCATIONS = "google.cloud.location.Locations"
_CREATES = ("CreateNode", "CreateQueuedResource")
_STATUS = {status.value[0]: status for status in grpc.StatusCode}

Perform = Callable[[Any, Fault | None], Message]


class TpuServer:
    """The server: every call passes through the same gate."""

    def __init__(self, cloud: Cloud, calls: TpuCalls, counted: Calls) -> None:
        self._cloud = cloud
        self._counted = counted
        # A port is for one emulator alone; with reuse a second one would start and take half of the calls.
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(_SERVICE, self._tpu_handlers(calls)),
                grpc.method_handlers_generic_handler(_OPERATIONS, self._operation_handlers(calls)),
                grpc.method_handlers_generic_handler(_LOCATIONS, self._location_handlers(calls)),
            )
        )

    async def start(self, host: str, port: int) -> int:
        """Listen, on a free port if it is 0; raises OSError if the port cannot be had."""
        try:
            taken = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(str(error)) from None
        await self._server.start()
        return taken

    async def stop(self, grace_seconds: float) -> None:
        """Take no more calls; those under way have so long."""
        await self._server.stop(grace_seconds)

    def _tpu_handlers(self, calls: TpuCalls) -> dict[str, Any]:
        performed: dict[str, tuple[Any, Perform]] = {
            "CreateNode": (tpu_v2.CreateNodeRequest, calls.create_node),
            "GetNode": (tpu_v2.GetNodeRequest, calls.get_node),
            "ListNodes": (tpu_v2.ListNodesRequest, calls.list_nodes),
            "UpdateNode": (tpu_v2.UpdateNodeRequest, calls.update_node),
            "DeleteNode": (tpu_v2.DeleteNodeRequest, calls.delete_node),
            "CreateQueuedResource": (tpu_v2.CreateQueuedResourceRequest, calls.create_queued_resource),
            "GetQueuedResource": (tpu_v2.GetQueuedResourceRequest, calls.get_queued_resource),
            "ListQueuedResources": (tpu_v2.ListQueuedResourcesRequest, calls.list_queued_resources),
            "DeleteQueuedResource": (tpu_v2.DeleteQueuedResourceRequest, calls.delete_queued_resource),
            "GetGuestAttributes": (tpu_v2.GetGuestAttributesRequest, calls.get_guest_attributes),
        }
        return {name: self._handler(name, kind.deserialize, perform) for name, (kind, perform) in performed.items()}

    def _operation_handlers(self, calls: TpuCalls) -> dict[str, Any]:
        get, listing = operations_pb2.GetOperationRequest, operations_pb2.ListOperationsRequest
        return {
            "GetOperation": self._handler("GetOperation", get.FromString, calls.get_operation),
            "ListOperations": self._handler("ListOperations", listing.FromString, calls.list_operations),
        }

    def _location_handlers(self, calls: TpuCalls) -> dict[str, Any]:
        listing = locations_pb2.ListLocationsRequest
        return {"ListLocations": self._handler("ListLocations", listing.FromString, calls.list_locations)}

    def _handler(self, method: str, parse: Callable[[bytes], Any], perform: Perform) -> Any:
        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
            try:
                return await self._gate(method, request, perform)
            except Refusal as refusal:
                status = status_pb2.Status(code=refusal.code, message=refusal.message)
                for detail in refusal.details:
                    status.details.add().Pack(detail)
                trailer = (("grpc-status-details-bin", status.SerializeToString()),)
                await context.abort(_STATUS[refusal.code], refusal.message, trailing_metadata=trailer)

        serialise: Callable[[Message], bytes] = lambda reply: reply.SerializeToString()  # noqa: E731
        return grpc.unary_unary_rpc_method_handler(answer, request_deserializer=parse, response_serializer=serialise)

    async def _gate(self, method: str, request: Any, perform: Perform) -> Message:
        zone = _zone_of(request)
        self._counted.note(method, zone)
        fault = self._cloud.fault(method, zone)
        if fault is not None:
            await asyncio.sleep(fault.latency_seconds)
            if fault.refuses and not fault.operation and not fault.lose_reply:
                raise wording.refusal_of(fault, Api.TPU)
        reply = perform(request, fault)
        lost = False
        if method in _CREATES:
            lost = self._cloud.loses_reply(zone)
            await asyncio.sleep(0 if lost else self._cloud.behaviour(zone).reply_latency_seconds)
        if fault is not None and fault.lose_reply and fault.refuses:
            raise wording.refusal_of(fault, Api.TPU)
        if lost or (fault is not None and fault.lose_reply):
            # What a client makes of a connection that ends under its call.
            raise Refusal(Code.UNAVAILABLE, "Socket closed")
        return reply


def _zone_of(request: Any) -> str:
    """The zone that a call is about; `-` is all of them."""
    name = getattr(request, "parent", "") or getattr(request, "name", "") or getattr(getattr(request, "node", None), "name", "")
    parts = str(name).split("/")
    return parts[3] if len(parts) > 3 else "-"
