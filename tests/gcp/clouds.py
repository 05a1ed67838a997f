"""The emulated Google clouds as port rules need them: a provider, and ways to cause failures."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiohttp
import grpc
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from pydantic import JsonValue

from activities.providers.gcp.compute import ComputeProvider
from activities.providers.gcp.settings import ComputeSettings, TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.port import (
    Invalid,
    Order,
    PermissionDenied,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Ref,
    Scope,
    Stockout,
)
from tests.emulators.running_gcp import RunningGcp

C = TypeVar("C")
LATENCIES = {"create_latency": "20ms", "boot_latency": "20ms", "init_latency": "20ms", "delete_latency": "20ms"}
REFUSALS: dict[type[ProviderError], dict[str, Any]] = {
    Stockout: {"stockout": True},
    QuotaExceeded: {"quota": {"scope": "region", "limit": 0}},
    RateLimited: {"rate": {"creates": 1, "per": "1s"}},
    PermissionDenied: {"permission_denied": "project"},
    Invalid: {"invalid": True},
}


class Endpoints(NamedTuple):
    """The addresses of an emulator."""

    compute: str
    tpu: str
    health_port: int

    @classmethod
    def of(cls, gcp: RunningGcp) -> "Endpoints":
        return cls(gcp.url, gcp.tpu_address, gcp.health_port)


class GcpCloud:
    """A project, a zone and a cluster of its own on a running emulator."""

    kind: str
    variant: str | None

    def __init__(self, endpoints: Endpoints, session: aiohttp.ClientSession) -> None:
        unique = uuid.uuid4().hex[:8]
        self.cluster = f"cluster-{unique}"
        self.project = f"project-{unique}"
        self.region = f"region-{unique}"
        self.location = f"{self.region}-a"
        self.url = endpoints.compute
        self._session = session
        self.settings: dict[str, JsonValue] = {
            "project": self.project,
            "endpoint": endpoints.compute,
            "tpu_endpoint": endpoints.tpu,
            "health_port": endpoints.health_port,
        }

    def fitted(self, order: Order) -> Order:
        """The order as this cloud can take it."""
        return order.model_copy(update={"variant": self.variant, "settings": self.settings})

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        async with self._session.request(method, f"{self.url}/emulator{path}", json=body) as response:
            assert response.ok, await response.text()
            return await response.json()

    def session(self) -> aiohttp.ClientSession:
        """For a provider of the test's own."""
        return aiohttp.ClientSession()

    async def behave(self, **behaviour: Any) -> None:
        await self.call("PUT", f"/zones/{self.location}", LATENCIES | behaviour)

    async def fault(self, method: str, **fault: Any) -> None:
        await self.call("POST", "/faults", {"method": method, "zone": self.location, **fault})

    async def refuse(self, error: type[ProviderError]) -> None:
        await self.behave(**REFUSALS[error])

    def subject(self, scope: Scope) -> str:
        return {Scope.ZONE: self.location, Scope.REGION: self.region, Scope.PROJECT: self.project}[scope]

    async def lose_next_reply(self) -> None:
        await self.behave(lost_replies=1)

    async def fail_next_delete(self) -> None:
        await self.behave(failing_deletes=1)

    async def hide(self) -> None:
        await self.behave(unreachable=True)

    async def hold_queue(self) -> None:
        await self.behave(hold_queue=True)

    async def ever(self) -> list[Any]:
        made = await self.call("GET", "/resources")
        return [item for item in made["items"] if item["project"] == self.project]

    async def has_stranger(self, name: str) -> bool:
        return any(item["name"] == name and item["exists"] and item["state"] == "running" for item in await self.ever())

    async def add_stranger(self, name: str) -> None:
        whose = {"kind": self.kind, "project": self.project, "zone": self.location, "labels": {"owner": "somebody"}}
        await self.call("POST", "/strangers", {"name": name, **whose})

    async def times_made(self, ref: Ref) -> int:
        made = [item for item in await self.ever() if item["name"] == ref.name and item["kind"] == self.kind]
        return sum(not item["failed"] for item in made)

    def resource(self, name: str, kind: str | None = None) -> str:
        return f"/resources/{name}/{{}}?kind={kind or self.kind}&project={self.project}"


class TpuCloud(GcpCloud):
    """Cloud TPU: two hosts are a v4-16."""

    kind = "node"
    variant = "v4-16"

    def __init__(self, endpoints: Endpoints, session: aiohttp.ClientSession) -> None:
        super().__init__(endpoints, session)
        self.provider = TpuProvider(read(TpuSettings, self.settings).connection, session)

    async def admit(self, ref: Ref) -> None:
        await self.call("POST", self.resource(ref.name, "queued").format("admit"))

    async def preempt(self, ref: Ref) -> None:
        await self.call("POST", self.resource(ref.name).format("preempt"))

    async def kill_host(self, ref: Ref, host: int) -> None:
        await self.call("POST", self.resource(ref.name).format(f"hosts/{host}/kill"))

    async def metadata(self, name: str) -> dict[str, str]:
        """The metadata of the node."""
        async with grpc.aio.insecure_channel(str(self.settings["tpu_endpoint"])) as channel:
            client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
            node = await client.get_node(name=f"projects/{self.project}/locations/{self.location}/nodes/{name}", timeout=60)
        return dict(node.metadata)


class ComputeCloud(GcpCloud):
    """Compute Engine: a machine for each host."""

    kind = "instance"
    variant = None

    def __init__(self, endpoints: Endpoints, session: aiohttp.ClientSession) -> None:
        super().__init__(endpoints, session)
        self.settings |= {"machine_type": "n2-standard-8", "image": "projects/debian-cloud/global/images/family/debian-12"}
        self.provider = ComputeProvider(read(ComputeSettings, self.settings).connection, session)

    def fitted(self, order: Order) -> Order:
        """The queue accepts single machines, and no spot ones."""
        return super().fitted(order).model_copy(update={"hosts": 1, "preemptible": False} if order.queued else {})

    async def admit(self, ref: Ref) -> None:
        await self.call("POST", self.resource(ref.name).format("admit"))

    async def preempt(self, ref: Ref) -> None:
        await self.call("POST", self.resource(ref.name).format("preempt"))

    async def kill_host(self, ref: Ref, host: int) -> None:
        name = ref.name if host == 0 else f"{ref.name}-{host}"
        await self.call("POST", self.resource(name).format("hosts/0/kill"))

    async def compute(self, method: str, path: str) -> Any:
        """A call of another client to the Compute API."""
        url = f"{self.url}/compute/v1/projects/{self.project}/zones/{self.location}{path}"
        async with self._session.request(method, url) as response:
            assert response.ok, await response.text()
            return await response.json()

    async def delete_machine(self, name: str) -> None:
        await self.compute("DELETE", f"/instances/{name}")

    async def metadata(self, name: str) -> dict[str, str]:
        """The metadata of the machine."""
        machine = await self.compute("GET", f"/instances/{name}")
        return {item["key"]: item["value"] for item in machine["metadata"]["items"]}


@asynccontextmanager
async def tpu_cloud(endpoints: Endpoints) -> AsyncIterator[TpuCloud]:
    """A fresh zone of Cloud TPU with short latencies."""
    async with aiohttp.ClientSession() as session:
        cloud = TpuCloud(endpoints, session)
        await cloud.behave()
        try:
            yield cloud
        finally:
            await cloud.provider.close()


@asynccontextmanager
async def compute_cloud(endpoints: Endpoints) -> AsyncIterator[ComputeCloud]:
    """A fresh zone of Compute Engine with short latencies."""
    async with aiohttp.ClientSession() as session:
        cloud = ComputeCloud(endpoints, session)
        await cloud.behave()
        try:
            yield cloud
        finally:
            await cloud.provider.close()


def gcp_clouds(
    fresh: Callable[[Endpoints], AbstractAsyncContextManager[C]],
) -> Callable[[Path], AbstractContextManager[Callable[[], AbstractAsyncContextManager[C]]]]:
    """An emulator in a directory, and a way to fresh clouds on it."""

    @contextmanager
    def clouds(directory: Path) -> Iterator[Callable[[], AbstractAsyncContextManager[C]]]:
        gcp = RunningGcp(directory / "gcp.db")
        try:
            gcp.start()
            yield lambda: fresh(Endpoints.of(gcp))
        finally:
            gcp.kill()

    return clouds
