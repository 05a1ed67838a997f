"""Methods of the Compute API on instances and zone operations."""

import asyncio
from typing import Any

from aiohttp import web

from emulators.gcp import admission, error_messages
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.cloud import Cloud
from emulators.gcp.compute_json import fingerprint, instance_json, operation_json
from emulators.gcp.compute_specs import bulk_specs, instance_spec, request_id_of
from emulators.gcp.faults import Fault
from emulators.gcp.filters import parse_filter
from emulators.gcp.pagination import page_after
from emulators.gcp.records import Api, Key, Kind, Machine, Operation
from emulators.gcp.specs import WriteCall, full_name

_LONGEST_WAIT_SECONDS = 120.0
"""After which zoneOperations.wait replies, done or not."""
_WAIT_STEP_SECONDS = 0.02
NAMESPACE = "penstock"
"""Namespace of the guest attributes that healthy hosts publish."""

Json = dict[str, Any]


class ComputeMethods:
    """One function per API method; each returns the JSON of its reply."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def insert(self, request: web.Request, fault: Fault | None) -> Json:
        """Create an instance; a repeated request id returns the operation of the first call."""
        body = await _json_body(request)
        project, zone = self._check_zone(request)
        call = WriteCall(verb="insert", request_id=request_id_of(request.query), fault=fault)
        if (earlier := self._repeated(call)) is not None:
            return earlier
        spec = instance_spec(project, zone, body, self._cloud.behaviour(zone))
        return self._operation_json(self._cloud.create([spec], call))

    async def bulk_insert(self, request: web.Request, fault: Fault | None) -> Json:
        """Create several instances: all, or at least the minimum, or none."""
        body = await _json_body(request)
        project, zone = self._check_zone(request)
        call = WriteCall(verb="bulkInsert", request_id=request_id_of(request.query), fault=fault)
        if (earlier := self._repeated(call)) is not None:
            return earlier
        specs, min_count = bulk_specs(project, zone, body, self._cloud.behaviour(zone))
        return self._operation_json(self._cloud.create(specs, call, min_count=min_count))

    async def get(self, request: web.Request, _: Fault | None) -> Json:
        """One instance."""
        return instance_json(self._instance(request), self._cloud.now())

    async def list_instances(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the instances of a zone."""
        project, zone = self._check_zone(request)
        reply: Json = {"kind": "compute#instanceList", "id": f"projects/{project}/zones/{zone}/instances"}
        if self._cloud.behaviour(zone).unreachable:
            return reply | {"warning": _unreachable(zone)}
        found = [item for where, item in self._found(request, project) if where == zone]
        page, token = page_after(found, *self._page(request, zone), key=lambda item: str(item["name"]))
        return reply | ({"items": page} if page else {}) | ({"nextPageToken": token} if token else {})

    async def aggregated_list(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the instances of all zones; zones without instances are listed too."""
        project = request.match_info["project"]
        unreachable = [zone for zone in self._cloud.store.zones() if self._cloud.behaviour(zone).unreachable]
        found = [(where, item) for where, item in self._found(request, project) if where not in unreachable]
        page, token = page_after(found, *self._page(request, "-"), key=lambda row: f"{row[0]}/{row[1]['name']}")
        scopes: Json = {}
        for zone in self._cloud.store.zones():
            instances = [item for where, item in page if where == zone]
            nothing = {"code": "NO_RESULTS_ON_PAGE", "message": f"There are no results for scope 'zones/{zone}' on this page."}
            warning = _unreachable(zone) if zone in unreachable else nothing
            scopes[f"zones/{zone}"] = {"instances": instances} if instances else {"warning": warning}
        reply: Json = {
            "kind": "compute#instanceAggregatedList",
            "id": f"projects/{project}/aggregated/instances",
            "items": scopes,
        }
        reply |= {"unreachables": [f"zones/{zone}" for zone in unreachable]} if unreachable else {}
        return reply | ({"nextPageToken": token} if token else {})

    async def delete(self, request: web.Request, fault: Fault | None) -> Json:
        """Start to delete an instance."""
        self._check_zone(request)
        call = WriteCall(verb="delete", request_id=request_id_of(request.query), fault=fault)
        return self._repeated(call) or self._operation_json(self._cloud.delete(self._instance(request), call))

    async def set_labels(self, request: web.Request, fault: Fault | None) -> Json:
        """Replace the labels of an instance, unless another call has changed them meanwhile."""
        body = await _json_body(request)
        instance = self._instance(request)
        labels = body.get("labels", {})
        admission.check_labels("labels", labels)
        if body.get("labelFingerprint") != fingerprint(instance):
            raise ApiError(Code.FAILED_PRECONDITION, "Labels fingerprint either invalid or resource labels have changed")
        changed = instance.model_copy(update={"body": instance.body | {"labels": labels}})
        return self._operation_json(self._cloud.update(changed, WriteCall(verb="setLabels", fault=fault)))

    async def get_guest_attributes(self, request: web.Request, _: Fault | None) -> Json:
        """The guest attributes of an instance."""
        instance = self._instance(request)
        query = request.query.get("queryPath") or request.query.get("variableKey") or ""
        namespace, _slash, key = query.partition("/")
        published = instance.slice is not None and instance.healthy_hosts(self._cloud.now())
        if not published or namespace not in ("", NAMESPACE) or key not in ("", "slice"):
            raise error_messages.not_found(f"{full_name(instance.key)}/guestAttributes/{query}")
        reply: Json = {"kind": "compute#guestAttributes", "queryPath": query}
        if request.query.get("variableKey"):
            return reply | {"variableKey": query, "variableValue": instance.slice}
        return reply | {"queryValue": {"items": [{"namespace": NAMESPACE, "key": "slice", "value": instance.slice}]}}

    async def get_operation(self, request: web.Request, _: Fault | None) -> Json:
        """One operation."""
        return self._operation_json(self._operation(request))

    async def wait_operation(self, request: web.Request, _: Fault | None) -> Json:
        """One operation, when it is done or after two minutes."""
        deadline = asyncio.get_running_loop().time() + _LONGEST_WAIT_SECONDS
        while not self._operation(request).done(self._cloud.now()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_WAIT_STEP_SECONDS)
        return self._operation_json(self._operation(request))

    async def list_operations(self, request: web.Request, _: Fault | None) -> Json:
        """A page of the operations of a zone."""
        project, zone = self._check_zone(request)
        of_project = [o for o in self._cloud.store.operations() if (o.api, o.project, o.zone) == (Api.COMPUTE, project, zone)]
        matches = parse_filter(request.query.get("filter", ""))
        found = [shown for shown in map(self._operation_json, of_project) if matches(shown)]
        page, token = page_after(found, *self._page(request, zone), key=lambda item: f"{int(item['id']):020d}")
        return {"kind": "compute#operationList", "items": page} | ({"nextPageToken": token} if token else {})

    def _check_zone(self, request: web.Request) -> tuple[str, str]:
        project, zone = request.match_info["project"], request.match_info["zone"]
        admission.check_zone(zone)
        admission.check_permission(self._cloud.behaviour(zone), Api.COMPUTE, project=project, zone=zone)
        return project, zone

    def _instance(self, request: web.Request) -> Machine:
        project, zone = self._check_zone(request)
        return self._cloud.find(Key(Kind.INSTANCE, project, zone, request.match_info["name"]))

    def _operation(self, request: web.Request) -> Operation:
        project, zone = self._check_zone(request)
        operation = self._cloud.store.operation(Api.COMPUTE, request.match_info["operation"])
        if operation is None or (operation.project, operation.zone) != (project, zone):
            raise error_messages.not_found(f"projects/{project}/zones/{zone}/operations/{request.match_info['operation']}")
        return operation

    def _operation_json(self, operation: Operation) -> Json:
        return operation_json(operation, self._cloud.now())

    def _repeated(self, call: WriteCall) -> Json | None:
        earlier = self._cloud.store.operation_of_request(Api.COMPUTE, call.request_id)
        return None if earlier is None else self._operation_json(earlier)

    def _found(self, request: web.Request, project: str) -> list[tuple[str, Json]]:
        """Zone and JSON of every instance that matches the filter."""
        matches, now = parse_filter(request.query.get("filter", "")), self._cloud.now()
        of_project = [m for m in self._cloud.store.machines(now) if (m.kind, m.project) == (Kind.INSTANCE, project)]
        return [(machine.zone, shown) for machine in of_project if matches(shown := instance_json(machine, now))]

    def _page(self, request: web.Request, zone: str) -> tuple[str, int]:
        largest, requested = self._cloud.behaviour(zone).page_size, request.query.get("maxResults", "")
        size = int(requested) if requested.isdecimal() and int(requested) else largest
        return request.query.get("pageToken", ""), min(size, largest)


async def _json_body(request: web.Request) -> Json:
    body = await request.json()
    if not isinstance(body, dict):
        raise ApiError(Code.INVALID_ARGUMENT, "Parse Error: the body must be an object", reason="parseError")
    return body


def _unreachable(zone: str) -> Json:
    return {"code": "UNREACHABLE", "message": f"The scope 'zones/{zone}' is unreachable."}
