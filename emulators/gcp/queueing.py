"""Queued resources: orders for nodes that wait for room, in the order in which they came."""

from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud import tpu_v2
from google.protobuf import json_format

from emulators.gcp import rules, tpu_orders, wording
from emulators.gcp.behaviour import Behaviour, Failure
from emulators.gcp.cloud import Cloud
from emulators.gcp.orders import Call, Order, link
from emulators.gcp.records import Api, Key, Kind, Operation, Queued, Stage
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.tpu_wire import body_of

_TAKING_ALL = Behaviour()
"""What was taken into the queue is not checked again."""


class Queueing:
    """The queues of all zones."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def enqueue(self, asked: tpu_v2.QueuedResource, call: Call, *, key: Key) -> Operation:
        """Take an order; a request id that was seen before gives the operation of then."""
        now, store = self._cloud.now(), self._cloud.store
        if call.request_id is not None and (earlier := store.replayed(Api.TPU, call.request_id)) is not None:
            return earlier
        rules.check_name("queued_resource_id", key.name)
        behaviour = self._cloud.behaviour(key.zone)
        orders = tpu_orders.queued_orders(key.project, key.zone, key.name, asked, behaviour)
        rules.refuse_haste(behaviour, Api.TPU, store.operations(), project=key.project, zone=key.zone, now=now)
        queued = self._ordered(asked, key, now)
        if store.find(key, now) is not None:
            raise rules.already_exists(queued.full_name)
        for order in orders:
            if store.find(order.key, now) is not None:
                raise rules.already_exists(link(order.key))
        over = rules.quota_failure(
            behaviour,
            Kind.NODE,
            store.machines(now),
            project=key.project,
            zone=key.zone,
            variant=orders[0].variant,
            wanted=len(orders),
        )
        if over is not None:
            raise wording.quota_refusal(Api.TPU, over, project=key.project, zone=key.zone)
        operation = self._operation(queued, call, now).model_copy(update={"done_at": queued.waiting_at})
        if call.failures:
            self._cloud.keep(operation)
            return operation
        operation = operation.model_copy(update={"queued": queued.number})
        self._cloud.keep(queued, operation)
        self.settle()
        return operation

    def settle(self) -> None:
        """Let in those for whom there is room now."""
        now = self._cloud.now()
        full: set[str] = set()
        for queued in sorted(self._cloud.store.queued(now), key=lambda waiting: waiting.number):
            behaviour = self._cloud.behaviour(queued.zone)
            if queued.zone in full or behaviour.hold_queue or not queued.waits(now) or now < queued.earliest_at:
                continue
            machines = self._cloud.store.machines(now)
            room = rules.room(behaviour, Kind.NODE, machines, zone=queued.zone, now=now)
            if room is not None and room < len(self._orders(queued)):
                full.add(queued.zone)
            else:
                self.admit(queued)
        self._let_machines_in(now)

    def _let_machines_in(self, now: datetime) -> None:
        """The same for flex-start machines."""
        for machine in sorted(self._cloud.store.machines(now), key=lambda waiting: waiting.number):
            behaviour = self._cloud.behaviour(machine.zone)
            if machine.stage(now) is Stage.PENDING and not behaviour.hold_queue:
                existing = self._cloud.store.machines(now)
                if rules.room(behaviour, machine.kind, existing, zone=machine.zone, now=now) != 0:
                    self._cloud.let_in(machine)

    def admit(self, queued: Queued) -> Queued:
        """Give a queued resource its nodes, room or not."""
        now = self._cloud.now()
        if not queued.waits(now):
            raise Refusal(Code.FAILED_PRECONDITION, f"{queued.name} does not wait")
        nodes = [
            node.model_copy(update={"queued": queued.full_name, "stops_when_preempted": False})
            for node in self._cloud.admit(self._orders(queued), None, now)
        ]
        admitted = queued.model_copy(update={"admitted_at": now, "nodes": tuple(node.number for node in nodes)})
        self._cloud.keep(*nodes, admitted)
        return admitted

    def fail(self, queued: Queued, failure: Failure) -> Queued:
        """End a queued resource that waits, for the reason given."""
        if not queued.waits(self._cloud.now()):
            raise Refusal(Code.FAILED_PRECONDITION, f"{queued.name} does not wait")
        failed = queued.model_copy(update={"failure": failure})
        self._cloud.keep(failed)
        return failed

    def delete(self, queued: Queued, call: Call, *, force: bool) -> Operation:
        """Begin to delete a queued resource; one that has nodes only if forced, and then with them."""
        now = self._cloud.now()
        if call.request_id is not None and (earlier := self._cloud.store.replayed(Api.TPU, call.request_id)) is not None:
            return earlier
        nodes = [node for node in map(self._cloud.store.machine, queued.nodes) if node.exists(now)]
        if nodes and not force:
            raise Refusal(Code.FAILED_PRECONDITION, f"{queued.name} has nodes; delete them first, or use force")
        self._cloud.fail_delete(queued.zone)
        operation = self._operation(queued, call, now)
        if call.failures:
            self._cloud.keep(operation)
            return operation
        end = now + timedelta(seconds=self._cloud.behaviour(queued.zone).delete_latency_seconds)
        leaving = [node.model_copy(update={"gone_at": min(node.gone_at or end, end)}) for node in nodes]
        gone_at = queued.gone_at or end
        operation = operation.model_copy(update={"done_at": gone_at})
        self._cloud.keep(*leaving, queued.model_copy(update={"gone_at": gone_at}), operation)
        return operation

    def _orders(self, queued: Queued) -> list[Order]:
        message = tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource())
        asked = tpu_v2.QueuedResource.wrap(json_format.ParseDict(queued.body, message))
        return tpu_orders.queued_orders(queued.project, queued.zone, queued.name, asked, _TAKING_ALL)

    def _ordered(self, asked: tpu_v2.QueuedResource, key: Key, now: datetime) -> Queued:
        behaviour = self._cloud.behaviour(key.zone)
        waiting_at = now + timedelta(seconds=behaviour.create_latency_seconds)
        after, until = _validity(asked.queueing_policy, now)
        earliest_at = max(after, waiting_at + timedelta(seconds=behaviour.queue_latency_seconds))
        return Queued(
            number=self._cloud.store.number(),
            project=key.project,
            zone=key.zone,
            name=key.name,
            created_at=now,
            body=body_of(asked),
            waiting_at=waiting_at,
            earliest_at=earliest_at,
            until=until,
        )

    def _operation(self, queued: Queued, call: Call, now: datetime) -> Operation:
        number = self._cloud.store.number()
        return Operation(
            number=number,
            project=queued.project,
            zone=queued.zone,
            name=f"projects/{queued.project}/locations/{queued.zone}/operations/operation-{number:012x}",
            created_at=now,
            api=Api.TPU,
            verb=call.verb,
            target=queued.full_name,
            done_at=now,
            failures=call.failures,
            request_id=call.request_id,
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
