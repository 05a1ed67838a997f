"""The simulated cloud as port rules need it: a provider, and ways to cause failures."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from activities.providers.port import Notice, PermissionDenied, Ref, Scope, Stockout
from activities.providers.sim import SimProvider
from tests.activities.http_cloud import HttpCloud, Refusals
from tests.activities.waiting import STORY_SECONDS

LATENCIES = {"create_latency": "20ms", "boot_latency": "20ms", "init_latency": "20ms", "delete_latency": "20ms"}


class SimCloud(HttpCloud):
    """A zone and a cluster of its own on a running simulated cloud."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        refusals: Refusals = {Stockout: {"stockout": True}, PermissionDenied: {"permission_denied": "project"}}
        super().__init__(url, session, refusals=refusals, usual=LATENCIES, headers={})
        self.provider = SimProvider(url, session)

    def subject(self, scope: Scope) -> str:
        return "sim" if scope is Scope.PROJECT else super().subject(scope)

    async def announce(self, ref: Ref, notice: Notice | None) -> None:
        """Announce it for the resource; None takes back what was announced."""
        path = f"/resources/{ref.name}/notice"
        if notice is None:
            await self.call("DELETE", path)
        else:
            await self.call("PUT", path, notice.model_dump(mode="json"))


@asynccontextmanager
async def sim_cloud(url: str) -> AsyncIterator[SimCloud]:
    """A fresh zone with short latencies, for a story that may not hang."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(STORY_SECONDS):
        cloud = SimCloud(url, session)
        await cloud.behave()
        yield cloud
