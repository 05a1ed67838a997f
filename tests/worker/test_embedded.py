"""Everything in one command: it starts on free ports, resumes where it was, and leaves no process behind."""

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
from tests.worker.embedded import SECONDS, Embedded, servers_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel ends orphans, and /proc lists processes, on Linux only"
)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def embedded(tmp_path: Path, taken: int) -> Iterator[Embedded]:
    service = Embedded(tmp_path, port=taken, ui_port=taken)
    yield service
    if service.process is not None:
        service.process.kill()
        service.process.wait()


async def _autoscaler(embedded: Embedded) -> AutoscalerClient:
    return AutoscalerClient(await connect(address=embedded.address, namespace="default"), "demo")


def _ready(status: ClusterStatus) -> int:
    return sum(group.slices.get(SliceState.READY, 0) for group in status.groups)


def test_it_starts_beside_what_runs_already_and_says_where_to_look(embedded: Embedded, taken: int) -> None:
    async def story() -> None:
        embedded.start()
        await embedded.ready()
        autoscaler = await _autoscaler(embedded)
        await until(autoscaler.status, lambda status: _ready(status) == 2, seconds=SECONDS)

        assert servers_of(embedded) == ["emulators.sim", "server start-dev"]
        assert not embedded.address.endswith(f":{taken}")
        for line in (
            "Temporal UI: http://127.0.0.1:",
            f"export TEMPORAL_ADDRESS={embedded.address}",
            "status --watch",
            "demand submit",
        ):
            assert line in embedded.output
        for server in ("Temporal server", "simulated cloud", "worker", "cluster demo"):
            assert f"{server}: starting… ready in " in embedded.output

        second = Embedded(embedded.folder)
        second.start()
        assert second.ended() == 2
        assert f"error: {embedded.home} is in use by process {embedded.process and embedded.process.pid}" in second.output

        assert embedded.send(signal.SIGINT) == 0
        await embedded.nothing_left()

    asyncio.run(story())


def test_it_resumes_where_it_was_also_after_being_killed(embedded: Embedded) -> None:
    async def story() -> None:
        embedded.start()
        await embedded.ready()
        autoscaler = await _autoscaler(embedded)
        await until(autoscaler.status, lambda status: _ready(status) == 2, seconds=SECONDS)
        before = [piece.id for piece in (await autoscaler.slices()).slices]

        embedded.send(signal.SIGKILL)
        await embedded.nothing_left()

        embedded.start()
        await embedded.ready()
        assert f"Penstock resumes in {embedded.home}" in embedded.output
        autoscaler = await _autoscaler(embedded)
        await autoscaler.submit_demand([{"id": f"t{i}", "resources": {"cpu": 4}} for i in range(3)])
        await until(autoscaler.status, lambda status: _ready(status) == 3, seconds=SECONDS)
        assert [piece.id for piece in (await autoscaler.slices()).slices][:2] == before

        assert embedded.send(signal.SIGTERM) == 0
        await embedded.nothing_left()
        assert not (embedded.home / "address").exists()

    asyncio.run(story())


def test_a_cluster_file_with_a_mistake_is_told_before_anything_starts(embedded: Embedded) -> None:
    embedded.cluster_file.write_text("cluster: demo\ngroups: [{name: small, max_slices: many}]\n")
    embedded.start()

    assert embedded.ended() == 2
    assert "max_slices" in embedded.output
    assert not embedded.home.exists()
