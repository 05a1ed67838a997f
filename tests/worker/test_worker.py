"""A worker process: it reports unusable settings, registers search attributes, and stops in order."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest

from penstock.connection import TLS_ADVICE
from penstock.contract.names import SEARCH_ATTRIBUTES
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.cli.running import Commands
from tests.workflows.machine import Machine, running_machine
from tests.workflows.stage import group, staged
from worker import serving
from worker.search_attributes import register_attributes
from worker.serving import working
from worker.settings import Settings

SECONDS = 60.0
MISSING = {"TEMPORAL_TLS_CLIENT_CERT_PATH": "missing.pem", "TEMPORAL_TLS_CLIENT_KEY_PATH": "missing.key"}
UNUSABLE = [
    ({"TEMPORAL_PROFILE": "nosuch"}, "Temporal's settings cannot be used: Profile 'nosuch' not found; correct or unset"),
    (MISSING, f"missing.pem cannot be read: No such file or directory; correct or unset {', '.join(MISSING)}"),
    ({"TEMPORAL_ADDRESS": "no host"}, "no host cannot be connected to: invalid target URL"),
]
"""Unusable connection settings, and the error about each."""


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"TEMPORAL_ADDRESS": "127.0.0.1:1"},
            "error: no Temporal server answers at 127.0.0.1:1; start one, or set TEMPORAL_ADDRESS to where it is (host:port)",
        ),
        ({"PENSTOCK_METRICS": "9464"}, "error: PENSTOCK_METRICS is '9464', which is no address"),
        *((environment, f"error: {message}") for environment, message in UNUSABLE),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(environment: dict[str, str], message: str) -> None:
    done = _run_worker(environment)

    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("environment", "message"), UNUSABLE)
def test_commands_report_unusable_settings_in_the_same_words(environment: dict[str, str], message: str) -> None:
    done = Commands(environment)("status")

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


def test_when_no_server_answers_over_tls_the_error_says_why_tls_is_on(machine: Machine) -> None:
    secured = {"TEMPORAL_ADDRESS": machine.address, "TEMPORAL_API_KEY": "a-key"}

    worker, command = _run_worker(secured), Commands(secured)("status")

    assert (worker.returncode, command.returncode) == (2, 4)
    assert TLS_ADVICE in worker.stderr
    assert TLS_ADVICE in command.stderr


def test_a_missing_namespace_is_named(machine: Machine) -> None:
    done = _run_worker({"TEMPORAL_ADDRESS": machine.address, "TEMPORAL_NAMESPACE": "elsewhere"})

    assert done.returncode == 2
    assert f"the Temporal server at {machine.address} has no namespace 'elsewhere'" in done.stderr


def test_ctrl_c_during_the_imports_ends_it_without_a_traceback() -> None:
    interrupted = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *rest):
        if name == "temporalio":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module("worker", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_search_attributes_are_registered_once(machine: Machine) -> None:
    async def story() -> None:
        client = await machine.client()
        listed = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
        for name in SEARCH_ATTRIBUTES:
            assert listed.custom_attributes[name] == IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD

        assert await register_attributes(client) == ()

    asyncio.run(story())


def test_a_worker_registers_search_attributes_again_after_the_server_lost_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attributes(machine: Machine) -> set[str]:
        client = await machine.client()
        listed = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
        return {*listed.custom_attributes} & {*SEARCH_ATTRIBUTES}

    async def story(machine: Machine) -> None:
        async with working(await machine.client(), Settings(task_queue="own")):
            machine.server.kill()
            machine.server.start()
            await machine.connected()
            await until(lambda: attributes(machine), lambda found: found == {*SEARCH_ATTRIBUTES})

    monkeypatch.setattr(serving, "GUARD_SECONDS", 0.1)
    with running_machine(tmp_path) as machine:
        assert machine.worker is not None
        machine.worker.kill()
        asyncio.run(story(machine))


def test_a_worker_that_gets_sigterm_stops_in_order_and_the_next_one_continues(machine: Machine) -> None:
    """The only worker stops while slices are being created."""

    async def story() -> None:
        async with staged(machine, group(max_slices=3)) as stage:
            await stage.autoscaler.submit_demand([{"id": f"t{i}", "resources": {"cpu": 4}} for i in range(3)])
            assert machine.worker is not None
            began = time.monotonic()
            code = await asyncio.to_thread(machine.worker.stop, seconds=SECONDS)
            stopped_in = time.monotonic() - began
            await machine.revive_worker()

            status = await stage.eventually(
                stage.autoscaler.status, lambda status: status.groups[0].slices.get(SliceState.READY) == 3
            )
            assert (code, status.slices) == (0, 3)
            assert len(await stage.cloud.ever_made()) == 3
            assert stopped_in < SECONDS / 2

    asyncio.run(story())


def _run_worker(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "PENSTOCK_", "OTEL_"))}
    return subprocess.run(
        [sys.executable, "-m", "worker", *arguments],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
