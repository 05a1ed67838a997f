"""`python -m embedded` starts on free ports, resumes its data, leaves no process behind, and exits as documented."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import AutoscalerClient
from penstock.connection import connect
from penstock.contract.answers import ClusterStatus
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.embedded.launched import EXAMPLES, SECONDS, Embedded, clean_environment, taken_port

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel ends orphans, and /proc lists processes, on Linux only"
)
WITHOUT_GOOGLE = """
import runpy, sys

class Missing:
    def find_spec(self, name, *rest):
        if name in ("google.cloud", "google.auth", "grpc", "opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
sys.argv[0] = "embedded"
runpy.run_module("embedded", run_name="__main__")
"""


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    with taken_port() as taken:
        service = Embedded(tmp_path, port=taken, ui_port=taken)
        yield service
    service.end()


async def _autoscaler(embedded: Embedded) -> AutoscalerClient:
    return AutoscalerClient(await connect(address=embedded.address, namespace="default"), "demo")


def _ready(status: ClusterStatus) -> int:
    return sum(group.slices.get(SliceState.READY, 0) for group in status.groups)


def test_it_resumes_after_being_killed_and_stops_on_ctrl_c(embedded: Embedded) -> None:
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
        assert f"Penstock resumes in {embedded.data_dir}" in embedded.output
        autoscaler = await _autoscaler(embedded)
        await autoscaler.submit_demand([{"id": f"t{i}", "resources": {"cpu": 4}} for i in range(3)])
        await until(autoscaler.status, lambda status: _ready(status) == 3, seconds=SECONDS)
        assert [piece.id for piece in (await autoscaler.slices()).slices][:2] == before

        assert embedded.send(signal.SIGINT) == 130
        await embedded.nothing_left()
        assert not [name for name in ("address", "ui", "sim", "temporal.toml") if (embedded.data_dir / name).exists()]

    asyncio.run(story())


def test_a_mistake_in_the_cluster_file_is_reported_before_anything_starts(embedded: Embedded) -> None:
    embedded.cluster_file.write_text("cluster: demo\ngroups: [{name: small, max_slices: many}]\n")
    embedded.start()

    assert embedded.exit_code() == 2
    assert "max_slices" in embedded.output
    assert not embedded.data_dir.exists()


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "embedded", "--data", str(tmp_path / "file" / "below")]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}/file/below cannot be used: Not a directory; name another directory with --data\n"


def test_a_cluster_on_google_without_googles_libraries_names_the_command_that_installs_them(tmp_path: Path) -> None:
    cluster = str(EXAMPLES / "cluster-gcp.yaml")
    command = [sys.executable, "-c", WITHOUT_GOOGLE, "--cluster-file", cluster, "--data", str(tmp_path / "data")]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.returncode == 2
    assert done.stderr == (
        f"error: {cluster} has groups with provider kind gce, gcp-tpu, but Google's client libraries are not installed here; "
        "run `make install-google` and start again\n"
    )
    assert not (tmp_path / "data").exists()
