"""The Compute API over HTTP: routes, faults and refusals."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from emulators.gcp import wording
from emulators.gcp.behaviour import Fault
from emulators.gcp.calls import Calls
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute import ComputeCalls
from emulators.gcp.messages import error_details_pb2
from emulators.gcp.places import PlaceCalls
from emulators.gcp.records import Api
from emulators.gcp.refusals import Code, LostReply, Refusal

_CREATES = ("instances.insert", "instances.bulkInsert")
_PROJECT = "/compute/v1/projects/{project}"
_ZONE = _PROJECT + "/zones/{zone}"

Perform = Callable[[web.Request, Fault | None], Awaitable[dict[str, Any]]]


class ComputeServer:
    """The routes: every call passes through the same gate."""

    def __init__(self, cloud: Cloud, counted: Calls) -> None:
        self._cloud = cloud
        self._counted = counted

    def routes(self) -> list[web.RouteDef]:
        """Where each call is found."""
        instances, places = ComputeCalls(self._cloud), PlaceCalls(self._cloud)
        one = _ZONE + "/instances/{name}"
        operation = _ZONE + "/operations/{operation}"
        return [
            web.post(_ZONE + "/instances", self._gate("instances.insert", instances.insert)),
            web.post(_ZONE + "/instances/bulkInsert", self._gate("instances.bulkInsert", instances.bulk_insert)),
            web.get(_ZONE + "/instances", self._gate("instances.list", instances.list_instances)),
            web.get(_PROJECT + "/aggregated/instances", self._gate("instances.aggregatedList", instances.aggregated_list)),
            web.get(one, self._gate("instances.get", instances.get)),
            web.delete(one, self._gate("instances.delete", instances.delete)),
            web.post(one + "/setLabels", self._gate("instances.setLabels", instances.set_labels)),
            web.get(one + "/getGuestAttributes", self._gate("instances.getGuestAttributes", instances.get_guest_attributes)),
            web.get(_ZONE + "/operations", self._gate("zoneOperations.list", instances.list_operations)),
            web.get(operation, self._gate("zoneOperations.get", instances.get_operation)),
            web.post(operation + "/wait", self._gate("zoneOperations.wait", instances.wait_operation)),
            web.get(_PROJECT, self._gate("projects.get", places.project)),
            web.get(_PROJECT + "/regions", self._gate("regions.list", places.regions)),
            web.get(_PROJECT + "/regions/{region}", self._gate("regions.get", places.region)),
            web.get(_PROJECT + "/zones", self._gate("zones.list", places.zones)),
            web.get(_ZONE, self._gate("zones.get", places.zone)),
        ]

    def _gate(self, method: str, perform: Perform) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return web.json_response(await self._performed(method, request, perform))
            except LostReply:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=503)
            except json.JSONDecodeError as error:
                return _told(Refusal(Code.INVALID_ARGUMENT, f"Parse Error: {error}", reason="parseError"))
            except Refusal as refusal:
                return _told(refusal)

        return answer

    async def _performed(self, method: str, request: web.Request, perform: Perform) -> dict[str, Any]:
        zone = request.match_info.get("zone", "-")
        self._counted.note(method, zone)
        fault = self._cloud.fault(method, zone)
        if fault is not None:
            await asyncio.sleep(fault.latency_seconds)
            if fault.refuses and not fault.operation and not fault.lose_reply:
                raise wording.refusal_of(fault, Api.COMPUTE)
        reply = await perform(request, fault)
        lost = False
        if method in _CREATES:
            lost = self._cloud.loses_reply(zone)
            await asyncio.sleep(0 if lost else self._cloud.behaviour(zone).reply_latency_seconds)
        if fault is not None and fault.lose_reply and fault.refuses:
            raise wording.refusal_of(fault, Api.COMPUTE)
        if lost or (fault is not None and fault.lose_reply):
            raise LostReply
        return reply


def _told(refusal: Refusal) -> web.Response:
    """A refusal as Google words it in HTTP."""
    single = {"message": refusal.message, "domain": "global", "reason": refusal.reason}
    error: dict[str, Any] = {"code": refusal.status, "message": refusal.message, "errors": [single], "status": refusal.code.name}
    headers = {}
    for detail in refusal.details:
        kind = f"type.googleapis.com/{detail.DESCRIPTOR.full_name}"
        error.setdefault("details", []).append({"@type": kind, **MessageToDict(detail)})
        if isinstance(detail, error_details_pb2.RetryInfo):
            headers["Retry-After"] = str(max(1, round(detail.retry_delay.ToTimedelta().total_seconds())))
    return web.json_response({"error": error}, status=refusal.status, headers=headers)
