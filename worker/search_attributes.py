"""Register Penstock's search attributes with the Temporal server, if the worker is permitted to."""

import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from penstock.contract.names import SEARCH_ATTRIBUTES

log = logging.getLogger("worker")


class Unregistered(Exception):
    """Search attributes are missing and this worker may not add them; the message has the fix."""


class SearchAttributes:
    """Keeps the search attributes registered: a server that lost its data lacks them, and no cluster can be started there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._advised = False

    async def keep(self) -> None:
        """Register what is missing. A worker that may not logs the advice once."""
        try:
            added = await register_attributes(self._client)
        except Unregistered as error:
            if not self._advised:
                log.warning("%s", error)
            self._advised = True
            return
        if added:
            log.info("registered search attributes in namespace %s: %s", self._client.namespace, ", ".join(added))


async def register_attributes(client: Client) -> tuple[str, ...]:
    """Add the search attributes that the namespace lacks; returns their names. Raises `Unregistered`."""
    service, namespace = client.operator_service, client.namespace
    try:
        listed = await service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace))
        missing = tuple(name for name in SEARCH_ATTRIBUTES if name not in listed.custom_attributes)
        if missing:
            wanted = dict.fromkeys(missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD)
            await service.add_search_attributes(AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted))
    except RPCError as error:
        if error.status == RPCStatusCode.ALREADY_EXISTS:  # Another worker was faster.
            return ()
        raise Unregistered(_advice(namespace, error)) from error
    return missing


def _advice(namespace: str, error: RPCError) -> str:
    names = ", ".join(SEARCH_ATTRIBUTES)
    return (
        f"search attributes could not be registered in namespace {namespace} ({error.message}); "
        f"if they are missing, add them as keywords ({names}), in Temporal Cloud in the namespace's settings"
    )
