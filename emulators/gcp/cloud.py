"""The emulated cloud behind both APIs: create, admit, preempt, maintain and delete machines, with their operations."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from emulators.gcp import admission, error_messages
from emulators.gcp.addresses import free_addresses
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.faults import Failure, Fault
from emulators.gcp.new_records import boot_moments, new_machine, new_operation
from emulators.gcp.records import Api, Key, Kind, Machine, Operation, QueuedResource, Stage
from emulators.gcp.specs import MachineSpec, WriteCall, full_name
from emulators.gcp.store import GcpStore

_UNTIL_ENDED = timedelta(days=3650)
"""Length of a maintenance without an end."""
_PREEMPTIBLE_STAGES = (Stage.PROVISIONING, Stage.STAGING, Stage.RUNNING, Stage.REPAIRING)


class Cloud:
    """No method awaits between reading and writing the store, so calls never interleave. Every save sets `changed`."""

    def __init__(self, store: GcpStore) -> None:
        self.store = store
        self.changed = asyncio.Event()

    @staticmethod
    def now() -> datetime:
        """The current time."""
        return datetime.now(UTC)

    def save(self, *records: Machine | QueuedResource | Operation) -> None:
        """Store records and set `changed`."""
        self.store.save(*records)
        self.changed.set()

    def behaviour(self, zone: str) -> Behaviour:
        """The current behaviour of a zone."""
        return self.store.behaviour(zone)

    def take_fault(self, method: str, zone: str | None) -> Fault | None:
        """The first fault that matches a call; its count is decremented."""
        faults = list(self.store.faults)
        for index, fault in enumerate(faults):
            if fault.matches(method, zone):
                if fault.times is not None:
                    fewer = [fault.model_copy(update={"times": fault.times - 1})] if fault.times > 1 else []
                    self.store.set_faults([*faults[:index], *fewer, *faults[index + 1 :]])
                return fault
        return None

    def take_lost_reply(self, zone: str) -> bool:
        """Whether to lose the reply to a create that was just stored; the zone's count is decremented."""
        behaviour = self.behaviour(zone)
        if not behaviour.lost_replies:
            return False
        self.store.set_zone(zone, behaviour.model_copy(update={"lost_replies": behaviour.lost_replies - 1}))
        return True

    def find(self, key: Key) -> Machine:
        """A machine that exists; raises the API's error if there is none."""
        found = self.store.find(key, self.now())
        if not isinstance(found, Machine):
            raise error_messages.not_found(full_name(key))
        return found

    def create(self, specs: Sequence[MachineSpec], call: WriteCall, *, min_count: int | None = None) -> Operation:
        """Create machines in one zone: all of them, or at least `min_count`, or none; the operation shows which.

        An existing name is checked before quota and capacity, so that a repeated create is never refused for lack of
        capacity.
        """
        first, now = specs[0], self.now()
        behaviour, api = self.behaviour(first.zone), admission.api_of(first.kind)
        operations = self.store.operations()
        admission.check_rate(behaviour, api, operations, project=first.project, zone=first.zone, now=now)
        for spec in specs:
            if self.store.find(spec.key, now) is not None:
                raise error_messages.already_exists(full_name(spec.key))
        over_quota = self._over_quota(specs)
        failures = call.failures or ((over_quota,) if over_quota is not None else self._stockout(specs, min_count))
        operation = self._operation(call, first, now, failures).model_copy(update={"requested_count": len(specs)})
        if failures:
            # A single machine is visible until its operation fails. Several machines, or one over quota, are never created.
            visible = min_count is None and over_quota is None
            return self._create_failing(first, operation, now, visible=visible)
        free = self._free_capacity(first, now)
        if first.pending_seconds is not None and (behaviour.hold_queue or free == 0):
            return self._create_pending(first, operation, now, seconds=first.pending_seconds)
        machines = self.provision(specs[:free], operation, now)
        operation = operation.model_copy(
            update={
                "done_at": max(machine.ready_at for machine in machines),
                "machine": machines[0].number,
                "created_count": len(machines),
            }
        )
        self.save(*machines, operation)
        return operation

    def provision(self, specs: Sequence[MachineSpec], operation: Operation | None, now: datetime) -> list[Machine]:
        """New machines of one zone with addresses, not stored yet; the zone's stock is decremented."""
        zone, addresses = specs[0].zone, self._free_addresses(now)
        self._use_stock(zone, len(specs))
        return [
            self._machine(spec, operation, now).model_copy(
                update={"addresses": tuple(next(addresses) for _ in range(spec.hosts))}
            )
            for spec in specs
        ]

    def admit(self, machine: Machine) -> Machine:
        """Admit a pending flex-start machine, even if there is no capacity."""
        now = self.now()
        if machine.stage(now) is not Stage.PENDING or machine.operation is None:
            raise ApiError(Code.FAILED_PRECONDITION, f"{machine.name} is not waiting for capacity")
        self._use_stock(machine.zone, 1)
        address = next(self._free_addresses(now))
        moments = boot_moments(self.behaviour(machine.zone), now)
        admitted = machine.model_copy(update={"pending_until": None, "addresses": (address,), **moments})
        creation = self.store.operation(Api.COMPUTE, machine.operation)
        succeeds = {"failures": (), "status": None, "done_at": admitted.ready_at, "created_count": 1}
        self.save(admitted, *([] if creation is None else [creation.model_copy(update=succeeds)]))
        return admitted

    def delete(self, machine: Machine, call: WriteCall) -> Operation:
        """Start to delete a machine; a deletion in progress keeps its end."""
        self.check_failing_deletes(machine.zone)
        now, behaviour = self.now(), self.behaviour(machine.zone)
        operation = self._operation(call, machine, now, call.failures)
        if call.failures:
            self.save(operation)
            return operation
        gone_at = machine.gone_at or now + timedelta(seconds=behaviour.delete_latency_seconds)
        operation = operation.model_copy(update={"done_at": gone_at})
        failure = error_messages.deleted_during_creation(admission.api_of(machine.kind), machine.name)
        creation = self._failed_creation(machine, failure, now)
        self.save(machine.model_copy(update={"gone_at": gone_at}), operation, *creation)
        return operation

    def check_failing_deletes(self, zone: str) -> None:
        """Refuse a delete if the zone fails its next ones; the count is decremented."""
        behaviour = self.behaviour(zone)
        if behaviour.failing_deletes:
            fewer = behaviour.failing_deletes - 1
            self.store.set_zone(zone, behaviour.model_copy(update={"failing_deletes": fewer}))
            raise ApiError(Code.UNAVAILABLE, f"The zone {zone} cannot delete now")

    def preempt(self, machine: Machine) -> Machine:
        """Preempt a machine, even if it is not a spot machine."""
        now = self.now()
        if machine.stage(now) not in _PREEMPTIBLE_STAGES:
            message = f"{machine.name} is {machine.stage(now)}; only an admitted machine can be preempted"
            raise ApiError(Code.FAILED_PRECONDITION, message)
        behaviour = self.behaviour(machine.zone)
        preempted_at = now if machine.queued is None else now + timedelta(seconds=behaviour.suspend_latency_seconds)
        stopped_at = preempted_at
        if machine.kind is Kind.INSTANCE or not machine.stops_when_preempted:
            stopped_at += timedelta(seconds=behaviour.delete_latency_seconds)
        update: dict[str, Any] = {"preempted_at": preempted_at, "stopped_at": stopped_at}
        if not machine.stops_when_preempted:
            update["gone_at"] = stopped_at
        preempted = machine.model_copy(update=update)
        failure = error_messages.preempted_during_creation(admission.api_of(machine.kind), machine.name)
        creation = self._failed_creation(machine, failure, now)
        self.save(preempted, *self._preemption(machine, now, stopped_at), *creation)
        return preempted

    def start_maintenance(self, machine: Machine, seconds: float | None) -> Machine:
        """Start a maintenance of that length, or until the next call ends it; no host answers meanwhile."""
        length = _UNTIL_ENDED if seconds is None else timedelta(seconds=seconds)
        changed = machine.model_copy(update={"repaired_at": self.now() + length})
        self.save(changed)
        return changed

    def kill_host(self, machine: Machine, host: int) -> Machine:
        """Make one host stop answering."""
        if not 0 <= host < machine.hosts:
            raise ApiError(Code.NOT_FOUND, f"{machine.name} has hosts 0 to {machine.hosts - 1}")
        changed = machine.model_copy(update={"dead_hosts": tuple(sorted({*machine.dead_hosts, host}))})
        self.save(changed)
        return changed

    def update(self, changed: Machine, call: WriteCall) -> Operation:
        """Store a changed machine, unless the call's operation fails; the operation is done at once."""
        operation = self._operation(call, changed, self.now(), call.failures)
        if changed.kind is Kind.NODE:
            operation = operation.model_copy(update={"machine": changed.number})
        self.save(*([] if operation.failures else [changed]), operation)
        return operation

    def _create_failing(self, spec: MachineSpec, operation: Operation, now: datetime, *, visible: bool) -> Operation:
        """Fail the operation after the create latency; until then the machine may be visible."""
        done_at = now + timedelta(seconds=self.behaviour(spec.zone).create_latency_seconds)
        machines = []
        if visible:
            machines = [self._machine(spec, operation, now).model_copy(update={"failed_at": done_at})]
        operation = operation.model_copy(update={"done_at": done_at, "created_count": 0})
        self.save(*machines, operation)
        return operation

    def _create_pending(self, spec: MachineSpec, operation: Operation, now: datetime, *, seconds: float) -> Operation:
        """Create a machine that waits for capacity; its operation fails when the wait ends without an admission."""
        pending_until = now + timedelta(seconds=seconds)
        machine = self._machine(spec, operation, now).model_copy(update={"pending_until": pending_until})
        stockout = error_messages.stockout(Api.COMPUTE, project=spec.project, zone=spec.zone)
        status = error_messages.STATUS_OF[str(stockout.code)]
        ends = {"done_at": pending_until, "failures": (stockout,), "status": status, "machine": machine.number}
        operation = operation.model_copy(update=ends)
        self.save(machine, operation)
        return operation

    def _preemption(self, machine: Machine, now: datetime, stopped_at: datetime) -> Iterator[Operation]:
        """The operation with which Compute reports a preemption; the TPU API has none."""
        if machine.kind is Kind.INSTANCE:
            operation = self._operation(WriteCall(verb="compute.instances.preempted"), machine, now)
            yield operation.model_copy(update={"by_system": True, "done_at": stopped_at})

    def _failed_creation(self, machine: Machine, failure: Failure, now: datetime) -> Iterator[Operation]:
        """The unfinished operation that creates the machine, failed if the machine is the last one of it."""
        creation = None if machine.operation is None else self.store.operation(admission.api_of(machine.kind), machine.operation)
        others = any(
            other.operation == machine.operation and other.number != machine.number and other.gone_at is None
            for other in self.store.machines(now)
        )
        if creation is not None and not creation.done(now) and not others:
            yield creation.model_copy(update={"done_at": now, "failures": (failure,), "status": 400})

    def _use_stock(self, zone: str, count: int) -> None:
        behaviour = self.behaviour(zone)
        if behaviour.stockout_after:
            left = max(0, behaviour.stockout_after - count)
            self.store.set_zone(zone, behaviour.model_copy(update={"stockout_after": left}))

    def _over_quota(self, specs: Sequence[MachineSpec]) -> Failure | None:
        """The exceeded quota that fails the operation; raises one that refuses the call."""
        first = specs[0]
        behaviour, api = self.behaviour(first.zone), admission.api_of(first.kind)
        failure = admission.quota_failure(
            behaviour,
            first.kind,
            self.store.machines(self.now()),
            project=first.project,
            zone=first.zone,
            variant=first.variant,
            count=len(specs),
        )
        if failure is None or behaviour.quota is None:
            return None
        in_operation = behaviour.quota.in_operation
        if api is Api.COMPUTE if in_operation is None else in_operation:
            return failure
        raise error_messages.quota_error(api, failure, project=first.project, zone=first.zone)

    def _stockout(self, specs: Sequence[MachineSpec], min_count: int | None) -> tuple[Failure, ...]:
        """The errors if the zone has too little capacity and the machines cannot wait for it."""
        first = specs[0]
        free = self._free_capacity(first, self.now())
        if free is None or free >= (min_count or len(specs)) or first.pending_seconds is not None:
            return ()
        api = admission.api_of(first.kind)
        stockout = error_messages.stockout(api, project=first.project, zone=first.zone, reserved=first.reserved)
        return (stockout,) if min_count is None else (error_messages.min_count_not_reached(min_count), stockout)

    def _free_capacity(self, spec: MachineSpec, now: datetime) -> int | None:
        machines = self.store.machines(now)
        return admission.free_capacity(self.behaviour(spec.zone), spec.kind, machines, zone=spec.zone, now=now)

    def _machine(self, spec: MachineSpec, operation: Operation | None, now: datetime) -> Machine:
        return new_machine(self.store.next_number(), spec, operation, self.behaviour(spec.zone), now)

    def _operation(
        self, call: WriteCall, target: MachineSpec | Machine, now: datetime, failures: tuple[Failure, ...] = ()
    ) -> Operation:
        return new_operation(
            self.store.next_number(),
            admission.api_of(target.kind),
            call,
            project=target.project,
            zone=target.zone,
            target=full_name(target.key),
            now=now,
            failures=failures,
        )

    def _free_addresses(self, now: datetime) -> Iterator[str]:
        return free_addresses({address for machine in self.store.machines(now) for address in machine.addresses})
