"""The provider of Compute Engine: a slice is one machine, or several created together and found by a label."""

import asyncio
from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

import aiohttp
from google.cloud import compute_v1

from activities.providers.gcp import health
from activities.providers.gcp.calls import poll_times
from activities.providers.gcp.compute_api import ComputeApi, done, operation_fault
from activities.providers.gcp.compute_wire import Machine, Slice, slices_of
from activities.providers.gcp.error_codes import RETRYABLE, Meaning
from activities.providers.gcp.errors import (
    CLIENT_ERRORS,
    Fault,
    ProjectZone,
    error_of,
    failure_of,
    fault_of,
    translated,
    under_maintenance,
)
from activities.providers.gcp.machine_metadata import machine_metadata
from activities.providers.gcp.naming import CLUSTER_LABEL, HOSTS_LABEL, RESOURCE_LABEL, label_value, machine_names
from activities.providers.gcp.order_cache import OrderCache
from activities.providers.gcp.redaction import redacted
from activities.providers.gcp.settings import ComputeSettings, Connection, HealthBy, read
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
    Provider,
    Queued,
    Ref,
    Sighting,
    Transient,
    checked,
)


class ComputeProvider(Provider):
    """Compute Engine in one project. The HTTP session belongs to the caller."""

    def __init__(self, connection: Connection, session: aiohttp.ClientSession) -> None:
        self._connection = connection
        self._session = session
        self._api = ComputeApi(connection)
        self._order_cache = OrderCache(connection.project)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def close(self) -> None:
        """Release the threads; calls in progress end by themselves."""
        self._api.close()

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Insert the machines, or adopt existing ones; wait `create_wait` for an early failure of the operation."""
        settings = read(ComputeSettings, order.settings)
        metadata, secrets = machine_metadata(order, settings, self._connection)
        zone = self._zone(order.location)
        self._order_cache.remember_secrets(order, secrets)
        with redacted(secrets), translated(zone):
            async with self._turns.setdefault(order.name, asyncio.Lock()):
                # Equal request ids get equal replies, so only a listing before the insert shows whether this call creates;
                # the lock keeps concurrent calls for one order from doing both.
                if (found := await self._slice(order.ref)) is not None:
                    return _adopted(order, found)
                operation = await self._insert_once(order, settings, metadata)
            if operation is None:
                return await self._adopt(order)
            fault = await self._early_fault(operation, order, settings)
            if fault is not None and fault.meaning is Meaning.EXISTS:
                return await self._adopt(order)
            if fault is not None and fault.meaning is not Meaning.PREEMPTED:
                raise error_of(fault, zone)
            return Queued(ref=order.ref) if order.queued else Created(ref=order.ref)

    async def observe(self, ref: Ref) -> Sighting:
        """The machines of the slice, with health checks of those that run."""
        with translated(self._zone(ref.location)):
            found = await self._find(ref)
            if isinstance(found, Sighting):
                return found
            hosts = await self._hosts(found)
        return _observation(found, hosts)

    async def list(self, location: str, *, cluster: str) -> Listing:
        """The slices whose machines carry the cluster's label and name the cluster in their metadata."""
        wanted = f"labels.{CLUSTER_LABEL} = {label_value(cluster)} AND labels.{HOSTS_LABEL}:*"
        with translated(self._zone(location)):
            machines, complete = await self._api.machines(location, wanted)
            slices = slices_of(machines, location, await self._being_deleted(machines, location))
        ours = [found for found in slices if found.ref.labels.cluster == cluster]
        items = [_observation(found, found.hosts) for found in ours]
        return Listing(items=tuple(items), complete=complete)

    async def mislabelled(self, location: str, *, cluster: str) -> tuple[str, ...]:
        """Names of machines with the cluster's label whose other labels and metadata do not agree."""
        wanted = f"labels.{CLUSTER_LABEL} = {label_value(cluster)} AND labels.{RESOURCE_LABEL}:*"
        with translated(self._zone(location)):
            machines, _ = await self._api.machines(location, wanted)
        return tuple(sorted(str(machine.pb.name) for machine in machines if machine.owner is None))

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete every machine that is not stopping. Stopping ones, and ones not shown yet, are left to the next call."""
        with translated(self._zone(ref.location)):
            found = await self._find(ref)
            if isinstance(found, Sighting):
                return Gone(ref=ref) if found.phase is Phase.GONE else Deleting(ref=ref)
            ending = [self._api.delete(machine, ref.location) for machine in found.machines if not machine.stopping]
            for outcome in await asyncio.gather(*ending, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        return Deleting(ref=ref)

    async def _insert_once(
        self, order: Order, settings: ComputeSettings, metadata: Mapping[str, str]
    ) -> compute_v1.Operation | None:
        """The operation that creates the machines; None if their names are taken.

        For a used request id, the cloud returns the old operation. If that one failed for a transient reason, use the next id.
        """
        operation = None
        for request_id in self._order_cache.request_ids(order):
            try:
                operation = await self._api.insert(order, settings, metadata, request_id=request_id)
            except CLIENT_ERRORS as error:
                if fault_of(error).meaning is Meaning.EXISTS:
                    return None
                raise
            fault = operation_fault(operation)
            if fault is None or fault.meaning not in RETRYABLE:
                return operation
        return operation

    async def _adopt(self, order: Order) -> Adopted | Queued:
        if (found := await self._slice(order.ref)) is not None:
            return _adopted(order, found)
        for name in machine_names(order.ref, order.hosts):
            if (holder := await self._api.machine(name, order.location)) is not None and holder.owner != order.labels:
                raise Conflict(f"{name} in {order.location} is a machine without the labels of slice {order.slice}")
        raise Transient(f"{order.name} existed and is no longer listed; repeat the create")

    async def _early_fault(self, operation: compute_v1.Operation, order: Order, settings: ComputeSettings) -> Fault | None:
        """The fault of an operation that fails within `create_wait`."""
        seen = operation
        async for _ in poll_times(settings.create_wait_seconds):
            if done(seen) or (order.queued and await self._slice(order.ref) is not None):
                return operation_fault(seen)
            try:
                seen = await self._api.operation(operation.name, order.location)
            except CLIENT_ERRORS:
                continue
        return operation_fault(seen)

    async def _find(self, ref: Ref) -> Slice | Sighting:
        """The slice; if it has no machines, a sighting by its create operation: being created, or gone with the failure.

        If that operation succeeded, list again: the machines may be newer than the listing.
        """
        if (found := await self._slice(ref)) is not None:
            return found
        creation = await self._creation(ref)
        if creation is not None and not done(creation):
            return Sighting(ref=ref, phase=Phase.CREATING)
        if creation is None or (fault := operation_fault(creation)) is None:
            found = None if creation is None else await self._slice(ref)
            return found or Sighting(ref=ref, phase=Phase.GONE)
        failure = failure_of(self._order_cache.redacted_fault(ref, fault), self._zone(ref.location))
        return Sighting(ref=ref, phase=Phase.GONE, failure=failure)

    async def _creation(self, ref: Ref) -> compute_v1.Operation | None:
        """The last operation that creates the slice; None without one, or without the permission to list operations."""
        ids = self._order_cache.all_request_ids(ref)
        wanted = " OR ".join(f'(clientOperationId = "{one}")' for one in ids)
        operations = await self._api.operations(ref.location, wanted)
        return max(operations, key=lambda operation: ids.index(operation.client_operation_id), default=None)

    async def _slice(self, ref: Ref) -> Slice | None:
        """The existing machines of the slice that are ours; None without any."""
        machines, complete = await self._api.machines(ref.location, f"labels.{RESOURCE_LABEL} = {ref.name}")
        if not complete:
            raise Transient(f"the listing of {ref.location} is incomplete, so whether {ref.name} exists is unknown")
        being_deleted = await self._being_deleted(machines, ref.location)
        return next((found for found in slices_of(machines, ref.location, being_deleted) if found.ref == ref), None)

    async def _being_deleted(self, machines: Sequence[Machine], location: str) -> frozenset[str]:
        """Links of the machines whose deletion is in progress; read only if a stopping machine might also be preempted."""
        if not any(machine.stopping and machine.stopped_by_google for machine in machines):
            return frozenset()
        wanted = 'operationType = "delete" AND status != "DONE"'
        return frozenset(operation.target_link for operation in await self._api.operations(location, wanted))

    async def _hosts(self, found: Slice) -> tuple[Host, ...]:
        """The hosts after their health checks. A missing machine of a running slice is a host that did not answer."""
        hosts = found.hosts
        if found.phase not in (Phase.CREATING, Phase.BOOTING, Phase.RUNNING):
            return hosts
        connection = self._health_settings(found)
        if connection.health is HealthBy.GUEST_ATTRIBUTES:
            hosts = tuple(await asyncio.gather(*(self._check_guest(host, found.ref) for host in hosts)))
        else:
            hosts = await health.check(hosts, connection, self._session)
        if found.phase is not Phase.RUNNING:
            return hosts
        existing = {machine.pb.name for machine in found.machines}
        return tuple(host if host.name in existing else checked(host, None) for host in hosts)

    def _health_settings(self, found: Slice) -> Connection:
        return self._connection.with_health_settings(found.machines[0].health_metadata)

    async def _check_guest(self, host: Host, ref: Ref) -> Host:
        """The host after a check of its guest attributes, which workers can read without a connection to it."""
        if not host.address:
            return host
        return checked(host, await self._api.guest_answer(host.name, ref.location))

    def _zone(self, location: str) -> ProjectZone:
        return ProjectZone(self._connection.project, location)


def _adopted(order: Order, found: Slice) -> Adopted | Queued:
    return Queued(ref=order.ref) if found.phase is Phase.QUEUED else Adopted(ref=order.ref)


def _observation(found: Slice, hosts: tuple[Host, ...]) -> Sighting:
    failure, maintained = None, [str(machine.pb.name) for machine in found.machines if machine.maintained]
    if maintained and found.phase in (Phase.RUNNING, Phase.FAILED):
        failure = under_maintenance(", ".join(maintained))
    elif found.phase is Phase.FAILED:
        stopped = [machine.pb.name for machine in found.machines if machine.phase(found.being_deleted) is Phase.FAILED]
        failure = Failure(kind=FailureKind.HOST_LOST, message=f"stopped by hand or at the end of its run: {', '.join(stopped)}")
    return Sighting(ref=found.ref, phase=found.phase, hosts=hosts, created_at=found.created_at, failure=failure)
