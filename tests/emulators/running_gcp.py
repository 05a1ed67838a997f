"""The Google emulator as a real process, with its admin API and Google's own clients."""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

from tests.emulators.running import Running

_READY = re.compile(r"Google emulator: Compute on http://127\.0\.0\.1:(\d+), TPU on 127\.0\.0\.1:(\d+), hosts on port (\d+)\n")

C = TypeVar("C")


class RunningGcp(Running):
    """The Google emulator on one database; a restart keeps its ports."""

    def __init__(self, database: Path) -> None:
        super().__init__(_READY)
        self.database = database
        self.health_port = 0
        self._port = 0
        self._grpc_port = 0

    @property
    def url(self) -> str:
        """Address of Compute and of the admin API."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def tpu_address(self) -> str:
        return f"127.0.0.1:{self._grpc_port}"

    def start(self) -> None:
        """Start it; returns when it accepts calls."""
        ports = ["--port", str(self._port), "--grpc-port", str(self._grpc_port), "--health-port", str(self.health_port)]
        command = [sys.executable, "-m", "emulators.gcp", "--database", str(self.database), *ports]
        self._port, self._grpc_port, self.health_port = self.begin(command)

    def compute(self, client: type[C]) -> C:
        """A client of google-cloud-compute, such as `InstancesClient`; it blocks, so call it in threads."""
        return client(credentials=AnonymousCredentials(), client_options={"api_endpoint": self.url})  # type: ignore[call-arg,no-untyped-call]

    @asynccontextmanager
    async def tpu(self) -> AsyncIterator[tpu_v2.TpuAsyncClient]:
        """A client of google-cloud-tpu for the running event loop."""
        async with grpc.aio.insecure_channel(self.tpu_address) as channel:
            yield tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))

    @asynccontextmanager
    async def admin(self) -> AsyncIterator["GcpAdmin"]:
        """A client of the admin API."""
        async with aiohttp.ClientSession() as session:
            yield GcpAdmin(self.url, self.health_port, session)


class GcpAdmin:
    """Client of the admin API: zone behaviours, faults, events and everything ever created."""

    def __init__(self, url: str, health_port: int, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._health_port = health_port
        self._session = session

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        async with self._session.request(method, f"{self._url}/emulator{path}", json=body) as response:
            answer = await response.json()
            assert response.ok, answer
            return answer

    async def behave(self, zone: str, **behaviour: Any) -> None:
        """Replace the behaviour of a zone."""
        await self.call("PUT", f"/zones/{zone}", behaviour)

    async def fault(self, method: str, **fault: Any) -> None:
        """Add a fault of the next calls of a method."""
        await self.call("POST", "/faults", {"method": method, **fault})

    async def preempt(self, name: str, *, zone: str) -> None:
        await self.call("POST", f"/resources/{name}/preempt?zone={zone}")

    async def kill_host(self, name: str, host: int, *, zone: str) -> None:
        await self.call("POST", f"/resources/{name}/hosts/{host}/kill?zone={zone}")

    async def admit(self, name: str, *, zone: str) -> None:
        """Admit a queued resource."""
        await self.call("POST", f"/resources/{name}/admit?zone={zone}")

    async def maintain(self, name: str, lasts: str | float | None = None, *, zone: str) -> None:
        await self.call("POST", f"/resources/{name}/maintenance?zone={zone}", {"lasts": lasts})

    async def delete_machine(self, name: str, *, project: str, zone: str) -> None:
        """Delete an instance through the Compute API, as another user would."""
        url = f"{self._url}/compute/v1/projects/{project}/zones/{zone}/instances/{name}"
        async with self._session.delete(url) as response:
            assert response.ok, await response.text()

    async def add_stranger(self, name: str, *, kind: str, project: str, zone: str, **more: Any) -> None:
        await self.call("POST", "/strangers", {"kind": kind, "project": project, "zone": zone, "name": name, **more})

    async def resources(self, *, zone: str) -> list[dict[str, Any]]:
        """Every resource ever created in a zone."""
        items: list[dict[str, Any]] = (await self.call("GET", f"/resources?zone={zone}"))["items"]
        return items

    async def times_made(self, name: str, *, zone: str, kind: str = "node") -> int:
        """How often a node, an instance or a queued resource with the name was created."""
        created = (await self.call("GET", f"/resources?zone={zone}"))["created"]
        return int(created[kind].get(name, 0))

    async def health(self, address: str) -> str | None:
        """The slice id that the host at an address answers with; None if it does not answer."""
        try:
            async with self._session.get(f"http://{address}:{self._health_port}/health") as response:
                answer = await response.json()
        except aiohttp.ClientError:
            return None
        return None if answer["slice"] is None else str(answer["slice"])
