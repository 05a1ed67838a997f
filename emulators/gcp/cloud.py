"""The cloud behind both APIs: it makes, changes and takes away machines, and remembers every step."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from emulators.gcp import rules, wording
from emulators.gcp.addresses import free_addresses
from emulators.gcp.behaviour import Behaviour, Failure, Fault
from emulators.gcp.orders import Call, Order, link
from emulators.gcp.records import Api, Key, Kind, Machine, Operation, Queued, Stage
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.store import Store

_LONG = timedelta(days=3650)
_TAKEABLE = (Stage.PROVISIONING, Stage.STAGING, Stage.RUNNING, Stage.REPAIRING)


class Cloud:
    """Between reading the store and writing it nothing waits, so calls do not mix. `changed` is set after every write."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.changed = asyncio.Event()

    @staticmethod
    def now() -> datetime:
        """The time."""
        return datetime.now(UTC)

    def keep(self, *records: Machine | Queued | Operation) -> None:
        """Store, and wake up whoever waits for changes."""
        self.store.keep(*records)
        self.changed.set()

    def behaviour(self, zone: str) -> Behaviour:
        """How a zone behaves now."""
        return self.store.behaviour(zone)

    def fault(self, method: str, zone: str | None) -> Fault | None:
        """The first fault that waits for such a call, used up by one."""
        faults = list(self.store.faults)
        for place, fault in enumerate(faults):
            if fault.meets(method, zone):
                if fault.times is not None:
                    fewer = [fault.model_copy(update={"times": fault.times - 1})] if fault.times > 1 else []
                    self.store.set_faults([*faults[:place], *fewer, *faults[place + 1 :]])
                return fault
        return None

    def find(self, key: Key) -> Machine:
        """A machine that exists; refuses as its API does if there is none."""
        found = self.store.find(key, self.now())
        if not isinstance(found, Machine):
            raise rules.not_found(link(key))
        return found

    def make(self, orders: Sequence[Order], call: Call, *, least: int | None = None) -> Operation:
        """Take orders of one zone: all of them, or at least so many, or none; the operation tells.

        A name that exists is told before quota and stock, so that a repeated create is never refused for want of room.
        """
        first, now = orders[0], self.now()
        behaviour, api = self.behaviour(first.zone), rules.api_of(first.kind)
        where = {"project": first.project, "zone": first.zone}
        rules.refuse_haste(behaviour, api, self.store.operations(), now=now, **where)
        for order in orders:
            if self.store.find(order.key, now) is not None:
                raise rules.already_exists(link(order.key))
        over = self._over_quota(orders)
        failures = call.failures or ((over,) if over is not None else self._stockout(orders, least))
        operation = self._operation(api, call, first, now=now, failures=failures, wanted=len(orders))
        if failures:
            done_at = now + timedelta(seconds=behaviour.create_latency_seconds)
            # One machine shows until its operation has failed; several, or what a quota forbids, are never begun.
            doomed = [self._machine(first, operation, now, failed=True)] if least is None and over is None else []
            operation = operation.model_copy(update={"done_at": done_at, "made": 0})
            self.keep(*doomed, operation)
            return operation
        room = rules.room(behaviour, first.kind, self.store.machines(now), zone=first.zone, now=now)
        if first.waits_seconds is not None and (behaviour.hold_queue or room == 0):
            return self._pend(first, operation, now, seconds=first.waits_seconds)
        made = self.admit(orders[:room], operation, now)
        operation = operation.model_copy(
            update={"done_at": max(m.ready_at for m in made), "machine": made[0].number, "made": len(made)}
        )
        self.keep(*made, operation)
        return operation

    def admit(self, orders: Sequence[Order], operation: Operation | None, now: datetime) -> list[Machine]:
        """Machines on their way from now on, not stored yet; the zone's stock runs down."""
        zone, addresses = orders[0].zone, self._free_addresses(now)
        self._run_down(zone, len(orders))
        return [
            self._machine(order, operation, now).model_copy(
                update={"addresses": tuple(next(addresses) for _ in range(order.hosts))}
            )
            for order in orders
        ]

    def let_in(self, machine: Machine) -> Machine:
        """Give a flex-start machine that waits what it waits for, room or not."""
        now = self.now()
        if machine.stage(now) is not Stage.PENDING or machine.operation is None:
            raise Refusal(Code.FAILED_PRECONDITION, f"{machine.name} does not wait")
        self._run_down(machine.zone, 1)
        address = next(self._free_addresses(now))
        given = {"waits_until": None, "addresses": (address,), **self._moments(machine.zone, now)}
        admitted = machine.model_copy(update=given)
        making = self.store.operation(Api.COMPUTE, machine.operation)
        ended = {"failures": (), "status": None, "done_at": admitted.ready_at, "made": 1}
        self.keep(admitted, *([] if making is None else [making.model_copy(update=ended)]))
        return admitted

    def _pend(self, order: Order, operation: Operation, now: datetime, *, seconds: float) -> Operation:
        """A machine that waits: its operation fails when the wait is over, unless it is let in before."""
        until = now + timedelta(seconds=seconds)
        machine = self._machine(order, operation, now).model_copy(update={"waits_until": until})
        stockout = wording.no_capacity(Api.COMPUTE, project=order.project, zone=order.zone)
        status = wording.STATUS_OF[str(stockout.code)]
        ends = {"done_at": until, "failures": (stockout,), "status": status, "machine": machine.number}
        operation = operation.model_copy(update=ends)
        self.keep(machine, operation)
        return operation

    def delete(self, machine: Machine, call: Call) -> Operation:
        """Begin to delete a machine; what is already on its way out keeps its time."""
        self.fail_delete(machine.zone)
        now, behaviour = self.now(), self.behaviour(machine.zone)
        api = rules.api_of(machine.kind)
        operation = self._operation(api, call, machine, now=now, failures=call.failures)
        if call.failures:
            self.keep(operation)
            return operation
        gone_at = machine.gone_at or now + timedelta(seconds=behaviour.delete_latency_seconds)
        operation = operation.model_copy(update={"done_at": gone_at})
        making = self._unfinished(machine, wording.deleted_early(api, machine.name), now)
        self.keep(machine.model_copy(update={"gone_at": gone_at}), operation, *making)
        return operation

    def fail_delete(self, zone: str) -> None:
        """Refuse, if the zone was told to fail its next deletes."""
        behaviour = self.behaviour(zone)
        if behaviour.failing_deletes:
            fewer = behaviour.failing_deletes - 1
            self.store.set_zone(zone, behaviour.model_copy(update={"failing_deletes": fewer}))
            raise Refusal(Code.UNAVAILABLE, f"The zone {zone} cannot delete now")

    def loses_reply(self, zone: str) -> bool:
        """Whether the reply to a create that was just stored is to be lost."""
        behaviour = self.behaviour(zone)
        if not behaviour.lost_replies:
            return False
        self.store.set_zone(zone, behaviour.model_copy(update={"lost_replies": behaviour.lost_replies - 1}))
        return True

    def preempt(self, machine: Machine) -> Machine:
        """Take a machine away, spot or not; whether it stays visible is its own affair."""
        now = self.now()
        if machine.stage(now) not in _TAKEABLE:
            raise Refusal(
                Code.FAILED_PRECONDITION, f"{machine.name} is {machine.stage(now)}; only what was given can be taken away"
            )
        behaviour = self.behaviour(machine.zone)
        preempted_at = now if machine.queued is None else now + timedelta(seconds=behaviour.suspend_latency_seconds)
        stopped_at = preempted_at
        if machine.kind is Kind.INSTANCE or not machine.stops_when_preempted:
            stopped_at += timedelta(seconds=behaviour.delete_latency_seconds)
        update: dict[str, Any] = {"preempted_at": preempted_at, "stopped_at": stopped_at}
        if not machine.stops_when_preempted:
            update["gone_at"] = stopped_at
        taken = machine.model_copy(update=update)
        api = rules.api_of(machine.kind)
        told = []
        if machine.kind is Kind.INSTANCE:
            event = self._operation(api, Call(verb="compute.instances.preempted"), machine, now=now)
            told = [event.model_copy(update={"by_cloud": True, "done_at": stopped_at})]
        self.keep(taken, *told, *self._unfinished(machine, wording.preempted_early(api, machine.name), now))
        return taken

    def maintain(self, machine: Machine, seconds: float | None) -> Machine:
        """Begin a maintenance that lasts so long, or until the next call ends it; meanwhile no host answers."""
        ends = _LONG if seconds is None else timedelta(seconds=seconds)
        changed = machine.model_copy(update={"repaired_at": self.now() + ends})
        self.keep(changed)
        return changed

    def kill_host(self, machine: Machine, host: int) -> Machine:
        """One host answers no more."""
        if not 0 <= host < machine.hosts:
            raise Refusal(Code.NOT_FOUND, f"{machine.name} has hosts 0 to {machine.hosts - 1}")
        changed = machine.model_copy(update={"dead_hosts": tuple(sorted({*machine.dead_hosts, host}))})
        self.keep(changed)
        return changed

    def finished(self, api: Api, call: Call, machine: Machine) -> Operation:
        """A write that is done as soon as it is asked for."""
        return self._operation(api, call, machine, now=self.now(), failures=call.failures)

    def _run_down(self, zone: str, given: int) -> None:
        """What a zone gives now it cannot give again."""
        behaviour = self.behaviour(zone)
        if behaviour.stockout_after:
            left = max(0, behaviour.stockout_after - given)
            self.store.set_zone(zone, behaviour.model_copy(update={"stockout_after": left}))

    def _over_quota(self, orders: Sequence[Order]) -> Failure | None:
        """The quota that fails the operation, if one does; one that refuses the call is raised."""
        first = orders[0]
        behaviour, api = self.behaviour(first.zone), rules.api_of(first.kind)
        over = rules.quota_failure(
            behaviour,
            first.kind,
            self.store.machines(self.now()),
            project=first.project,
            zone=first.zone,
            variant=first.variant,
            wanted=len(orders),
        )
        if over is None or behaviour.quota is None:
            return None
        told = behaviour.quota.in_operation
        if api is Api.COMPUTE if told is None else told:
            return over
        raise wording.quota_refusal(api, over, project=first.project, zone=first.zone)

    def _stockout(self, orders: Sequence[Order], least: int | None) -> tuple[Failure, ...]:
        """Why the zone cannot give as many as it must."""
        first, now = orders[0], self.now()
        room = rules.room(self.behaviour(first.zone), first.kind, self.store.machines(now), zone=first.zone, now=now)
        if room is None or room >= (least or len(orders)) or first.waits_seconds is not None:
            return ()
        api = rules.api_of(first.kind)
        stockout = wording.no_capacity(api, project=first.project, zone=first.zone, reserved=first.reserved)
        return (stockout,) if least is None else (wording.too_few(least), stockout)

    def _machine(self, order: Order, operation: Operation | None, now: datetime, *, failed: bool = False) -> Machine:
        moments = self._moments(order.zone, now)
        return Machine(
            number=self.store.number(),
            project=order.project,
            zone=order.zone,
            name=order.name,
            created_at=now,
            kind=order.kind,
            variant=order.variant,
            hosts=order.hosts,
            spot=order.spot,
            stops_when_preempted=order.stops_when_preempted,
            body=order.body,
            operation=None if operation is None else operation.name,
            addressed_at=moments["addressed_at"],
            ready_at=moments["ready_at"],
            answering_at=moments["answering_at"],
            failed_at=moments["addressed_at"] if failed else None,
        )

    def _moments(self, zone: str, now: datetime) -> dict[str, datetime]:
        """When a machine that is let in now comes up."""
        behaviour = self.behaviour(zone)
        addressed_at = now + timedelta(seconds=behaviour.create_latency_seconds)
        booted_at = addressed_at + timedelta(seconds=behaviour.boot_latency_seconds)
        return {
            "addressed_at": addressed_at,
            "ready_at": booted_at + timedelta(seconds=behaviour.ready_lag_seconds),
            "answering_at": booted_at + timedelta(seconds=behaviour.init_latency_seconds),
        }

    def _operation(
        self,
        api: Api,
        call: Call,
        target: Order | Machine,
        *,
        now: datetime,
        failures: tuple[Failure, ...] = (),
        wanted: int | None = None,
    ) -> Operation:
        """An operation that is done at once, not stored yet."""
        number = self.store.number()
        name = f"operation-{int(now.timestamp() * 1000)}-{number:012x}"
        status = call.status or (next((wording.STATUS_OF[f.code] for f in failures if f.code in wording.STATUS_OF), 400))
        return Operation(
            number=number,
            project=target.project,
            zone=target.zone,
            name=name if api is Api.COMPUTE else f"projects/{target.project}/locations/{target.zone}/operations/{name}",
            created_at=now,
            api=api,
            verb=call.verb,
            target=link(target.key),
            done_at=now,
            failures=failures,
            status=status if failures else None,
            request_id=call.request_id,
            wanted=wanted,
        )

    def _unfinished(self, machine: Machine, why: Failure, now: datetime) -> Iterator[Operation]:
        """The operation that makes the machine, ended with the last of its machines, if it has not ended by itself."""
        making = None if machine.operation is None else self.store.operation(rules.api_of(machine.kind), machine.operation)
        others = any(
            other.operation == machine.operation and other.number != machine.number and other.gone_at is None
            for other in self.store.machines(now)
        )
        if making is not None and not making.done(now) and not others:
            yield making.model_copy(update={"done_at": now, "failures": (why,), "status": 400})

    def _free_addresses(self, now: datetime) -> Iterator[str]:
        return free_addresses({address for machine in self.store.machines(now) for address in machine.addresses})
