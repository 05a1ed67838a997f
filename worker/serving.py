"""Run a worker: connect, register search attributes, serve tasks, and stop in order on a signal."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from penstock.connection import TLS_ADVICE, connect, connect_settings
from worker.activations import ACTIVATIONS
from worker.assembly import assembled
from worker.settings import Settings

log = logging.getLogger("worker")

CONNECT_SECONDS = 10.0
"""How long a server may take to answer."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, an orderly stop, and a closed terminal."""
STUCK_CHECK_SECONDS = 1.0
"""Between two checks that no workflow activation is stuck."""
GUARD_SECONDS = 30.0
"""Between two checks of search attributes, of autoscalers that the server ended, and of inventories."""


class Unreachable(Exception):
    """No Temporal server takes this worker's calls."""


def stop_signal() -> "asyncio.Future[signal.Signals]":
    """A future that holds the first stop signal that this process gets."""
    loop = asyncio.get_running_loop()
    stopped = loop.create_future()

    def stop(kind: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(kind)

    for kind in STOP_SIGNALS:
        loop.add_signal_handler(kind, stop, kind)
    return stopped


async def connected() -> Client:
    """A client of the configured server and namespace; raises `Unreachable`, or `BadConnection` if the settings are unusable."""
    settings = connect_settings()
    address = settings["target_host"]
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await connect(traced=False)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except (RuntimeError, TimeoutError):
        advice = "start one, or set TEMPORAL_ADDRESS to where it is (host:port)" + (
            f". {TLS_ADVICE}" if settings.get("tls") else ""
        )
        raise Unreachable(f"no Temporal server answers at {address}; {advice}") from None
    except RPCError as error:
        raise Unreachable(_refusal(address, settings.get("namespace", "default"), error)) from None
    return client


def _refusal(address: str, namespace: str, error: RPCError) -> str:
    if error.status == RPCStatusCode.NOT_FOUND:
        return (
            f"the Temporal server at {address} has no namespace {namespace!r}; create it, or set TEMPORAL_NAMESPACE to one it has"
        )
    if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        keys = "TEMPORAL_API_KEY, or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
        return f"the Temporal server at {address} refuses this worker ({error.message}); set {keys}"
    return f"the Temporal server at {address} does not take calls: {error.message}"


@asynccontextmanager
async def working(client: Client, settings: Settings) -> AsyncIterator[None]:
    """Run workflows and activities inside the context; on leaving, finish the activities in flight first."""
    assembly = assembled(client, settings)
    await assembly.guards["search attributes"]()
    try:
        async with assembly.own, assembly.watches, assembly.worker:
            guards = [asyncio.create_task(_guarding(name, guard)) for name, guard in assembly.guards.items()]
            try:
                yield
            finally:
                for guard in guards:
                    guard.cancel()
                stopping = asyncio.create_task(assembly.paced.stop())
        await stopping
    finally:
        await assembly.close()


async def watch_activations() -> NoReturn:
    """Raise `Stuck` once a workflow activation of this process is stuck."""
    while True:
        ACTIVATIONS.check()
        await asyncio.sleep(STUCK_CHECK_SECONDS)


async def _guarding(name: str, guard: Callable[[], Awaitable[object]]) -> None:
    """Repeat a check for as long as the worker runs; one that failed is logged and repeated."""
    while True:
        try:
            await guard()
        except Exception as error:  # Any error: without this loop, what an operator or the server terminated would stay down.
            log.warning("%s could not be checked (%s); trying again in %g s", name, error, GUARD_SECONDS)
        await asyncio.sleep(GUARD_SECONDS)
