"""Local hosts as port rules need them: a real daemon, a provider, and ways to make trouble."""

import select
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from activities.providers.local import DEFAULT_COMMAND, LocalProvider
from activities.providers.port import Invalid, PermissionDenied, ProviderError, QuotaExceeded, RateLimited, Ref, Scope, Stockout

DEADLINE_SECONDS = 60.0
GRACE_SECONDS = 0.5
REFUSALS: dict[type[ProviderError], dict[str, Any]] = {
    Stockout: {"capacity": 0},
    QuotaExceeded: {"quota": {"scope": "region", "limit": 0}},
    RateLimited: {"creates_per_second": 1},
    PermissionDenied: {"permission_denied": "zone"},
    Invalid: {"invalid": True},
}


class RunningLocal:
    """One daemon at a time on one state directory; it keeps its address when it is started again."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self._options = ("--grace", str(GRACE_SECONDS), *options)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        return (self.state / "token").read_text()

    def start(self) -> None:
        """Start, and return when calls are taken."""
        command = [sys.executable, "-m", "emulators.local", "--port", str(self._port), "--state", str(self.state), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        announced, _, _ = select.select([self._process.stdout], [], [], DEADLINE_SECONDS)
        line = self._process.stdout.readline() if announced else ""
        assert line.startswith("local hosts on "), f"not ready: {line!r}, exit code {self._process.poll()}"
        self._port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def shut_down(self) -> int:
        """Leave nothing behind, also if the daemon is dead; returns the exit code."""
        if self._process is None:
            self.start()
        headers = {"Authorization": f"Bearer {self.token}"}
        call = urllib.request.Request(f"{self.url}/shutdown", method="POST", headers=headers)
        urllib.request.urlopen(call, timeout=DEADLINE_SECONDS).close()
        return self._end(None)

    def _end(self, kind: signal.Signals | None) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if kind is not None:
            process.send_signal(kind)
        code = process.wait(DEADLINE_SECONDS)
        if process.stdout is not None:
            process.stdout.close()
        return code


class LocalCloud:
    """A zone and a cluster of its own on a running daemon."""

    def __init__(self, daemon: RunningLocal, session: aiohttp.ClientSession) -> None:
        self.cluster = f"cluster-{uuid.uuid4().hex[:8]}"
        self.region = f"region-{uuid.uuid4().hex[:8]}"
        self.location = f"{self.region}-a"
        self.provider = LocalProvider(daemon.url, session, token=daemon.token)
        self._daemon = daemon
        self._session = session

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._daemon.token}"}
        async with self._session.request(method, self._daemon.url + path, json=body, headers=headers) as response:
            response.raise_for_status()
            return await response.json()

    async def behave(self, **behaviour: Any) -> None:
        await self.call("PUT", f"/zones/{self.location}", behaviour)

    async def refuse(self, error: type[ProviderError]) -> None:
        await self.behave(**REFUSALS[error])

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

    async def add_stranger(self, name: str) -> None:
        stranger = {"name": name, "labels": {"owner": "somebody"}, "command": DEFAULT_COMMAND}
        await self.call("POST", f"/zones/{self.location}/resources", stranger)

    async def has_stranger(self, name: str) -> bool:
        listed = await self.call("GET", f"/zones/{self.location}/resources?label=owner=somebody")
        return name in [item["name"] for item in listed["items"] if item["phase"] != "deleting"]

    async def times_made(self, ref: Ref) -> int:
        ever = await self.call("GET", "/resources")
        return sum(item["name"] == ref.name for item in ever["items"])

    async def pids(self, ref: Ref) -> list[int]:
        """The processes of a running slice's hosts."""
        return [host["pid"] for host in (await self.call("GET", f"/resources/{ref.name}"))["hosts"]]


@asynccontextmanager
async def local_cloud(daemon: RunningLocal) -> AsyncIterator[LocalCloud]:
    """A fresh zone."""
    async with aiohttp.ClientSession() as session:
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
