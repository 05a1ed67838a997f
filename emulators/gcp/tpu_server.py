"""The TPU API over gRPC: handlers of every method, with the message types of Google's client package."""

from collections.abc import Callable
from typing import Any

import grpc
from google.cloud import tpu_v2

from emulators.gcp.api_error import ApiError, Code, LostReply
from emulators.gcp.faults import Fault
from emulators.gcp.interceptor import Interceptor
from emulators.gcp.protobufs import Message, locations_pb2, operations_pb2, status_pb2
from emulators.gcp.records import Api
from emulators.gcp.tpu_methods import TpuMethods

_SERVICE = "google.cloud.tpu.v2.Tpu"
_OPERATIONS = "google.longrunning.Operations"
_LOCATIONS = "google.cloud.location.Locations"
_STATUS = {status.value[0]: status for status in grpc.StatusCode}

Perform = Callable[[Any, Fault | None], Message]


class TpuServer:
    """The server; the interceptor runs every call."""

    def __init__(self, methods: TpuMethods, interceptor: Interceptor) -> None:
        self._interceptor = interceptor
        # With port reuse, a second emulator could bind the port too and get half of the methods.
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(_SERVICE, self._tpu_handlers(methods)),
                grpc.method_handlers_generic_handler(_OPERATIONS, self._operation_handlers(methods)),
                grpc.method_handlers_generic_handler(_LOCATIONS, self._location_handlers(methods)),
            )
        )

    async def start(self, host: str, port: int) -> int:
        """Listen, on a free port if it is 0; raises OSError if the port cannot be bound."""
        try:
            bound = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(str(error)) from None
        await self._server.start()
        return bound

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more calls; those in flight may finish within the grace period."""
        await self._server.stop(grace_seconds)

    def _tpu_handlers(self, methods: TpuMethods) -> dict[str, Any]:
        by_name: dict[str, tuple[Any, Perform]] = {
            "CreateNode": (tpu_v2.CreateNodeRequest, methods.create_node),
            "GetNode": (tpu_v2.GetNodeRequest, methods.get_node),
            "ListNodes": (tpu_v2.ListNodesRequest, methods.list_nodes),
            "UpdateNode": (tpu_v2.UpdateNodeRequest, methods.update_node),
            "DeleteNode": (tpu_v2.DeleteNodeRequest, methods.delete_node),
            "CreateQueuedResource": (tpu_v2.CreateQueuedResourceRequest, methods.create_queued_resource),
            "GetQueuedResource": (tpu_v2.GetQueuedResourceRequest, methods.get_queued_resource),
            "ListQueuedResources": (tpu_v2.ListQueuedResourcesRequest, methods.list_queued_resources),
            "DeleteQueuedResource": (tpu_v2.DeleteQueuedResourceRequest, methods.delete_queued_resource),
            "GetGuestAttributes": (tpu_v2.GetGuestAttributesRequest, methods.get_guest_attributes),
        }
        return {name: self._handler(name, kind.deserialize, perform) for name, (kind, perform) in by_name.items()}

    def _operation_handlers(self, methods: TpuMethods) -> dict[str, Any]:
        get, listing = operations_pb2.GetOperationRequest, operations_pb2.ListOperationsRequest
        return {
            "GetOperation": self._handler("GetOperation", get.FromString, methods.get_operation),
            "ListOperations": self._handler("ListOperations", listing.FromString, methods.list_operations),
        }

    def _location_handlers(self, methods: TpuMethods) -> dict[str, Any]:
        listing = locations_pb2.ListLocationsRequest
        return {"ListLocations": self._handler("ListLocations", listing.FromString, methods.list_locations)}

    def _handler(self, method: str, parse: Callable[[bytes], Any], perform: Perform) -> Any:
        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
            async def run(fault: Fault | None) -> Message:
                return perform(request, fault)

            try:
                return await self._interceptor.run(Api.TPU, method, _zone_of(request), run)
            except LostReply:
                # The error that clients report when the connection ends during a call.
                await _abort(context, ApiError(Code.UNAVAILABLE, "Socket closed"))
            except ApiError as error:
                await _abort(context, error)

        serialise: Callable[[Message], bytes] = lambda reply: reply.SerializeToString()  # noqa: E731
        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=parse, response_serializer=serialise)


async def _abort(context: grpc.aio.ServicerContext[Any, Any], error: ApiError) -> None:
    """End the call with an error and its details."""
    status = status_pb2.Status(code=error.code, message=error.message)
    for detail in error.details:
        status.details.add().Pack(detail)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(_STATUS[error.code], error.message, trailing_metadata=trailer)


def _zone_of(request: Any) -> str:
    """The zone of a call; `-` stands for all zones."""
    name = getattr(request, "parent", "") or getattr(request, "name", "") or getattr(getattr(request, "node", None), "name", "")
    parts = str(name).split("/")
    return parts[3] if len(parts) > 3 else "-"
