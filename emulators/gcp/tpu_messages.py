"""Nodes, queued resources and operations as protobuf messages of the TPU API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from google.cloud import tpu_v2
from google.protobuf import any_pb2, empty_pb2, json_format

from emulators.gcp.api_error import Code
from emulators.gcp.faults import Failure
from emulators.gcp.protobufs import Message, operations_pb2, status_pb2
from emulators.gcp.records import Machine, Operation, QueuedResource, Stage
from emulators.gcp.specs import full_name

_RUNTIME_PORT = 8470
_FIRST_ID = 10**18
_State = tpu_v2.Node.State
_QueuedState = tpu_v2.QueuedResourceState.State
_STATES = {
    Stage.PENDING: _State.CREATING,
    Stage.PROVISIONING: _State.CREATING,
    Stage.STAGING: _State.CREATING,
    Stage.RUNNING: _State.READY,
    Stage.REPAIRING: _State.REPAIRING,
    Stage.STOPPING: _State.PREEMPTED,
    Stage.PREEMPTED: _State.PREEMPTED,
    Stage.DELETING: _State.DELETING,
    Stage.GONE: _State.TERMINATED,
}
_LEAVING = {Stage.STOPPING, Stage.PREEMPTED, Stage.DELETING, Stage.GONE}
_OPERATION_METADATA = "type.googleapis.com/google.cloud.common.OperationMetadata"
"""The type URL that the service sends. The fields are those of tpu.v2's type, which clients expect but do not get."""


def body_of(message: Any) -> dict[str, Any]:
    """A proto-plus message as JSON, for the store."""
    return json_format.MessageToDict(type(message).pb(message), preserving_proto_field_name=True)


def node_message(machine: Machine, now: datetime, *, in_response: bool = False) -> Message:
    """A node in its current state; in the response of its operation it is READY and has no health."""
    node: Any = tpu_v2.Node.pb(tpu_v2.Node())
    json_format.ParseDict(machine.body, node)
    stage = Stage.RUNNING if in_response else machine.stage(now)
    node.name, node.id, node.state = full_name(machine.key), _FIRST_ID + machine.number, int(_STATES[stage])
    node.api_version = int(tpu_v2.Node.ApiVersion.V2)
    node.create_time.FromDatetime(machine.created_at)
    node.accelerator_type = machine.variant
    if machine.queued is not None:
        node.queued_resource = machine.queued
    if not in_response and stage is Stage.RUNNING:
        node.health = int(tpu_v2.Node.Health.HEALTHY)
    if stage is Stage.REPAIRING:
        node.health = int(tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE)
        node.health_description = "The TPU had a maintenance event."
    if machine.has_addresses(now):
        for address in machine.addresses:
            node.network_endpoints.add(ip_address=address, port=_RUNTIME_PORT)
    return node


def queued_state(
    queued: QueuedResource, nodes: Sequence[Machine], now: datetime, *, accepting: bool
) -> tuple[int, Failure | None]:
    """The state of a queued resource and its error; `accepting` shows a waiting one as ACCEPTED, as the API once did."""
    if queued.gone_at is not None:
        return _QueuedState.DELETING, None
    if queued.failure is not None:
        return _QueuedState.FAILED, queued.failure
    if queued.expired(now):
        return _QueuedState.FAILED, Failure(code=Code.DEADLINE_EXCEEDED.value, message="The queued resource request expired.")
    if queued.admitted_at is None:
        if now < queued.waiting_at:
            return _QueuedState.CREATING, None
        return (_QueuedState.ACCEPTED if accepting else _QueuedState.WAITING_FOR_RESOURCES), None
    return _admitted_state(nodes, now), None


def _admitted_state(nodes: Sequence[Machine], now: datetime) -> int:
    """The state of an admitted queued resource, which follows from its nodes."""
    stages = {node.stage(now) for node in nodes}
    if stages == {Stage.GONE}:
        return _QueuedState.SUSPENDED
    if stages & _LEAVING or any(node.preempted_at is not None for node in nodes):
        return _QueuedState.SUSPENDING
    return _QueuedState.PROVISIONING if stages & {Stage.PROVISIONING, Stage.STAGING} else _QueuedState.ACTIVE


def queued_message(queued: QueuedResource, nodes: Sequence[Machine], now: datetime, *, accepting: bool) -> Message:
    """A queued resource in its current state."""
    message: Any = tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource())
    json_format.ParseDict(queued.body, message)
    message.name = queued.full_name
    message.create_time.FromDatetime(queued.created_at)
    state, failure = queued_state(queued, nodes, now, accepting=accepting)
    message.state.state = int(state)
    if failure is not None:
        message.state.failed_data.error.CopyFrom(status(failure))
    if state in (_QueuedState.SUSPENDING, _QueuedState.SUSPENDED):
        preempted = any(node.preempted_at is not None for node in nodes)
        initiator = tpu_v2.QueuedResourceState.StateInitiator
        message.state.state_initiator = int(initiator.SERVICE if preempted else initiator.USER)
    return message


def status(failure: Failure) -> status_pb2.Status:
    """The error of an operation or a queued resource."""
    return status_pb2.Status(code=failure.number, message=failure.message)


def operation_message(operation: Operation, response: Message | None, now: datetime) -> operations_pb2.Operation:
    """An operation in its current state; when done it has its error or its response."""
    message = operations_pb2.Operation(name=operation.name, done=operation.done(now))
    metadata: Any = tpu_v2.OperationMetadata.pb(
        tpu_v2.OperationMetadata(target=operation.target, verb=operation.verb, api_version="v2")
    )
    metadata.create_time.FromDatetime(operation.created_at)
    if operation.done(now):
        metadata.end_time.FromDatetime(operation.done_at)
        if operation.failures:
            message.error.CopyFrom(status(operation.failures[0]))
        else:
            message.response.Pack(response if response is not None else empty_pb2.Empty())
    message.metadata.CopyFrom(any_pb2.Any(type_url=_OPERATION_METADATA, value=metadata.SerializeToString()))
    return message
