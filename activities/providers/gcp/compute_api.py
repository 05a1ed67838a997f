"""Calls to the Compute API of one project: machines, their guest attributes, and operations."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from google.api_core import exceptions as api
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

from activities.providers.gcp import compute_wire, health
from activities.providers.gcp.calls import CALL_SECONDS, keep_requests_out_of_logs
from activities.providers.gcp.compute_wire import Machine
from activities.providers.gcp.credentials import find_credentials
from activities.providers.gcp.errors import Fault, fault_of_errors, is_denied
from activities.providers.gcp.settings import ComputeSettings, Connection
from activities.providers.port import Order

T = TypeVar("T")

_THREADS = 8
"""Concurrent calls: a client keeps ten connections."""
_EMPTY_PAGE = "NO_RESULTS_ON_PAGE"
_CANCELLED = "OPERATION_CANCELED_BY_USER"


class _Clients(NamedTuple):
    """Clients of instances and operations. The operations client inside a future would ignore the endpoint."""

    instances: compute_v1.InstancesClient
    operations: compute_v1.ZoneOperationsClient


class ComputeApi:
    """The Compute API of one project. Google's clients block, so threads open and call them; errors are Google's."""

    def __init__(self, connection: Connection) -> None:
        self._project = connection.project
        self._endpoint = connection.endpoint
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="compute")
        self._opened: _Clients | None = None

    def close(self) -> None:
        """Release the threads; calls in progress end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def insert(
        self, order: Order, settings: ComputeSettings, metadata: Mapping[str, str], *, request_id: str
    ) -> compute_v1.Operation:
        """Create the machines of an order, once for each request id."""
        where = {"project": self._project, "zone": order.location, "request_id": request_id}
        if order.hosts == 1:
            machine = compute_wire.instance_of(order, settings, metadata)
            single = compute_v1.InsertInstanceRequest(**where, instance_resource=machine)
            return await self._call(lambda clients: clients.instances.insert_unary(single, timeout=CALL_SECONDS))
        bulk = compute_wire.bulk_of(order, settings, metadata)
        several = compute_v1.BulkInsertInstanceRequest(**where, bulk_insert_instance_resource_resource=bulk)
        return await self._call(lambda clients: clients.instances.bulk_insert_unary(several, timeout=CALL_SECONDS))

    async def delete(self, machine: Machine, location: str) -> None:
        """Delete a machine; no error if it does not exist."""
        request = compute_v1.DeleteInstanceRequest(project=self._project, zone=location, instance=machine.pb.name)
        try:
            await self._call(lambda clients: clients.instances.delete_unary(request, timeout=CALL_SECONDS))
        except api.NotFound:
            return

    async def machine(self, name: str, location: str) -> Machine | None:
        """The machine with the name, ours or not; None without one."""
        request = compute_v1.GetInstanceRequest(project=self._project, zone=location, instance=name)
        try:
            return Machine(await self._call(lambda clients: clients.instances.get(request, timeout=CALL_SECONDS, retry=None)))
        except api.NotFound:
            return None

    async def machines(self, location: str, wanted: str) -> tuple[Sequence[Machine], bool]:
        """The machines that match the filter, and whether the listing is complete."""
        request = compute_v1.ListInstancesRequest(project=self._project, zone=location, filter=wanted)
        found = await self._call(lambda clients: tuple(clients.instances.list(request, timeout=CALL_SECONDS, retry=None).pages))
        complete = all(_warning(page) in ("", _EMPTY_PAGE) for page in found)
        return [Machine(instance) for page in found for instance in page.items], complete

    async def guest_answer(self, name: str, location: str) -> str | None:
        """The slice id that a machine wrote into its guest attributes; None without one."""
        request = compute_v1.GetGuestAttributesInstanceRequest(
            project=self._project,
            zone=location,
            instance=name,
            query_path=f"{health.GUEST_NAMESPACE}/{health.GUEST_KEY}",
        )
        try:
            reply = await self._call(
                lambda clients: clients.instances.get_guest_attributes(request, timeout=CALL_SECONDS, retry=None)
            )
        except api.NotFound:
            return None
        return health.slice_id_in(reply.query_value.items)

    async def operation(self, name: str, location: str) -> compute_v1.Operation:
        """The current state of an operation."""
        request = compute_v1.GetZoneOperationRequest(project=self._project, zone=location, operation=name)
        return await self._call(lambda clients: clients.operations.get(request, timeout=CALL_SECONDS, retry=None))

    async def operations(self, location: str, wanted: str) -> Sequence[compute_v1.Operation]:
        """The operations that match the filter; none without the permission to list them."""
        request = compute_v1.ListZoneOperationsRequest(project=self._project, zone=location, filter=wanted)
        try:
            return await self._call(lambda clients: tuple(clients.operations.list(request, timeout=CALL_SECONDS, retry=None)))
        except api.Forbidden as error:
            if not is_denied(error):
                raise
            return ()

    async def _call(self, call: Callable[[_Clients], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(self._clients))

    @property
    def _clients(self) -> _Clients:
        if self._opened is None:
            self._opened = _open_clients(self._endpoint)
        return self._opened


def _open_clients(endpoint: str | None) -> _Clients:
    """Clients of Google with the worker's credentials, or of an emulator without any."""
    keep_requests_out_of_logs()
    if endpoint is None:
        found = find_credentials()
        return _Clients(compute_v1.InstancesClient(credentials=found), compute_v1.ZoneOperationsClient(credentials=found))
    anonymous, options = AnonymousCredentials(), ClientOptions(api_endpoint=endpoint)  # type: ignore[no-untyped-call]
    return _Clients(
        compute_v1.InstancesClient(credentials=anonymous, client_options=options),
        compute_v1.ZoneOperationsClient(credentials=anonymous, client_options=options),
    )


def _warning(page: Any) -> str:
    """The code of a page's warning, such as an unreachable zone; empty without one."""
    return str(page.warning.code)


def done(operation: compute_v1.Operation) -> bool:
    """Whether an operation has ended, in whatever way."""
    return operation.status == compute_v1.Operation.Status.DONE


def operation_fault(operation: compute_v1.Operation) -> Fault | None:
    """Why an operation failed; None if it did not, or was cancelled because its machine was deleted."""
    if not done(operation) or any(error.code == _CANCELLED for error in operation.error.errors):
        return None
    return fault_of_errors(operation.error.errors, http=operation.http_error_status_code)
