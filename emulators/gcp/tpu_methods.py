"""Methods of the TPU API on nodes, queued resources, operations and locations."""

from collections.abc import Collection
from typing import Any, TypeVar

from google.cloud import tpu_v2

from emulators.gcp import admission, error_messages, tpu_specs
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.cloud import Cloud
from emulators.gcp.faults import Fault
from emulators.gcp.pagination import page_after
from emulators.gcp.protobufs import Message, locations_pb2, operations_pb2
from emulators.gcp.queued_resources import QueuedResources
from emulators.gcp.records import Api, Key, Kind, Machine, Operation, QueuedResource, Stage
from emulators.gcp.specs import WriteCall
from emulators.gcp.tpu_messages import body_of, node_message, operation_message, queued_message
from emulators.gcp.tpu_specs import ALL_ZONES

NAMESPACE = "penstock"
"""Namespace of the guest attributes that healthy hosts publish."""
_UPDATABLE = ("description", "tags", "labels", "metadata")

_ABOVE_ALL_NUMBERS = 10**19
"""Minus the number of an operation, it sorts the newest first."""

L = TypeVar("L", Machine, QueuedResource)


class TpuMethods:
    """One function per API method, with its name and its parsed request."""

    def __init__(self, cloud: Cloud, queue: QueuedResources) -> None:
        self._cloud = cloud
        self._queue = queue

    def create_node(self, request: tpu_v2.CreateNodeRequest, fault: Fault | None) -> Message:
        """Create a node."""
        _, zone = self._check_parent(request.parent)
        spec = tpu_specs.node_spec(request.parent, request.node_id, request.node, self._cloud.behaviour(zone))
        return self._operation_message(self._cloud.create([spec], WriteCall(verb="create", fault=fault)))

    def get_node(self, request: tpu_v2.GetNodeRequest, _: Fault | None) -> Message:
        """One node."""
        return node_message(self._node(request.name), self._cloud.now())

    def list_nodes(self, request: tpu_v2.ListNodesRequest, _: Fault | None) -> Message:
        """A page of the nodes of a zone, or of all zones."""
        self._check_parent(request.parent, all_zones=True)
        now = self._cloud.now()
        nodes = [machine for machine in self._cloud.store.machines(now) if machine.kind is Kind.NODE]
        shown, token, unreachable = self._listed(request, nodes)
        reply: Any = tpu_v2.ListNodesResponse.pb(tpu_v2.ListNodesResponse(next_page_token=token, unreachable=unreachable))
        reply.nodes.extend(node_message(machine, now) for machine in shown)
        return reply

    def update_node(self, request: tpu_v2.UpdateNodeRequest, fault: Fault | None) -> Message:
        """Change the description, tags, labels or metadata of a READY node."""
        node, now = self._node(request.node.name), self._cloud.now()
        if node.stage(now) is not Stage.RUNNING:
            state = tpu_v2.Node.State(node_message(node, now).state).name
            raise ApiError(Code.FAILED_PRECONDITION, f"update is not supported while in state {state}")
        unknown = sorted(set(request.update_mask.paths) - set(_UPDATABLE))
        if unknown or not request.update_mask.paths:
            raise ApiError(Code.INVALID_ARGUMENT, f"update_mask must name some of {', '.join(_UPDATABLE)}, not {unknown}")
        given = body_of(request.node)
        admission.check_labels("node.labels", given.get("labels", {}))
        kept = {field: value for field, value in node.body.items() if field not in request.update_mask.paths}
        changed = {field: given[field] for field in request.update_mask.paths if field in given}
        node = node.model_copy(update={"body": kept | changed})
        return self._operation_message(self._cloud.update(node, WriteCall(verb="update", fault=fault)))

    def delete_node(self, request: tpu_v2.DeleteNodeRequest, fault: Fault | None) -> Message:
        """Start to delete a node."""
        return self._operation_message(self._cloud.delete(self._node(request.name), WriteCall(verb="delete", fault=fault)))

    def get_guest_attributes(self, request: tpu_v2.GetGuestAttributesRequest, _: Fault | None) -> Message:
        """The guest attributes of a node's hosts."""
        node, now = self._node(request.name), self._cloud.now()
        namespace, _slash, key = request.query_path.partition("/")
        workers = [int(worker) for worker in request.worker_ids if worker.isdecimal()] or range(node.hosts)
        healthy = set(node.healthy_hosts(now).values())
        matches = namespace in ("", NAMESPACE) and key in ("", "slice") and node.slice is not None
        attributes = []
        for host in workers:
            entries = []
            if matches and host in healthy:
                entries = [tpu_v2.GuestAttributesEntry(namespace=NAMESPACE, key="slice", value=node.slice)]
            value = tpu_v2.GuestAttributesValue(items=entries)
            attributes.append(tpu_v2.GuestAttributes(query_path=request.query_path, query_value=value))
        reply: Message = tpu_v2.GetGuestAttributesResponse.pb(tpu_v2.GetGuestAttributesResponse(guest_attributes=attributes))
        return reply

    def create_queued_resource(self, request: tpu_v2.CreateQueuedResourceRequest, fault: Fault | None) -> Message:
        """Enqueue a request for nodes."""
        project, zone = self._check_parent(request.parent)
        call = WriteCall(verb="create", request_id=request.request_id or None, fault=fault)
        return self._operation_message(
            self._queue.enqueue(request.queued_resource, call, key=Key(Kind.QUEUED, project, zone, request.queued_resource_id))
        )

    def get_queued_resource(self, request: tpu_v2.GetQueuedResourceRequest, _: Fault | None) -> Message:
        """One queued resource."""
        return self._queued_message(self._queued_resource(request.name))

    def list_queued_resources(self, request: tpu_v2.ListQueuedResourcesRequest, _: Fault | None) -> Message:
        """A page of the queued resources of a zone, or of all zones."""
        self._check_parent(request.parent, all_zones=True)
        shown, token, unreachable = self._listed(request, self._cloud.store.queued_resources(self._cloud.now()))
        empty = tpu_v2.ListQueuedResourcesResponse(next_page_token=token, unreachable=unreachable)
        reply: Any = tpu_v2.ListQueuedResourcesResponse.pb(empty)
        reply.queued_resources.extend(self._queued_message(queued) for queued in shown)
        return reply

    def delete_queued_resource(self, request: tpu_v2.DeleteQueuedResourceRequest, fault: Fault | None) -> Message:
        """Start to delete a queued resource, with its nodes if `force` is set."""
        call = WriteCall(verb="delete", request_id=request.request_id or None, fault=fault)
        return self._operation_message(self._queue.delete(self._queued_resource(request.name), call, force=request.force))

    def get_operation(self, request: operations_pb2.GetOperationRequest, _: Fault | None) -> Message:
        """One operation."""
        operation = self._cloud.store.operation(Api.TPU, request.name)
        if operation is None:
            raise error_messages.not_found(request.name)
        return self._operation_message(operation)

    def list_operations(self, request: operations_pb2.ListOperationsRequest, _: Fault | None) -> Message:
        """A page of the operations of a zone, or of all zones, newest first."""
        project, zone = self._check_parent(request.name, all_zones=True)
        matching = [
            o for o in self._cloud.store.operations() if o.api is Api.TPU and o.project == project and zone in (ALL_ZONES, o.zone)
        ]
        largest = self._cloud.behaviour(zone).page_size
        size = min(request.page_size or largest, largest)
        page, token = page_after(
            matching[::-1], request.page_token, size=size, key=lambda o: f"{_ABOVE_ALL_NUMBERS - o.number:020d}"
        )
        return operations_pb2.ListOperationsResponse(operations=[self._operation_message(o) for o in page], next_page_token=token)

    def list_locations(self, request: locations_pb2.ListLocationsRequest, _: Fault | None) -> Message:
        """A page of the zones."""
        zones = self._cloud.store.zones()
        largest = self._cloud.behaviour(ALL_ZONES).page_size
        page, token = page_after(zones, request.page_token, size=min(request.page_size or largest, largest), key=str)
        locations = [locations_pb2.Location(name=f"{request.name}/locations/{zone}", location_id=zone) for zone in page]
        return locations_pb2.ListLocationsResponse(locations=locations, next_page_token=token)

    def _operation_message(self, operation: Operation) -> operations_pb2.Operation:
        now, response = self._cloud.now(), None
        if operation.machine is not None:
            response = node_message(self._cloud.store.machine(operation.machine), now, in_response=True)
        elif operation.queued is not None:
            response = self._queued_message(self._cloud.store.queued_resource(operation.queued))
        return operation_message(operation, response, now)

    def _queued_message(self, queued: QueuedResource) -> Message:
        nodes = [self._cloud.store.machine(number) for number in queued.nodes]
        accepting = self._cloud.behaviour(queued.zone).accept_queue
        return queued_message(queued, nodes, self._cloud.now(), accepting=accepting)

    def _check_parent(self, parent: str, *, all_zones: bool = False) -> tuple[str, str]:
        project, zone = tpu_specs.project_and_zone(parent, all_zones=all_zones)
        admission.check_permission(self._cloud.behaviour(zone), Api.TPU, project=project, zone=zone)
        self._queue.settle()
        return project, zone

    def _node(self, name: str) -> Machine:
        key = tpu_specs.key_of(name, Kind.NODE)
        self._check_parent(f"projects/{key.project}/locations/{key.zone}")
        return self._cloud.find(key)

    def _queued_resource(self, name: str) -> QueuedResource:
        key = tpu_specs.key_of(name, Kind.QUEUED)
        self._check_parent(f"projects/{key.project}/locations/{key.zone}")
        found = self._cloud.store.find(key, self._cloud.now())
        if not isinstance(found, QueuedResource):
            raise error_messages.not_found(name)
        return found

    def _listed(
        self, request: tpu_v2.ListNodesRequest | tpu_v2.ListQueuedResourcesRequest, records: Collection[L]
    ) -> tuple[list[L], str, list[str]]:
        """The requested page, the token of the next one, and the unreachable zones."""
        project, zone = tpu_specs.project_and_zone(request.parent, all_zones=True)
        zones = {zone} if zone != ALL_ZONES else set(self._cloud.store.zones())
        unreachable = {name for name in zones if self._cloud.behaviour(name).unreachable}
        found = [record for record in records if record.project == project and record.zone in zones - unreachable]
        largest = self._cloud.behaviour(zone).page_size
        size = min(request.page_size or largest, largest)
        page, token = page_after(found, request.page_token, size=size, key=lambda record: f"{record.zone}/{record.name}")
        return page, token, [f"projects/{project}/locations/{name}" for name in sorted(unreachable)]
