"""The servers around an embedded worker: Temporal, and the clouds that its cluster's groups are created in."""

import asyncio
import socket
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from activities.providers.gcp import factory as gcp
from activities.providers.local import LOCAL_TOKEN_FILE, LOCAL_URL
from activities.providers.sim import SIM_URL
from emulators.local.__main__ import TOKEN_FILE
from penstock.contract.addresses import GOOGLE_PORTS, LOCAL_PORT, SIM_PORT
from penstock.model.cluster import ClusterConfig
from worker.children import Child, StartFailed
from worker.devserver import Executable, server_command
from worker.home import Home
from worker.ports import LOOPBACK, free_port

RETENTION = timedelta(days=30)
"""How long the server keeps what has ended: long enough to ask what became of last month's slices."""
READY_SECONDS = 60.0
"""A server that does not take calls by then is not going to."""
_POLL_SECONDS = 0.02
_NAMESPACE = "default"


class Surrounding(NamedTuple):
    """One server process: what people call it, where it listens, and what the worker must know to use it."""

    child: Child
    port: int
    told: Mapping[str, str]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{LOOPBACK}:{self.port}"

    async def ready(self) -> None:
        """Return when it takes calls; raises `StartFailed` or `Ended`."""
        await _until_listening(self.child, self.port)


def temporal_server(home: Home, executable: Executable, *, port: int, ui_port: int) -> Surrounding:
    """The Temporal server with its UI, on the home's database."""
    command = server_command(executable.path, port=port, ui_port=ui_port, database=home.temporal_database)
    return Surrounding(Child("Temporal server", command, log=home.log("temporal")), port, {})


def clouds(home: Home, config: ClusterConfig, *, scenario: Path | None, emulated: bool = False) -> list[Surrounding]:
    """What the providers of the cluster's groups need on this machine; `emulated` if Google is to be there too."""
    kinds = {group.provider.kind for group in config.groups}
    found = []
    if "sim" in kinds:
        found.append(_simulated_cloud(home, scenario))
    if "local" in kinds:
        found.append(_local_hosts(home))
    if emulated and not kinds.isdisjoint(gcp.KINDS):
        found.append(_google(home))
    return found


def _simulated_cloud(home: Home, scenario: Path | None) -> Surrounding:
    port = free_port(SIM_PORT)
    arguments = ["--database", str(home.cloud_database)]
    arguments += [] if scenario is None else ["--scenario", str(scenario)]
    return _emulator(home, "simulated cloud", "emulators.sim", port=port, arguments=arguments, variable=SIM_URL)


def _local_hosts(home: Home) -> Surrounding:
    port = free_port(LOCAL_PORT)
    arguments = ["--state", str(home.local_hosts), "--stop-hosts"]
    found = _emulator(home, "local hosts", "emulators.local", port=port, arguments=arguments, variable=LOCAL_URL)
    return found._replace(told={**found.told, LOCAL_TOKEN_FILE: str(home.local_hosts / TOKEN_FILE)})


def _google(home: Home) -> Surrounding:
    port, grpc_port, health_port = (free_port(preferred) for preferred in GOOGLE_PORTS)
    arguments = ["--database", str(home.google_database), "--grpc-port", str(grpc_port), "--health-port", str(health_port)]
    found = _emulator(home, "Google emulator", "emulators.gcp", port=port, arguments=arguments, variable=gcp.ENDPOINT)
    more = {gcp.TPU_ENDPOINT: f"{LOOPBACK}:{grpc_port}", gcp.HEALTH_PORT: str(health_port)}
    return found._replace(told={**found.told, **more})


def _emulator(home: Home, name: str, module: str, *, port: int, arguments: Sequence[str], variable: str) -> Surrounding:
    command = [sys.executable, "-m", module, "--port", str(port), *arguments]
    return Surrounding(Child(name, command, log=home.log(name.replace(" ", "-"))), port, {variable: f"http://{LOOPBACK}:{port}"})


async def connected_to(server: Surrounding) -> Client:
    """A client of the server once it takes calls, with histories kept for as long as we want; raises `StartFailed` or `Ended`."""
    await server.ready()
    try:
        async with asyncio.timeout(READY_SECONDS):
            return await _client_of_namespace(server)
    except TimeoutError:
        raise StartFailed(_silence(server.child)) from None


async def _client_of_namespace(server: Surrounding) -> Client:
    """The server listens before its namespace is there."""
    while True:
        try:
            client = await Client.connect(
                f"{LOOPBACK}:{server.port}", namespace=_NAMESPACE, data_converter=pydantic_data_converter
            )
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=_NAMESPACE))
            keep = Duration(seconds=int(RETENTION.total_seconds()))
            config = NamespaceConfig(workflow_execution_retention_ttl=keep)
            await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=_NAMESPACE, config=config))
            return client
        except (RuntimeError, RPCError):
            server.child.check_alive()
            await asyncio.sleep(_POLL_SECONDS)


async def _until_listening(child: Child, port: int) -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not _listens(port):
                child.check_alive()
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StartFailed(_silence(child)) from None


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _silence(child: Child) -> str:
    return f"the {child.name} did not take calls within {READY_SECONDS:g} s; {child.log} ends with:\n{child.tail}"
