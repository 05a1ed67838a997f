"""The calls of the Compute API on instances, their operations, and the places they are in."""

import asyncio
from typing import Any

from aiohttp import web

from emulators.gcp import rules
from emulators.gcp.behaviour import Fault
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_orders import bulk_orders, instance_order, request_id_of
from emulators.gcp.compute_wire import fingerprint, instance_json, operation_json
from emulators.gcp.filters import parse_filter
from emulators.gcp.orders import Call, link
from emulators.gcp.pages import page_after
from emulators.gcp.records import Api, Key, Kind, Machine, Operation
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.store import known_zones

_LONGEST_WAIT_SECONDS = 120.0
"""After which zoneOperations.wait answers, done or not."""
_WAIT_STEP_SECONDS = 0.02
NAMESPACE = "penstock"
"""Namespace of the guest attributes that hosts write once they have started."""

Json = dict[str, Any]


class ComputeCalls:
    """One method for each call; each gives the JSON of its reply."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def insert(self, request: web.Request, fault: Fault | None) -> Json:
        """Order an instance; a request id that was seen before gives the operation of then."""
        asked = await _asked(request)
        project, zone = self._enter(request)
        call = Call(verb="insert", request_id=request_id_of(request.query), fault=fault)
        if (earlier := self._replayed(call)) is not None:
            return earlier
        order = instance_order(project, zone, asked, self._cloud.behaviour(zone))
        return self._told(self._cloud.make([order], call))

    async def bulk_insert(self, request: web.Request, fault: Fault | None) -> Json:
        """Order several instances, all or at least so many or none."""
        asked = await _asked(request)
        project, zone = self._enter(request)
        call = Call(verb="bulkInsert", request_id=request_id_of(request.query), fault=fault)
        if (earlier := self._replayed(call)) is not None:
            return earlier
        orders, least = bulk_orders(project, zone, asked, self._cloud.behaviour(zone))
        return self._told(self._cloud.make(orders, call, least=least))

    async def get(self, request: web.Request, _: Fault | None) -> Json:
        """One instance."""
        return instance_json(self._instance(request), self._cloud.now())

    async def list_instances(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the instances of a zone."""
        project, zone = self._enter(request)
        reply: Json = {"kind": "compute#instanceList", "id": f"projects/{project}/zones/{zone}/instances"}
        if self._cloud.behaviour(zone).unreachable:
            return reply | {"warning": _unreachable(zone)}
        found = [item for place, item in self._found(request, project) if place == zone]
        page, token = page_after(found, *self._page(request, zone), place=lambda item: str(item["name"]))
        return reply | ({"items": page} if page else {}) | ({"nextPageToken": token} if token else {})

    async def aggregated_list(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the instances of all zones; zones without any are named too."""
        project = request.match_info["project"]
        lacking = [zone for zone in known_zones(self._cloud.store) if self._cloud.behaviour(zone).unreachable]
        found = [(place, item) for place, item in self._found(request, project) if place not in lacking]
        page, token = page_after(found, *self._page(request, "-"), place=lambda row: f"{row[0]}/{row[1]['name']}")
        scopes: Json = {}
        for zone in known_zones(self._cloud.store):
            instances = [item for place, item in page if place == zone]
            nothing = {"code": "NO_RESULTS_ON_PAGE", "message": f"There are no results for scope 'zones/{zone}' on this page."}
            warning = _unreachable(zone) if zone in lacking else nothing
            scopes[f"zones/{zone}"] = {"instances": instances} if instances else {"warning": warning}
        reply: Json = {
            "kind": "compute#instanceAggregatedList",
            "id": f"projects/{project}/aggregated/instances",
            "items": scopes,
        }
        reply |= {"unreachables": [f"zones/{zone}" for zone in lacking]} if lacking else {}
        return reply | ({"nextPageToken": token} if token else {})

    async def delete(self, request: web.Request, fault: Fault | None) -> Json:
        """Begin to delete an instance."""
        self._enter(request)
        call = Call(verb="delete", request_id=request_id_of(request.query), fault=fault)
        return self._replayed(call) or self._told(self._cloud.delete(self._instance(request), call))

    async def set_labels(self, request: web.Request, fault: Fault | None) -> Json:
        """Replace the labels of an instance, unless somebody else has meanwhile."""
        asked = await _asked(request)
        instance = self._instance(request)
        labels = asked.get("labels", {})
        rules.check_labels("labels", labels)
        if asked.get("labelFingerprint") != fingerprint(instance):
            raise Refusal(Code.FAILED_PRECONDITION, "Labels fingerprint either invalid or resource labels have changed")
        operation = self._cloud.finished(Api.COMPUTE, Call(verb="setLabels", fault=fault), instance)
        changed = instance.model_copy(update={"body": instance.body | {"labels": labels}})
        self._cloud.keep(*([] if operation.failures else [changed]), operation)
        return self._told(operation)

    async def get_guest_attributes(self, request: web.Request, _: Fault | None) -> Json:
        """What an instance wrote about itself."""
        instance = self._instance(request)
        query = request.query.get("queryPath") or request.query.get("variableKey") or ""
        namespace, _slash, key = query.partition("/")
        written = instance.slice is not None and instance.answering(self._cloud.now())
        if not written or namespace not in ("", NAMESPACE) or key not in ("", "slice"):
            raise rules.not_found(f"{link(instance.key)}/guestAttributes/{query}")
        reply: Json = {"kind": "compute#guestAttributes", "queryPath": query}
        if request.query.get("variableKey"):
            return reply | {"variableKey": query, "variableValue": instance.slice}
        return reply | {"queryValue": {"items": [{"namespace": NAMESPACE, "key": "slice", "value": instance.slice}]}}

    async def get_operation(self, request: web.Request, _: Fault | None) -> Json:
        """One operation."""
        return self._told(self._operation(request))

    async def wait_operation(self, request: web.Request, _: Fault | None) -> Json:
        """One operation, once it is done or two minutes have passed."""
        deadline = asyncio.get_running_loop().time() + _LONGEST_WAIT_SECONDS
        while not self._operation(request).done(self._cloud.now()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_WAIT_STEP_SECONDS)
        return self._told(self._operation(request))

    async def list_operations(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the operations of a zone."""
        project, zone = self._enter(request)
        mine = [o for o in self._cloud.store.operations() if (o.api, o.project, o.zone) == (Api.COMPUTE, project, zone)]
        wanted = parse_filter(request.query.get("filter", ""))
        found = [shown for shown in map(self._told, mine) if wanted(shown)]
        page, token = page_after(found, *self._page(request, zone), place=lambda item: f"{int(item['id']):020d}")
        return {"kind": "compute#operationList", "items": page} | ({"nextPageToken": token} if token else {})

    def _enter(self, request: web.Request) -> tuple[str, str]:
        project, zone = request.match_info["project"], request.match_info["zone"]
        rules.check_zone(zone)
        rules.permit(self._cloud.behaviour(zone), Api.COMPUTE, project=project, zone=zone)
        return project, zone

    def _instance(self, request: web.Request) -> Machine:
        project, zone = self._enter(request)
        return self._cloud.find(Key(Kind.INSTANCE, project, zone, request.match_info["name"]))

    def _operation(self, request: web.Request) -> Operation:
        project, zone = self._enter(request)
        operation = self._cloud.store.operation(Api.COMPUTE, request.match_info["operation"])
        if operation is None or (operation.project, operation.zone) != (project, zone):
            raise rules.not_found(f"projects/{project}/zones/{zone}/operations/{request.match_info['operation']}")
        return operation

    def _told(self, operation: Operation) -> Json:
        return operation_json(operation, self._cloud.now())

    def _replayed(self, call: Call) -> Json | None:
        earlier = None if call.request_id is None else self._cloud.store.replayed(Api.COMPUTE, call.request_id)
        return None if earlier is None else self._told(earlier)

    def _found(self, request: web.Request, project: str) -> list[tuple[str, Json]]:
        """Zone and JSON of every instance that the filter lets through."""
        wanted, now = parse_filter(request.query.get("filter", "")), self._cloud.now()
        mine = [m for m in self._cloud.store.machines(now) if (m.kind, m.project) == (Kind.INSTANCE, project)]
        return [(machine.zone, shown) for machine in mine if wanted(shown := instance_json(machine, now))]

    def _page(self, request: web.Request, zone: str) -> tuple[str, int]:
        longest, asked = self._cloud.behaviour(zone).page_size, request.query.get("maxResults", "")
        return request.query.get("pageToken", ""), min(int(asked) if asked.isdecimal() and int(asked) else longest, longest)


async def _asked(request: web.Request) -> Json:
    """The body of a call."""
    asked = await request.json()
    if not isinstance(asked, dict):
        raise Refusal(Code.INVALID_ARGUMENT, "Parse Error: the body must be an object", reason="parseError")
    return asked


def _unreachable(zone: str) -> Json:
    return {"code": "UNREACHABLE", "message": f"The scope 'zones/{zone}' is unreachable."}
