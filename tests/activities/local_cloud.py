"""Local hosts as port rules need them: a real daemon, a provider, and ways to cause failures."""

import asyncio
import re
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from activities.providers.local import DEFAULT_COMMAND, LocalProvider
from activities.providers.port import PermissionDenied, Ref, Stockout
from tests.activities.http_cloud import HttpCloud, Refusals
from tests.activities.waiting import STORY_SECONDS
from tests.emulators.running import Running

DEADLINE_SECONDS = 60.0
GRACE_SECONDS = 0.5
_READY = re.compile(r"local hosts on http://127\.0\.0\.1:(\d+)\n")


class RunningLocal(Running):
    """One daemon at a time on one state directory; it keeps its address when it is started again."""

    def __init__(self, state: Path, *options: str) -> None:
        super().__init__(_READY)
        self.state = state
        self._options = ("--grace", str(GRACE_SECONDS), *options)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        return (self.state / "token").read_text()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the daemon requires."""
        return {"Authorization": f"Bearer {self.token}"}

    def start(self) -> None:
        """Start, and return when calls are taken."""
        command = [sys.executable, "-m", "emulators.local", "--port", str(self._port), "--state", str(self.state), *self._options]
        (self._port,) = self.begin(command)

    def shut_down(self) -> int:
        """Leave nothing behind, also if the daemon is dead; returns the exit code."""
        if self._process is None:
            self.start()
        call = urllib.request.Request(f"{self.url}/shutdown", method="POST", headers=self.headers)
        urllib.request.urlopen(call, timeout=DEADLINE_SECONDS).close()
        return self.end(None)


class LocalCloud(HttpCloud):
    """A zone and a cluster of its own on a running daemon."""

    def __init__(self, daemon: RunningLocal, session: aiohttp.ClientSession) -> None:
        refusals: Refusals = {Stockout: {"capacity": 0}, PermissionDenied: {"permission_denied": "zone"}}
        super().__init__(daemon.url, session, refusals=refusals, usual={}, headers=daemon.headers)
        self.provider = LocalProvider(daemon.url, session, token=daemon.token)

    async def add_stranger(self, name: str, **rest: Any) -> None:
        await super().add_stranger(name, command=DEFAULT_COMMAND, **rest)

    async def pids(self, ref: Ref) -> list[int]:
        """The processes of a running slice's hosts."""
        return [host["pid"] for host in (await self.call("GET", f"/resources/{ref.name}"))["hosts"]]


@asynccontextmanager
async def local_cloud(daemon: RunningLocal) -> AsyncIterator[LocalCloud]:
    """A fresh zone, for a story that may not hang."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(STORY_SECONDS):
        yield LocalCloud(daemon, session)


@contextmanager
def local_clouds(directory: Path) -> Iterator[Callable[[], AbstractAsyncContextManager[LocalCloud]]]:
    """Clouds on one daemon, which leaves no process behind."""
    daemon = RunningLocal(directory / "hosts")
    daemon.start()
    try:
        yield lambda: local_cloud(daemon)
    finally:
        daemon.shut_down()
