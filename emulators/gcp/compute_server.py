"""The Compute API over HTTP: routes of every method, and errors in Google's JSON."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from emulators.gcp.api_error import ApiError, Code, LostReply
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_locations import LocationMethods
from emulators.gcp.compute_methods import ComputeMethods
from emulators.gcp.faults import Fault
from emulators.gcp.interceptor import Interceptor
from emulators.gcp.protobufs import error_details_pb2
from emulators.gcp.records import Api

_PROJECT = "/compute/v1/projects/{project}"
_ZONE = _PROJECT + "/zones/{zone}"

Perform = Callable[[web.Request, Fault | None], Awaitable[dict[str, Any]]]


class ComputeServer:
    """The routes; the interceptor runs every call."""

    def __init__(self, cloud: Cloud, interceptor: Interceptor) -> None:
        self._cloud = cloud
        self._interceptor = interceptor

    def routes(self) -> list[web.RouteDef]:
        """The route of every method."""
        instances, locations, handler = ComputeMethods(self._cloud), LocationMethods(self._cloud), self._handler
        one = _ZONE + "/instances/{name}"
        operation = _ZONE + "/operations/{operation}"
        return [
            web.post(_ZONE + "/instances", handler("instances.insert", instances.insert)),
            web.post(_ZONE + "/instances/bulkInsert", handler("instances.bulkInsert", instances.bulk_insert)),
            web.get(_ZONE + "/instances", handler("instances.list", instances.list_instances)),
            web.get(_PROJECT + "/aggregated/instances", handler("instances.aggregatedList", instances.aggregated_list)),
            web.get(one, handler("instances.get", instances.get)),
            web.delete(one, handler("instances.delete", instances.delete)),
            web.post(one + "/setLabels", handler("instances.setLabels", instances.set_labels)),
            web.get(one + "/getGuestAttributes", handler("instances.getGuestAttributes", instances.get_guest_attributes)),
            web.get(_ZONE + "/operations", handler("zoneOperations.list", instances.list_operations)),
            web.get(operation, handler("zoneOperations.get", instances.get_operation)),
            web.post(operation + "/wait", handler("zoneOperations.wait", instances.wait_operation)),
            web.get(_PROJECT, handler("projects.get", locations.project)),
            web.get(_PROJECT + "/regions", handler("regions.list", locations.regions)),
            web.get(_PROJECT + "/regions/{region}", handler("regions.get", locations.region)),
            web.get(_PROJECT + "/zones", handler("zones.list", locations.zones)),
            web.get(_ZONE, handler("zones.get", locations.zone)),
        ]

    def _handler(self, method: str, perform: Perform) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            zone = request.match_info.get("zone", "-")
            try:
                reply = await self._interceptor.run(Api.COMPUTE, method, zone, lambda fault: perform(request, fault))
            except LostReply:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=503)
            except json.JSONDecodeError as error:
                return _error_response(ApiError(Code.INVALID_ARGUMENT, f"Parse Error: {error}", reason="parseError"))
            except ApiError as error:
                return _error_response(error)
            return web.json_response(reply)

        return handle


def _error_response(refused: ApiError) -> web.Response:
    """An error in Google's JSON format."""
    single = {"message": refused.message, "domain": "global", "reason": refused.reason}
    error: dict[str, Any] = {"code": refused.status, "message": refused.message, "errors": [single], "status": refused.code.name}
    headers = {}
    for detail in refused.details:
        kind = f"type.googleapis.com/{detail.DESCRIPTOR.full_name}"
        error.setdefault("details", []).append({"@type": kind, **MessageToDict(detail)})
        if isinstance(detail, error_details_pb2.RetryInfo):
            headers["Retry-After"] = str(max(1, round(detail.retry_delay.ToTimedelta().total_seconds())))
    return web.json_response({"error": error}, status=refused.status, headers=headers)
