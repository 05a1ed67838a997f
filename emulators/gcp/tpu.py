"""The calls of the TPU API on nodes, and on operations."""

from collections.abc import Collection
from typing import Any, TypeVar

from google.cloud import tpu_v2

from emulators.gcp import rules, tpu_orders
from emulators.gcp.behaviour import Fault
from emulators.gcp.cloud import Cloud
from emulators.gcp.messages import Message, locations_pb2, operations_pb2
from emulators.gcp.orders import Call
from emulators.gcp.pages import page_after
from emulators.gcp.queueing import Queueing
from emulators.gcp.records import Api, Key, Kind, Machine, Operation, Queued, Stage
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.store import known_zones
from emulators.gcp.tpu_orders import EVERYWHERE
from emulators.gcp.tpu_wire import body_of, node_message, operation_message, queued_message

NAMESPACE = "penstock"
"""Namespace of the guest attributes that hosts write once they have started."""
_UPDATABLE = ("description", "tags", "labels", "metadata")

_NEWEST = 10**19
"""Above every number: less the number, it puts the newest first."""

L = TypeVar("L", Machine, Queued)


class TpuCalls:
    """One method for each call, named as in the API; what they are given is already parsed."""

    def __init__(self, cloud: Cloud, queueing: Queueing) -> None:
        self._cloud = cloud
        self._queueing = queueing

    def create_node(self, request: tpu_v2.CreateNodeRequest, fault: Fault | None) -> Message:
        """Order a node."""
        _, zone = self._enter(request.parent)
        order = tpu_orders.node_order(request.parent, request.node_id, request.node, self._cloud.behaviour(zone))
        return self._told(self._cloud.make([order], Call(verb="create", fault=fault)))

    def get_node(self, request: tpu_v2.GetNodeRequest, _: Fault | None) -> Message:
        """One node."""
        return node_message(self._node(request.name), self._cloud.now())

    def list_nodes(self, request: tpu_v2.ListNodesRequest, _: Fault | None) -> Message:
        """A page of the nodes of a zone, or of all."""
        self._enter(request.parent, all_zones=True)
        now = self._cloud.now()
        nodes = [machine for machine in self._cloud.store.machines(now) if machine.kind is Kind.NODE]
        shown, token, unreachable = self._listed(request, nodes)
        reply: Any = tpu_v2.ListNodesResponse.pb(tpu_v2.ListNodesResponse(next_page_token=token, unreachable=unreachable))
        reply.nodes.extend(node_message(machine, now) for machine in shown)
        return reply

    def update_node(self, request: tpu_v2.UpdateNodeRequest, fault: Fault | None) -> Message:
        """Change what may be changed of a node that is ready."""
        node, now = self._node(request.node.name), self._cloud.now()
        if node.stage(now) is not Stage.RUNNING:
            state = tpu_v2.Node.State(node_message(node, now).state).name
            raise Refusal(Code.FAILED_PRECONDITION, f"update is not supported while in state {state}")
        unknown = sorted(set(request.update_mask.paths) - set(_UPDATABLE))
        if unknown or not request.update_mask.paths:
            raise Refusal(Code.INVALID_ARGUMENT, f"update_mask must name some of {', '.join(_UPDATABLE)}, not {unknown}")
        given = body_of(request.node)
        rules.check_labels("node.labels", given.get("labels", {}))
        kept = {field: value for field, value in node.body.items() if field not in request.update_mask.paths}
        changed = {field: given[field] for field in request.update_mask.paths if field in given}
        node = node.model_copy(update={"body": kept | changed})
        operation = self._cloud.finished(Api.TPU, Call(verb="update", fault=fault), node)
        operation = operation.model_copy(update={"machine": node.number})
        self._cloud.keep(*([] if operation.failures else [node]), operation)
        return self._told(operation)

    def delete_node(self, request: tpu_v2.DeleteNodeRequest, fault: Fault | None) -> Message:
        """Begin to delete a node."""
        return self._told(self._cloud.delete(self._node(request.name), Call(verb="delete", fault=fault)))

    def get_guest_attributes(self, request: tpu_v2.GetGuestAttributesRequest, _: Fault | None) -> Message:
        """What the hosts of a node wrote about themselves."""
        node, now = self._node(request.name), self._cloud.now()
        namespace, _slash, key = request.query_path.partition("/")
        wanted = [int(worker) for worker in request.worker_ids if worker.isdecimal()] or range(node.hosts)
        alive = set(node.answering(now).values())
        asked = namespace in ("", NAMESPACE) and key in ("", "slice") and node.slice is not None
        attributes = []
        for host in wanted:
            entries = []
            if asked and host in alive:
                entries = [tpu_v2.GuestAttributesEntry(namespace=NAMESPACE, key="slice", value=node.slice)]
            value = tpu_v2.GuestAttributesValue(items=entries)
            attributes.append(tpu_v2.GuestAttributes(query_path=request.query_path, query_value=value))
        reply: Message = tpu_v2.GetGuestAttributesResponse.pb(tpu_v2.GetGuestAttributesResponse(guest_attributes=attributes))
        return reply

    def create_queued_resource(self, request: tpu_v2.CreateQueuedResourceRequest, fault: Fault | None) -> Message:
        """Put an order for nodes into the queue."""
        project, zone = self._enter(request.parent)
        call = Call(verb="create", request_id=request.request_id or None, fault=fault)
        return self._told(
            self._queueing.enqueue(request.queued_resource, call, key=Key(Kind.QUEUED, project, zone, request.queued_resource_id))
        )

    def get_queued_resource(self, request: tpu_v2.GetQueuedResourceRequest, _: Fault | None) -> Message:
        """One queued resource."""
        return self._queued_message(self._queued(request.name))

    def list_queued_resources(self, request: tpu_v2.ListQueuedResourcesRequest, _: Fault | None) -> Message:
        """A page of the queued resources of a zone, or of all."""
        self._enter(request.parent, all_zones=True)
        shown, token, unreachable = self._listed(request, self._cloud.store.queued(self._cloud.now()))
        empty = tpu_v2.ListQueuedResourcesResponse(next_page_token=token, unreachable=unreachable)
        reply: Any = tpu_v2.ListQueuedResourcesResponse.pb(empty)
        reply.queued_resources.extend(self._queued_message(queued) for queued in shown)
        return reply

    def delete_queued_resource(self, request: tpu_v2.DeleteQueuedResourceRequest, fault: Fault | None) -> Message:
        """Begin to delete a queued resource, with its nodes if forced."""
        call = Call(verb="delete", request_id=request.request_id or None, fault=fault)
        return self._told(self._queueing.delete(self._queued(request.name), call, force=request.force))

    def get_operation(self, request: operations_pb2.GetOperationRequest, _: Fault | None) -> Message:
        """One operation."""
        operation = self._cloud.store.operation(Api.TPU, request.name)
        if operation is None:
            raise rules.not_found(request.name)
        return self._told(operation)

    def list_operations(self, request: operations_pb2.ListOperationsRequest, _: Fault | None) -> Message:
        """A page of the operations of a zone, or of all, newest first."""
        project, zone = self._enter(request.name, all_zones=True)
        mine = [
            o
            for o in self._cloud.store.operations()
            if o.api is Api.TPU and o.project == project and zone in (EVERYWHERE, o.zone)
        ]
        longest = self._cloud.behaviour(zone).page_size
        size = min(request.page_size or longest, longest)
        page, token = page_after(mine[::-1], request.page_token, size=size, place=lambda o: f"{_NEWEST - o.number:020d}")
        return operations_pb2.ListOperationsResponse(operations=[self._told(o) for o in page], next_page_token=token)

    def list_locations(self, request: locations_pb2.ListLocationsRequest, _: Fault | None) -> Message:
        """A page of the zones."""
        zones = known_zones(self._cloud.store)
        longest = self._cloud.behaviour(EVERYWHERE).page_size
        page, token = page_after(zones, request.page_token, size=min(request.page_size or longest, longest), place=str)
        places = [locations_pb2.Location(name=f"{request.name}/locations/{zone}", location_id=zone) for zone in page]
        return locations_pb2.ListLocationsResponse(locations=places, next_page_token=token)

    def _told(self, operation: Operation) -> operations_pb2.Operation:
        now, reply = self._cloud.now(), None
        if operation.machine is not None:
            reply = node_message(self._cloud.store.machine(operation.machine), now, reply=True)
        elif operation.queued is not None:
            reply = self._queued_message(self._cloud.store.queued_resource(operation.queued))
        return operation_message(operation, reply, now)

    def _queued_message(self, queued: Queued) -> Message:
        nodes = [self._cloud.store.machine(number) for number in queued.nodes]
        accepting = self._cloud.behaviour(queued.zone).accept_queue
        return queued_message(queued, nodes, self._cloud.now(), accepting=accepting)

    def _enter(self, parent: str, *, all_zones: bool = False) -> tuple[str, str]:
        project, zone = tpu_orders.location_of(parent, all_zones=all_zones)
        rules.permit(self._cloud.behaviour(zone), Api.TPU, project=project, zone=zone)
        self._queueing.settle()
        return project, zone

    def _node(self, name: str) -> Machine:
        key = tpu_orders.key_of(name, Kind.NODE)
        self._enter(f"projects/{key.project}/locations/{key.zone}")
        return self._cloud.find(key)

    def _queued(self, name: str) -> Queued:
        key = tpu_orders.key_of(name, Kind.QUEUED)
        self._enter(f"projects/{key.project}/locations/{key.zone}")
        found = self._cloud.store.find(key, self._cloud.now())
        if not isinstance(found, Queued):
            raise rules.not_found(name)
        return found

    def _listed(
        self, request: tpu_v2.ListNodesRequest | tpu_v2.ListQueuedResourcesRequest, records: Collection[L]
    ) -> tuple[list[L], str, list[str]]:
        """The page that is asked for, the token of the next, and the zones that it lacks."""
        project, zone = tpu_orders.location_of(request.parent, all_zones=True)
        asked = {zone} if zone != EVERYWHERE else set(known_zones(self._cloud.store))
        lacking = {asked_zone for asked_zone in asked if self._cloud.behaviour(asked_zone).unreachable}
        found = [record for record in records if record.project == project and record.zone in asked - lacking]
        longest = self._cloud.behaviour(zone).page_size
        size = min(request.page_size or longest, longest)
        page, token = page_after(found, request.page_token, size=size, place=lambda record: f"{record.zone}/{record.name}")
        return page, token, [f"projects/{project}/locations/{name}" for name in sorted(lacking)]
