"""A cloud whose behaviour is set over HTTP, as port rules need it: the simulated one, or local hosts."""

import uuid
from collections.abc import Mapping
from typing import Any

import aiohttp

from activities.providers.port import Invalid, ProviderError, QuotaExceeded, RateLimited, Ref, Scope

Refusals = dict[type[ProviderError], dict[str, Any]]
REFUSALS: Refusals = {
    QuotaExceeded: {"quota": {"scope": "region", "limit": 0}},
    RateLimited: {"creates_per_second": 1},
    Invalid: {"invalid": True},
}
"""The behaviour of a zone that refuses creates with this error."""


class HttpCloud:
    """A zone and a cluster of its own; `usual` is how the zone behaves unless a rule changes it."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        *,
        refusals: Refusals,
        usual: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> None:
        self.cluster = f"cluster-{uuid.uuid4().hex[:8]}"
        self.region = f"region-{uuid.uuid4().hex[:8]}"
        self.location = f"{self.region}-a"
        self.url = url
        self._session = session
        self._refusals = REFUSALS | refusals
        self._usual = dict(usual)
        self._headers = headers

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        async with self._session.request(method, self.url + path, json=body, headers=self._headers) as response:
            response.raise_for_status()
            return await response.json()

    async def behave(self, **behaviour: Any) -> None:
        await self.call("PUT", f"/zones/{self.location}", self._usual | behaviour)

    async def refuse(self, error: type[ProviderError]) -> None:
        await self.behave(**self._refusals[error])

    def subject(self, scope: Scope) -> str:
        return {Scope.ZONE: self.location, Scope.REGION: self.region}[scope]

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

    async def add_stranger(self, name: str, **rest: Any) -> None:
        stranger = {"name": name, "labels": {"owner": "somebody"}}
        await self.call("POST", f"/zones/{self.location}/resources", stranger | rest)

    async def has_stranger(self, name: str) -> bool:
        listed = await self.call("GET", f"/zones/{self.location}/resources?label=owner=somebody")
        return name in [item["name"] for item in listed["items"] if item["phase"] != "deleting"]

    async def times_made(self, ref: Ref) -> int:
        ever = await self.call("GET", "/resources")
        return sum(item["name"] == ref.name for item in ever["items"])
