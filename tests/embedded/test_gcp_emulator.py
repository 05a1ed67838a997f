"""`make run PROVIDER=gcp-emulator` runs the whole autoscaler on an emulator of Google's clouds."""

import asyncio
import signal
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
from tests.embedded.launched import EXAMPLES, SECONDS, Embedded, servers_of, taken_port

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel ends orphans, and /proc lists processes, on Linux only"
)
WANTED = {"v5e-16": 4, "v5e-16-spot": 2, "v6e-8-queued": 1, "l4": 2, "cpu-16": 3}
"""Slices that the example's demand takes."""


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    with taken_port() as taken:
        service = Embedded(tmp_path, provider="gcp-emulator", port=taken, ui_port=taken)
        service.cluster_file = EXAMPLES / "cluster-gcp.yaml"
        service.data_dir = tmp_path / ".penstock" / "gcp-emulator"
        yield service
    service.end()


@pytest.fixture
def logged_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Google credentials."""
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

        penstock = Commands(folder=embedded.folder)
        done = await asyncio.to_thread(penstock, "demand", "submit", str(EXAMPLES / "demand-gcp.json"))
        assert done.returncode == 0, done.stdout + done.stderr
        autoscaler = AutoscalerClient(await connect(address=embedded.address, namespace="default"), "demo-gcp")
        await until(autoscaler.status, lambda status: _ready(status) == WANTED, seconds=SECONDS)
        verified = await asyncio.to_thread(penstock.json, "verify")
        assert verified["agrees"], verified
        assert verified["resources"] == sum(WANTED.values())
        report = await asyncio.to_thread(penstock.json, "doctor")
        assert report["healthy"], report

        assert embedded.send(signal.SIGTERM) == 0
        await embedded.nothing_left()

    asyncio.run(story())


@pytest.mark.usefixtures("logged_out")
def test_without_the_emulator_missing_credentials_are_reported_at_the_start(tmp_path: Path) -> None:
    service = Embedded(tmp_path)
    service.cluster_file = EXAMPLES / "cluster-gcp.yaml"

    async def story() -> None:
        service.start()
        await service.ready()
        assert service.output.count("credentials: No usable Google credentials") == 1
        assert "gcloud auth application-default login" in service.output

    try:
        asyncio.run(story())
    finally:
        service.end()
