"""`make run PROVIDER=gcp-emulator`: the whole autoscaler on Google's emulated clouds, in one command."""

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import AutoscalerClient
from penstock.connection import connect
from penstock.contract.answers import ClusterStatus
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.cli.running import Commands
from tests.worker.embedded import SECONDS, Embedded, servers_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel ends orphans, and /proc lists processes, on Linux only"
)
EXAMPLES = Path(__file__).parents[2] / "examples"
WANTED = {"v5e-16": 4, "v5e-16-spot": 2, "v6e-8-queued": 1, "l4": 2, "cpu-16": 3}
"""Slices that the example's demand takes."""


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        service = Embedded(tmp_path, provider="gcp-emulator", port=taken, ui_port=taken)
        service.cluster_file = EXAMPLES / "cluster-gcp.yaml"
        yield service
    if service.process is not None:
        service.process.kill()
        service.process.wait()


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nobody is logged in."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def _ready(status: ClusterStatus) -> dict[str, int]:
    return {group.name: group.slices.get(SliceState.READY, 0) for group in status.groups}


def test_the_example_of_googles_clouds_runs_in_one_command(embedded: Embedded) -> None:
    async def story() -> None:
        embedded.start()
        await embedded.ready()
        assert servers_of(embedded) == ["emulators.gcp", "server start-dev"]
        assert "Google emulator: starting… ready in " in embedded.output
        assert "demand submit examples/demand-gcp.json" in embedded.output

        penstock = Commands({"TEMPORAL_ADDRESS": embedded.address, "TEMPORAL_NAMESPACE": "default"})
        done = await asyncio.to_thread(penstock, "demand", "submit", str(EXAMPLES / "demand-gcp.json"))
        assert done.returncode == 0, done.stdout + done.stderr
        autoscaler = AutoscalerClient(await connect(address=embedded.address, namespace="default"), "demo-gcp")
        await until(autoscaler.status, lambda status: _ready(status) == WANTED, seconds=SECONDS)
        verified = await asyncio.to_thread(penstock.json, "verify")
        assert verified["agrees"], verified
        assert verified["resources"] == sum(WANTED.values())
        examined = await asyncio.to_thread(penstock.json, "doctor")
        assert examined["healthy"], examined

        assert embedded.send(signal.SIGINT) == 0
        await embedded.nothing_left()

    asyncio.run(story())


@pytest.mark.usefixtures("nobody")
def test_without_the_emulator_missing_credentials_are_told_at_the_start(tmp_path: Path) -> None:
    service = Embedded(tmp_path)
    service.cluster_file = EXAMPLES / "cluster-gcp.yaml"

    async def story() -> None:
        service.start()
        await service.ready()
        assert service.output.count("credentials: No usable Google credentials") == 1
        assert "gcloud auth application-default login" in service.output
        assert service.send(signal.SIGINT) == 0
        await service.nothing_left()

    try:
        asyncio.run(story())
    finally:
        if service.process is not None:
            service.process.kill()
            service.process.wait()
