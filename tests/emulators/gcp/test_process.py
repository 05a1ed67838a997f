"""The Google emulator as a process: its state survives a crash, and it reports why it cannot start."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.api_core import exceptions
from google.cloud import compute_v1, tpu_v2

from emulators.gcp.__main__ import main
from tests.activities.waiting import until
from tests.emulators.gcp.zones import SECONDS, Clients, ComputeZone, TpuZone, play_compute, play_tpu
from tests.emulators.running import ensure_running, kept_running
from tests.emulators.running_gcp import RunningGcp


@pytest.fixture(scope="module")
def restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    """An emulator that no other module uses, because these tests stop and kill it."""
    with kept_running(RunningGcp(tmp_path_factory.mktemp("gcp") / "gcp.db")) as running:
        yield running


@pytest.fixture
def gcp(restartable: RunningGcp) -> RunningGcp:
    return ensure_running(restartable)


def test_machines_queues_behaviours_and_faults_survive_a_kill(gcp: RunningGcp) -> None:
    zones: list[str] = []

    async def before(zone: TpuZone) -> None:
        zones.append(zone.zone)
        await zone.operation(await zone.create("n-1"))
        await zone.answered((await zone.get("n-1")).network_endpoints[0].ip_address, "slice of n-1")
        await zone.create("n-2")
        await zone.admin.kill_host("n-2", 0, zone=zone.zone)
        await zone.admin.behave(zone.zone, hold_queue=True, stockout_after=1)
        await zone.enqueue("q-1")
        await zone.admin.fault("GetNode", zone=zone.zone, times=2, code="UNAVAILABLE")

    async def after(fresh: TpuZone) -> None:
        zone = fresh._replace(zone=zones[0])
        for _ in range(2):
            with pytest.raises(exceptions.ServiceUnavailable):
                await zone.get("n-1")
        await zone.answered((await zone.get("n-1")).network_endpoints[0].ip_address, "slice of n-1")
        dead = (await zone.get("n-2")).network_endpoints
        await zone.answered(dead[1].ip_address, "slice of n-2")
        await zone.answered(dead[0].ip_address, None)
        with pytest.raises(exceptions.AlreadyExists):
            await zone.create("n-1")
        await zone.queued_until("q-1", tpu_v2.QueuedResourceState.State.WAITING_FOR_RESOURCES)
        await zone.admin.admit("q-1", zone=zone.zone)
        await zone.queued_until("q-1", tpu_v2.QueuedResourceState.State.ACTIVE)
        assert (await zone.operation(await zone.create("n-3"))).error.code == 8
        assert await zone.admin.times_made("n-1", zone=zone.zone) == 1

    play_tpu(gcp, before)
    gcp.kill()
    gcp.start()
    play_tpu(gcp, after)


def test_a_request_id_and_its_operation_survive_a_restart(gcp: RunningGcp) -> None:
    request_id = "00000000-0000-4000-8000-000000000001"
    names: list[str] = []
    zones: list[str] = []
    clients: Clients = gcp.compute(compute_v1.InstancesClient), gcp.compute(compute_v1.ZoneOperationsClient)

    async def insert(zone: ComputeZone) -> None:
        zones.append(zone.zone)
        zone.zone = zones[0]
        zone.where["zone"] = zones[0]
        operation = await zone.insert("vm-1", request_id)
        names.append(operation.name)
        await zone.done(operation)

    play_compute(gcp, clients, insert)
    assert gcp.stop() == 0
    gcp.start()
    play_compute(gcp, clients, insert)
    assert names[0] == names[1]


def test_sigterm_ends_it_even_with_delayed_calls_in_flight(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.fault("GetNode", latency="1h")
        held = asyncio.create_task(zone.get("n-1"))
        await until(lambda: zone.admin.call("GET", "/calls"), lambda counted: "GetNode" in counted, seconds=SECONDS)
        assert await asyncio.to_thread(gcp.stop) == 0
        with pytest.raises(exceptions.GoogleAPICallError):
            await held

    play_tpu(gcp, story)


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_a_port_in_use_is_reported(gcp: RunningGcp, tmp_path: Path, option: str) -> None:
    port = {"--port": gcp.url, "--grpc-port": gcp.tpu_address}[option].rsplit(":", 1)[1]
    ports = {"--port": "0", "--grpc-port": "0", "--health-port": "0"} | {option: port}
    options = [part for pair in ports.items() for part in pair]
    ended = CliRunner().invoke(main, ["--database", str(tmp_path / "other.db"), *options])
    assert ended.exit_code == 1
    assert f"port {port} cannot be used" in ended.output
    assert f"name another with {option}" in ended.output


def test_a_second_process_on_the_same_file_is_refused(gcp: RunningGcp) -> None:
    command = [sys.executable, "-m", "emulators.gcp", "--database", str(gcp.database)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, "in use by another emulator" in ended.stderr) == (1, True), ended.stderr
