"""Connect, register what the server lacks, and work until told to stop."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from penstock.connection import TLS_ADVICE, connect, told_settings
from penstock.contract.addresses import DEFAULT_ADDRESS
from worker.assembly import assembled
from worker.attributes import Unregistered, register_attributes
from worker.settings import Settings

log = logging.getLogger("worker")

CONNECT_SECONDS = 10.0
"""An address that has not answered by then has nobody behind it."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, an orderly end, and a terminal that was closed."""
GUARD_SECONDS = 30.0
"""Between two looks whether every cluster's inventories run."""


class Unreachable(Exception):
    """No Temporal server takes our calls."""


def stop_event() -> asyncio.Event:
    """Set when this process is told to stop."""
    stopped = asyncio.Event()
    for kind in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(kind, stopped.set)
    return stopped


async def connected() -> Client:
    """A client of the configured server and namespace; raises `Unreachable`, or `BadConnection` if it cannot be read which."""
    told = told_settings()
    address = told.get("target_host", DEFAULT_ADDRESS)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await connect(traced=False)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except (RuntimeError, TimeoutError):
        advice = "start one, or set TEMPORAL_ADDRESS to where it is (host:port)" + (f". {TLS_ADVICE}" if told.get("tls") else "")
        raise Unreachable(f"no Temporal server answers at {address}; {advice}") from None
    except RPCError as error:
        raise Unreachable(_refusal(address, told.get("namespace", "default"), error)) from None
    return client


def _refusal(address: str, namespace: str, error: RPCError) -> str:
    if error.status == RPCStatusCode.NOT_FOUND:
        return (
            f"the Temporal server at {address} has no namespace {namespace!r}; create it, or set TEMPORAL_NAMESPACE to one it has"
        )
    if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        keys = "TEMPORAL_API_KEY, or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
        return f"the Temporal server at {address} refuses us ({error.message}); set {keys}"
    return f"the Temporal server at {address} does not take calls: {error.message}"


@asynccontextmanager
async def working(client: Client, settings: Settings) -> AsyncIterator[None]:
    """While inside, workflows and activities run in this process; on leaving, what is under way is finished first."""
    try:
        await register_attributes(client)
    except Unregistered as error:
        log.warning("%s", error)
    assembly = assembled(client, settings)
    try:
        async with assembly.worker:
            guard = asyncio.create_task(_guarding(assembly.guard))
            try:
                yield
            finally:
                guard.cancel()
                stopping = asyncio.create_task(assembly.paced.stop())
        await stopping
    finally:
        await assembly.close()


async def _guarding(guard: Callable[[], Awaitable[object]]) -> None:
    """Look after inventories for as long as the worker runs; a look that fails is told and made again."""
    while True:
        try:
            await guard()
        except Exception as error:  # Whatever it is: without this loop, an inventory that was ended by hand stays ended.
            log.warning("inventories could not be looked after (%s); again in %g s", error, GUARD_SECONDS)
        await asyncio.sleep(GUARD_SECONDS)
