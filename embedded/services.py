"""The server processes that an embedded worker needs: Temporal, and emulators of the clouds that its cluster uses."""

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
from embedded.data_dir import DataDir
from embedded.dev_server import Executable, server_command
from embedded.ports import LOOPBACK, free_port
from embedded.processes import Child, StartFailed
from emulators.local.__main__ import TOKEN_FILE
from penstock.contract.addresses import GOOGLE_PORTS, LOCAL_PORT, SIM_PORT
from penstock.model.cluster import ClusterConfig

RETENTION = timedelta(days=30)
"""How long the server keeps histories of closed workflows: last month's slices can still be looked up."""
READY_SECONDS = 60.0
"""A server that takes no calls by then has failed."""
_POLL_SECONDS = 0.02
NAMESPACE = "default"


class Service(NamedTuple):
    """One server process, its port, and the environment variables by which the worker finds it."""

    child: Child
    port: int
    environment: Mapping[str, str]

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://{LOOPBACK}:{self.port}"

    async def ready(self) -> None:
        """Return when it takes calls; raises `StartFailed` or `Ended`."""
        await _until_listening(self.child, self.port)


def temporal_server(data_dir: DataDir, executable: Executable, *, port: int, ui_port: int) -> Service:
    """The Temporal server with its UI, on the database of the data directory."""
    command = server_command(executable.path, port=port, ui_port=ui_port, database=data_dir.temporal_database)
    return Service(Child("Temporal server", command, log=data_dir.log("temporal")), port, {})


def emulators(data_dir: DataDir, config: ClusterConfig, *, scenario: Path | None, google: bool = False) -> list[Service]:
    """The emulators that the provider kinds of the cluster need; Google's clouds are emulated only on request."""
    kinds = {group.provider.kind for group in config.groups}
    found = []
    if "sim" in kinds:
        found.append(_simulated_cloud(data_dir, scenario))
    if "local" in kinds:
        found.append(_local_hosts(data_dir))
    if google and not kinds.isdisjoint(gcp.KINDS):
        found.append(_google(data_dir))
    return found


def _simulated_cloud(data_dir: DataDir, scenario: Path | None) -> Service:
    port = free_port(SIM_PORT)
    arguments = ["--database", str(data_dir.cloud_database)]
    arguments += [] if scenario is None else ["--scenario", str(scenario)]
    return _emulator(data_dir, "simulated cloud", "emulators.sim", port=port, arguments=arguments, variable=SIM_URL)


def _local_hosts(data_dir: DataDir) -> Service:
    port = free_port(LOCAL_PORT)
    arguments = ["--state", str(data_dir.local_hosts), "--stop-hosts"]
    found = _emulator(data_dir, "local hosts", "emulators.local", port=port, arguments=arguments, variable=LOCAL_URL)
    return found._replace(environment={**found.environment, LOCAL_TOKEN_FILE: str(data_dir.local_hosts / TOKEN_FILE)})


def _google(data_dir: DataDir) -> Service:
    port, grpc_port, health_port = (free_port(preferred) for preferred in GOOGLE_PORTS)
    arguments = ["--database", str(data_dir.google_database), "--grpc-port", str(grpc_port), "--health-port", str(health_port)]
    found = _emulator(data_dir, "Google emulator", "emulators.gcp", port=port, arguments=arguments, variable=gcp.ENDPOINT)
    more = {gcp.TPU_ENDPOINT: f"{LOOPBACK}:{grpc_port}", gcp.HEALTH_PORT: str(health_port)}
    return found._replace(environment={**found.environment, **more})


def _emulator(data_dir: DataDir, name: str, module: str, *, port: int, arguments: Sequence[str], variable: str) -> Service:
    command = [sys.executable, "-m", module, "--port", str(port), *arguments]
    return Service(Child(name, command, log=data_dir.log(name.replace(" ", "-"))), port, {variable: f"http://{LOOPBACK}:{port}"})


async def connect_when_ready(server: Service) -> Client:
    """Wait for the server, set the retention of its namespace, and return a client; raises `StartFailed` or `Ended`."""
    await server.ready()
    try:
        async with asyncio.timeout(READY_SECONDS):
            return await _client_with_namespace(server)
    except TimeoutError:
        raise StartFailed(_not_ready(server.child)) from None


async def _client_with_namespace(server: Service) -> Client:
    """Retry until the namespace exists: the server listens earlier."""
    while True:
        try:
            client = await Client.connect(
                f"{LOOPBACK}:{server.port}", namespace=NAMESPACE, data_converter=pydantic_data_converter
            )
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
            keep = Duration(seconds=int(RETENTION.total_seconds()))
            config = NamespaceConfig(workflow_execution_retention_ttl=keep)
            await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=NAMESPACE, config=config))
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
        raise StartFailed(_not_ready(child)) from None


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _not_ready(child: Child) -> str:
    return f"the {child.name} did not take calls within {READY_SECONDS:g} s; {child.log} ends with:\n{child.tail}"
