"""Compute Engine as a provider: a slice is one machine, or several that are ordered together and found by a label."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import aiohttp
from google.api_core import exceptions as api
from google.cloud import compute_v1

from activities.providers.gcp import compute_wire, health
from activities.providers.gcp.calls import CALL_SECONDS, looks
from activities.providers.gcp.codes import PASSING, Meaning
from activities.providers.gcp.compute_clients import Clients, open_clients
from activities.providers.gcp.compute_wire import Machine, Slice, slices_of
from activities.providers.gcp.errors import (
    CAUGHT,
    Fault,
    Place,
    error_of,
    failure_of,
    fault_of,
    fault_of_errors,
    is_denied,
    translated,
    under_maintenance,
)
from activities.providers.gcp.naming import CLUSTER_LABEL, HOSTS_LABEL, RESOURCE_LABEL, label_value, machine_names
from activities.providers.gcp.placed import Placed
from activities.providers.gcp.quoting import unspoken
from activities.providers.gcp.settings import ComputeSettings, Connection, HealthBy, read
from activities.providers.gcp.startup import told
from activities.providers.port import (
    Adopted,
    Conflict,
    Created,
    Deleting,
    Failure,
    FailureKind,
    Gone,
    Host,
    Listing,
    Order,
    Phase,
    Queued,
    Ref,
    Sighting,
    Transient,
)

T = TypeVar("T")

_THREADS = 8
"""Calls at once: a client keeps ten connections."""
_EMPTY_PAGE = "NO_RESULTS_ON_PAGE"
_CANCELLED = "OPERATION_CANCELED_BY_USER"


class ComputeProvider:
    """Keeps the promises of `Provider` for one project; the session belongs to the caller, clients and threads to this."""

    def __init__(self, connection: Connection, session: aiohttp.ClientSession) -> None:
        self._connection = connection
        self._session = session
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="compute")
        self._opened: Clients | None = None
        self._placed = Placed(connection.project)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def close(self) -> None:
        """Give the threads back; calls under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Order the machines, wait a little for the order to fail, and adopt what exists."""
        settings = read(ComputeSettings, order.settings)
        metadata, secrets = told(order, settings, self._connection)
        place = self._place(order.location)
        self._placed.told(order, secrets)
        with unspoken(secrets), translated(place):
            async with self._turns.setdefault(order.name, asyncio.Lock()):
                # Equal request ids give equal replies, so who made it is told by looking first, one caller at a time.
                if (found := await self._slice(order.ref)) is not None:
                    return _adopted(order, found)
                begun = await self._ordered(order, partial(self._insert, order, settings, metadata))
            if begun is None:
                return await self._adopt(order)
            fault = await self._early_fault(begun, order, settings)
            if fault is not None and fault.meaning is Meaning.EXISTS:
                return await self._adopt(order)
            if fault is not None and fault.meaning is not Meaning.PREEMPTED:
                raise error_of(fault, place)
            return Queued(ref=order.ref) if order.queued else Created(ref=order.ref)

    async def observe(self, ref: Ref) -> Sighting:
        """Look at all the machines, and ask those that are up for their health."""
        with translated(self._place(ref.location)):
            found = await self._looked_for(ref)
            if isinstance(found, Sighting):
                return found
            hosts = await self._hosts(found)
        return _observation(found, hosts)

    async def list(self, location: str, *, cluster: str) -> Listing:
        """What carries the cluster's label and says the same in its metadata."""
        wanted = f"labels.{CLUSTER_LABEL} = {label_value(cluster)} AND labels.{HOSTS_LABEL}:*"
        with translated(self._place(location)):
            machines, complete = await self._machines(location, wanted)
            slices = slices_of(machines, location, await self._being_deleted(machines, location))
        ours = [found for found in slices if found.ref.labels.cluster == cluster]
        items = [_observation(found, tuple(Host(address=address) for address in self._addresses(found))) for found in ours]
        return Listing(items=tuple(items), complete=complete)

    async def strays(self, location: str, *, cluster: str) -> tuple[str, ...]:
        """Names of machines that carry the cluster's label and are yet nobody's: labels or metadata were changed by hand."""
        wanted = f"labels.{CLUSTER_LABEL} = {label_value(cluster)} AND labels.{RESOURCE_LABEL}:*"
        with translated(self._place(location)):
            machines, _ = await self._machines(location, wanted)
        return tuple(sorted(str(machine.sent.name) for machine in machines if machine.owner is None))

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete every machine that is not on its way out; what is stopping or not shown yet is deleted once that is over."""
        with translated(self._place(ref.location)):
            found = await self._looked_for(ref)
            if isinstance(found, Sighting):
                return Gone(ref=ref) if found.phase is Phase.GONE else Deleting(ref=ref)
            ending = [self._delete(machine, ref.location) for machine in found.machines if not machine.stopping]
            for outcome in await asyncio.gather(*ending, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        return Deleting(ref=ref)

    async def _ordered(self, order: Order, insert: Callable[[str, Clients], compute_v1.Operation]) -> compute_v1.Operation | None:
        """The operation that makes the machines, or None if their names are taken.

        One that failed for a passing reason before this call is given again for its request id: then the next id is tried.
        """
        begun = None
        for repeatable in self._placed.request_ids(order):
            try:
                begun = await self._call(partial(insert, repeatable))
            except CAUGHT as error:
                if fault_of(error).meaning is Meaning.EXISTS:
                    return None
                raise
            fault = _operation_fault(begun)
            if fault is None or fault.meaning not in PASSING:
                return begun
        return begun

    def _insert(
        self, order: Order, settings: ComputeSettings, metadata: dict[str, str], repeatable: str, clients: Clients
    ) -> compute_v1.Operation:
        where = {"project": self._connection.project, "zone": order.location}
        if order.hosts == 1:
            machine = compute_wire.instance_of(order, settings, metadata)
            single = compute_v1.InsertInstanceRequest(**where, instance_resource=machine, request_id=repeatable)
            return clients.instances.insert_unary(single, timeout=CALL_SECONDS)
        bulk = compute_wire.bulk_of(order, settings, metadata)
        several = compute_v1.BulkInsertInstanceRequest(
            **where, bulk_insert_instance_resource_resource=bulk, request_id=repeatable
        )
        return clients.instances.bulk_insert_unary(several, timeout=CALL_SECONDS)

    async def _adopt(self, order: Order) -> Adopted | Queued:
        if (found := await self._slice(order.ref)) is not None:
            return _adopted(order, found)
        for name in machine_names(order.ref, order.hosts):
            if (holder := await self._machine(name, order.location)) is not None and holder.owner != order.labels:
                raise Conflict(f"{name} is taken in {order.location} by something without the labels of slice {order.slice}")
        raise Transient(f"{order.name} existed and is not to be seen; create it again")

    async def _machine(self, name: str, location: str) -> Machine | None:
        request = compute_v1.GetInstanceRequest(project=self._connection.project, zone=location, instance=name)
        try:
            return Machine(await self._call(lambda clients: clients.instances.get(request, timeout=CALL_SECONDS, retry=None)))
        except api.NotFound:
            return None

    async def _early_fault(self, begun: compute_v1.Operation, order: Order, settings: ComputeSettings) -> Fault | None:
        """What the operation failed of, if it did so soon."""
        request = compute_v1.GetZoneOperationRequest(project=self._connection.project, zone=order.location, operation=begun.name)
        seen = begun
        async for _ in looks(settings.create_wait_seconds):
            if _done(seen) or (order.queued and await self._slice(order.ref) is not None):
                return _operation_fault(seen)
            try:
                seen = await self._call(lambda clients: clients.operations.get(request, timeout=CALL_SECONDS, retry=None))
            except CAUGHT:
                continue
        return _operation_fault(seen)

    async def _looked_for(self, ref: Ref) -> Slice | Sighting:
        """The slice; or, if none of its machines is shown, that it is being created or gone, with why its creation failed.

        Only the operation knows either. One that came true is looked for again: its machines may be younger than the look.
        """
        if (found := await self._slice(ref)) is not None:
            return found
        making = await self._making(ref)
        if making is not None and not _done(making):
            return Sighting(ref=ref, phase=Phase.CREATING)
        if making is None or (fault := _operation_fault(making)) is None:
            found = None if making is None else await self._slice(ref)
            return found or Sighting(ref=ref, phase=Phase.GONE)
        failure = failure_of(self._placed.spoken(ref, fault), self._place(ref.location))
        return Sighting(ref=ref, phase=Phase.GONE, failure=failure)

    async def _making(self, ref: Ref) -> compute_v1.Operation | None:
        """The last operation that was to make the slice, if one is known; none is to who may not list them."""
        ids = self._placed.all_request_ids(ref)
        wanted = " OR ".join(f'(clientOperationId = "{one}")' for one in ids)
        request = compute_v1.ListZoneOperationsRequest(project=self._connection.project, zone=ref.location, filter=wanted)
        operations = await self._operations(request)
        return max(operations, key=lambda operation: ids.index(operation.client_operation_id), default=None)

    async def _slice(self, ref: Ref) -> Slice | None:
        """The machines of the slice, if any exist and are ours."""
        machines, complete = await self._machines(ref.location, f"labels.{RESOURCE_LABEL} = {ref.name}")
        if not complete:
            raise Transient(f"{ref.location} cannot be seen whole, so whether {ref.name} exists is unknown")
        being_deleted = await self._being_deleted(machines, ref.location)
        return next((found for found in slices_of(machines, ref.location, being_deleted) if found.ref == ref), None)

    async def _machines(self, location: str, wanted: str) -> tuple[Sequence[Machine], bool]:
        """The machines that the filter lets through, and whether that is all of them."""
        request = compute_v1.ListInstancesRequest(project=self._connection.project, zone=location, filter=wanted)
        found = await self._call(lambda clients: tuple(clients.instances.list(request, timeout=CALL_SECONDS, retry=None).pages))
        complete = all(_said(page) in ("", _EMPTY_PAGE) for page in found)
        return [Machine(instance) for page in found for instance in page.items], complete

    async def _being_deleted(self, machines: Sequence[Machine], location: str) -> frozenset[str]:
        """Links of the machines whose deletion is under way: asked only if a stopping one might as well be preempted."""
        if not any(machine.stopping and machine.taken_back for machine in machines):
            return frozenset()
        wanted = 'operationType = "delete" AND status != "DONE"'
        request = compute_v1.ListZoneOperationsRequest(project=self._connection.project, zone=location, filter=wanted)
        return frozenset(operation.target_link for operation in await self._operations(request))

    async def _operations(self, request: compute_v1.ListZoneOperationsRequest) -> Sequence[compute_v1.Operation]:
        """Those that the filter lets through; none for who may not list them."""
        try:
            return await self._call(lambda clients: tuple(clients.operations.list(request, timeout=CALL_SECONDS, retry=None)))
        except api.Forbidden as error:
            if not is_denied(error):
                raise
            return ()

    async def _delete(self, machine: Machine, location: str) -> None:
        request = compute_v1.DeleteInstanceRequest(project=self._connection.project, zone=location, instance=machine.sent.name)
        try:
            await self._call(lambda clients: clients.instances.delete_unary(request, timeout=CALL_SECONDS))
        except api.NotFound:
            return

    async def _hosts(self, found: Slice) -> tuple[Host, ...]:
        """The hosts as they answer; a machine that is missing is silent."""
        addresses = self._addresses(found)
        if found.phase not in (Phase.CREATING, Phase.BOOTING, Phase.RUNNING):
            return tuple(Host(address=address) for address in addresses)
        asking = self._asking(found)
        if asking.health is HealthBy.GUEST_ATTRIBUTES:
            guests = zip(found.places, addresses, strict=True)
            answered = await asyncio.gather(*(self._guest(machine, address, found.ref) for machine, address in guests))
        else:
            answered = list(await health.ask(addresses, asking, self._session))
        alone = found.phase is Phase.RUNNING
        return tuple(
            Host(asked=True) if machine is None and alone else host for machine, host in zip(found.places, answered, strict=True)
        )

    def _asking(self, found: Slice) -> Connection:
        return self._connection.asking(found.machines[0].health_said)

    def _addresses(self, found: Slice) -> tuple[str | None, ...]:
        reach = self._asking(found).reach
        return tuple(None if machine is None else machine.address(reach) for machine in found.places)

    async def _guest(self, machine: Machine | None, address: str | None, ref: Ref) -> Host:
        """What a machine wrote about itself, for workers without a route to it."""
        if machine is None or address is None:
            return Host()
        request = compute_v1.GetGuestAttributesInstanceRequest(
            project=self._connection.project,
            zone=ref.location,
            instance=machine.sent.name,
            query_path=f"{health.GUEST_NAMESPACE}/{health.GUEST_KEY}",
        )
        try:
            reply = await self._call(
                lambda clients: clients.instances.get_guest_attributes(request, timeout=CALL_SECONDS, retry=None)
            )
        except api.NotFound:
            return Host(address=address, asked=True)
        return Host(address=address, asked=True, answered=health.said(reply.query_value.items))

    async def _call(self, call: Callable[[Clients], T]) -> T:
        """The clients block, also when they are opened, so they are called in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(self._clients))

    @property
    def _clients(self) -> Clients:
        if self._opened is None:
            self._opened = open_clients(self._connection.endpoint)
        return self._opened

    def _place(self, location: str) -> Place:
        return Place(self._connection.project, location)


def _said(page: Any) -> str:
    """The code of what a page warns of, if anything: that a zone was not reached, for one."""
    return str(page.warning.code)


def _adopted(order: Order, found: Slice) -> Adopted | Queued:
    return Queued(ref=order.ref) if found.phase is Phase.QUEUED else Adopted(ref=order.ref)


def _observation(found: Slice, hosts: tuple[Host, ...]) -> Sighting:
    failure, maintained = None, [str(machine.sent.name) for machine in found.machines if machine.maintained]
    if maintained and found.phase in (Phase.RUNNING, Phase.FAILED):
        failure = under_maintenance(", ".join(maintained))
    elif found.phase is Phase.FAILED:
        stopped = [machine.sent.name for machine in found.machines if machine.phase(found.being_deleted) is Phase.FAILED]
        failure = Failure(kind=FailureKind.HOST_LOST, message=f"stopped, by hand or at the end of its run: {', '.join(stopped)}")
    return Sighting(ref=found.ref, phase=found.phase, hosts=hosts, created_at=found.created_at, failure=failure)


def _done(operation: compute_v1.Operation) -> bool:
    return operation.status == compute_v1.Operation.Status.DONE


def _operation_fault(operation: compute_v1.Operation) -> Fault | None:
    """Why it failed, if it did; one that was cancelled because its machine was deleted did as it was told."""
    if not _done(operation) or any(error.code == _CANCELLED for error in operation.error.errors):
        return None
    return fault_of_errors(operation.error.errors, http=operation.http_error_status_code)
