"""Queued resources of the TPU API: enqueue, admit first come first served, fail, expire and delete."""

from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud import tpu_v2
from google.protobuf import json_format

from emulators.gcp import admission, error_messages, tpu_specs
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.cloud import Cloud
from emulators.gcp.faults import Failure
from emulators.gcp.new_records import new_operation
from emulators.gcp.records import Api, Key, Kind, Operation, QueuedResource, Stage
from emulators.gcp.specs import MachineSpec, WriteCall, full_name
from emulators.gcp.tpu_messages import body_of

_ACCEPT_ALL = Behaviour()
"""Used to parse a stored request again: it was checked when it was enqueued."""


class QueuedResources:
    """The queues of all zones; flex-start instances wait in them too."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def enqueue(self, request: tpu_v2.QueuedResource, call: WriteCall, *, key: Key) -> Operation:
        """Store a request for nodes; a repeated request id returns the operation of the first call."""
        now, store = self._cloud.now(), self._cloud.store
        if (earlier := store.operation_of_request(Api.TPU, call.request_id)) is not None:
            return earlier
        admission.check_name("queued_resource_id", key.name)
        behaviour = self._cloud.behaviour(key.zone)
        specs = tpu_specs.queued_specs(key.project, key.zone, key.name, request, behaviour)
        admission.check_rate(behaviour, Api.TPU, store.operations(), project=key.project, zone=key.zone, now=now)
        queued = self._new(request, key, now)
        self._check_names(queued, specs, now)
        self._check_quota(key, specs, now)
        operation = self._operation(queued, call, now).model_copy(update={"done_at": queued.waiting_at})
        if call.failures:
            self._cloud.save(operation)
            return operation
        operation = operation.model_copy(update={"queued": queued.number})
        self._cloud.save(queued, operation)
        self.settle()
        return operation

    def settle(self) -> None:
        """Admit the queued resources and flex-start machines for which there is capacity now."""
        now = self._cloud.now()
        full: set[str] = set()
        for queued in sorted(self._cloud.store.queued_resources(now), key=lambda waiting: waiting.number):
            behaviour = self._cloud.behaviour(queued.zone)
            if queued.zone in full or behaviour.hold_queue or not queued.is_waiting(now) or now < queued.earliest_at:
                continue
            machines = self._cloud.store.machines(now)
            free = admission.free_capacity(behaviour, Kind.NODE, machines, zone=queued.zone, now=now)
            if free is not None and free < len(self._specs(queued)):
                full.add(queued.zone)
            else:
                self.admit(queued)
        self._admit_pending_machines(now)

    def _admit_pending_machines(self, now: datetime) -> None:
        for machine in sorted(self._cloud.store.machines(now), key=lambda waiting: waiting.number):
            behaviour = self._cloud.behaviour(machine.zone)
            if machine.stage(now) is Stage.PENDING and not behaviour.hold_queue:
                existing = self._cloud.store.machines(now)
                if admission.free_capacity(behaviour, machine.kind, existing, zone=machine.zone, now=now) != 0:
                    self._cloud.admit(machine)

    def admit(self, queued: QueuedResource) -> QueuedResource:
        """Create the nodes of a queued resource, even if there is no capacity."""
        now = self._cloud.now()
        self._check_waiting(queued, now)
        nodes = [
            node.model_copy(update={"queued": queued.full_name, "stops_when_preempted": False})
            for node in self._cloud.provision(self._specs(queued), None, now)
        ]
        admitted = queued.model_copy(update={"admitted_at": now, "nodes": tuple(node.number for node in nodes)})
        self._cloud.save(*nodes, admitted)
        return admitted

    def fail(self, queued: QueuedResource, failure: Failure) -> QueuedResource:
        """Fail a waiting queued resource with the given error."""
        self._check_waiting(queued, self._cloud.now())
        failed = queued.model_copy(update={"failure": failure})
        self._cloud.save(failed)
        return failed

    def delete(self, queued: QueuedResource, call: WriteCall, *, force: bool) -> Operation:
        """Start to delete a queued resource; `force` deletes its nodes too, without it one with nodes is refused."""
        now = self._cloud.now()
        if (earlier := self._cloud.store.operation_of_request(Api.TPU, call.request_id)) is not None:
            return earlier
        nodes = [node for node in map(self._cloud.store.machine, queued.nodes) if node.exists(now)]
        if nodes and not force:
            raise ApiError(Code.FAILED_PRECONDITION, f"{queued.name} has nodes; delete them first, or use force")
        self._cloud.check_failing_deletes(queued.zone)
        operation = self._operation(queued, call, now)
        if call.failures:
            self._cloud.save(operation)
            return operation
        end = now + timedelta(seconds=self._cloud.behaviour(queued.zone).delete_latency_seconds)
        leaving = [node.model_copy(update={"gone_at": min(node.gone_at or end, end)}) for node in nodes]
        gone_at = queued.gone_at or end
        operation = operation.model_copy(update={"done_at": gone_at})
        self._cloud.save(*leaving, queued.model_copy(update={"gone_at": gone_at}), operation)
        return operation

    @staticmethod
    def _check_waiting(queued: QueuedResource, now: datetime) -> None:
        if not queued.is_waiting(now):
            raise ApiError(Code.FAILED_PRECONDITION, f"{queued.name} is not waiting for capacity")

    def _check_names(self, queued: QueuedResource, specs: list[MachineSpec], now: datetime) -> None:
        if self._cloud.store.find(queued.key, now) is not None:
            raise error_messages.already_exists(queued.full_name)
        for spec in specs:
            if self._cloud.store.find(spec.key, now) is not None:
                raise error_messages.already_exists(full_name(spec.key))

    def _check_quota(self, key: Key, specs: list[MachineSpec], now: datetime) -> None:
        failure = admission.quota_failure(
            self._cloud.behaviour(key.zone),
            Kind.NODE,
            self._cloud.store.machines(now),
            project=key.project,
            zone=key.zone,
            variant=specs[0].variant,
            count=len(specs),
        )
        if failure is not None:
            raise error_messages.quota_error(Api.TPU, failure, project=key.project, zone=key.zone)

    def _specs(self, queued: QueuedResource) -> list[MachineSpec]:
        message = tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource())
        request = tpu_v2.QueuedResource.wrap(json_format.ParseDict(queued.body, message))
        return tpu_specs.queued_specs(queued.project, queued.zone, queued.name, request, _ACCEPT_ALL)

    def _new(self, request: tpu_v2.QueuedResource, key: Key, now: datetime) -> QueuedResource:
        behaviour = self._cloud.behaviour(key.zone)
        waiting_at = now + timedelta(seconds=behaviour.create_latency_seconds)
        after, expires_at = _validity(request.queueing_policy, now)
        earliest_at = max(after, waiting_at + timedelta(seconds=behaviour.queue_latency_seconds))
        return QueuedResource(
            number=self._cloud.store.next_number(),
            project=key.project,
            zone=key.zone,
            name=key.name,
            created_at=now,
            body=body_of(request),
            waiting_at=waiting_at,
            earliest_at=earliest_at,
            expires_at=expires_at,
        )

    def _operation(self, queued: QueuedResource, call: WriteCall, now: datetime) -> Operation:
        return new_operation(
            self._cloud.store.next_number(),
            Api.TPU,
            call,
            project=queued.project,
            zone=queued.zone,
            target=queued.full_name,
            now=now,
            failures=call.failures,
        )


def _validity(policy: tpu_v2.QueuedResource.QueueingPolicy, now: datetime) -> tuple[datetime, datetime | None]:
    """From when and until when a queued resource may be admitted."""
    given: Any = tpu_v2.QueuedResource.QueueingPolicy.pb(policy)
    match given.WhichOneof("start_timing_constraints"):
        case "valid_until_duration":
            return now, now + given.valid_until_duration.ToTimedelta()
        case "valid_until_time":
            return now, given.valid_until_time.ToDatetime(UTC)
        case "valid_after_duration":
            return now + given.valid_after_duration.ToTimedelta(), None
        case "valid_after_time":
            return given.valid_after_time.ToDatetime(UTC), None
        case "valid_interval":
            return given.valid_interval.start_time.ToDatetime(UTC), given.valid_interval.end_time.ToDatetime(UTC)
    return now, None
