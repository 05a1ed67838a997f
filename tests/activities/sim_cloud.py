"""The simulated cloud as port rules need it: a provider, and ways to make trouble."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from activities.providers.port import Invalid, PermissionDenied, ProviderError, QuotaExceeded, RateLimited, Ref, Scope, Stockout
from activities.providers.sim import SimProvider

LATENCIES = {"create_latency": "20ms", "boot_latency": "20ms", "init_latency": "20ms", "delete_latency": "20ms"}
REFUSALS: dict[type[ProviderError], dict[str, Any]] = {
    Stockout: {"stockout": True},
    QuotaExceeded: {"quota": {"scope": "region", "limit": 0}},
    RateLimited: {"creates_per_second": 1},
    PermissionDenied: {"permission_denied": "project"},
    Invalid: {"invalid": True},
}


class SimCloud:
    """A zone and a cluster of its own on a running simulated cloud."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.cluster = f"cluster-{uuid.uuid4().hex[:8]}"
        self.region = f"region-{uuid.uuid4().hex[:8]}"
        self.location = f"{self.region}-a"
        self.provider = SimProvider(url, session)
        self.url = url
        self._session = session

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        async with self._session.request(method, self.url + path, json=body) as response:
            response.raise_for_status()
            return await response.json()

    async def behave(self, **behaviour: Any) -> None:
        await self.call("PUT", f"/zones/{self.location}", LATENCIES | behaviour)

    async def refuse(self, error: type[ProviderError]) -> None:
        await self.behave(**REFUSALS[error])

    def subject(self, scope: Scope) -> str:
        return {Scope.ZONE: self.location, Scope.REGION: self.region, Scope.PROJECT: "sim"}[scope]

    async def lose_next_reply(self) -> None:
        await self.behave(lost_replies=1)

    async def fail_next_delete(self) -> None:
        await self.behave(failing_deletes=1)

    async def hide(self) -> None:
        await self.behave(partial_lists=True)

    async def hold_queue(self) -> None:
        await self.behave(hold_queue=True)

    async def admit(self, ref: Ref) -> None:
        await self.call("POST", f"/resources/{ref.name}/admit")

    async def preempt(self, ref: Ref) -> None:
        await self.call("POST", f"/resources/{ref.name}/preempt")

    async def kill_host(self, ref: Ref, host: int) -> None:
        await self.call("POST", f"/resources/{ref.name}/hosts/{host}/kill")

    async def add_stranger(self, name: str) -> None:
        await self.call("POST", f"/zones/{self.location}/resources", {"name": name, "labels": {"owner": "somebody"}})

    async def has_stranger(self, name: str) -> bool:
        listed = await self.call("GET", f"/zones/{self.location}/resources?label=owner=somebody")
        return name in [item["name"] for item in listed["items"] if item["phase"] != "deleting"]

    async def times_made(self, ref: Ref) -> int:
        ever = await self.call("GET", "/resources")
        return sum(item["name"] == ref.name for item in ever["items"])


@asynccontextmanager
async def sim_cloud(url: str) -> AsyncIterator[SimCloud]:
    """A fresh zone with short latencies."""
    async with aiohttp.ClientSession() as session:
        cloud = SimCloud(url, session)
        await cloud.behave()
        yield cloud
