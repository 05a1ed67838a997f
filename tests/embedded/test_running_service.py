"""A running `make run` is found by commands, programs and Temporal's own tools, and README's examples run on it as printed."""

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Commands
from tests.embedded.launched import EXAMPLES, ROOT, SECONDS, Embedded, clean_environment, servers_of, taken_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc lists processes on Linux only")
README = (ROOT / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
TEMPORAL_COMMANDS = re.findall(r"^(?:\$ )?\.venv/bin/(temporal (?:.*\\\n)*.*)$", README, flags=re.MULTILINE)
CONNECT = """
import asyncio
from penstock.connection import connect
print(asyncio.run(connect()).service_client.config.target_host)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """README's example cluster, on ports other than the usual ones; shared by the tests of this module."""
    with taken_port() as taken:
        running = Embedded(tmp_path_factory.mktemp("service"), port=taken, ui_port=taken)
        running.cluster_file = EXAMPLES / "cluster.yaml"
        running.start()
        try:
            asyncio.run(running.ready())
            assert not running.address.endswith(f":{taken}")
            yield running
        finally:
            running.end()


def _run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_the_start_prints_what_runs_and_what_to_type_next(service: Embedded) -> None:
    assert servers_of(service) == ["emulators.sim", "server start-dev"]
    for part in ("Temporal server", "simulated cloud", "worker", "cluster demo"):
        assert f"{part}: starting… ready in " in service.output
    for line in (
        "Temporal UI: http://127.0.0.1:",
        "penstock status --watch",
        "penstock demand submit",
        f"temporal --config-file {service.data_dir}/temporal.toml workflow list",
    ):
        assert line in service.output
    assert "export" not in service.output


def test_a_second_start_on_the_same_data_is_refused(service: Embedded) -> None:
    folder = service.folder / "second"
    folder.mkdir()
    second = Embedded(folder)
    second.data_dir = service.data_dir
    second.start()

    assert second.exit_code() == 2
    assert f"error: {service.data_dir} is in use by process {service.process and service.process.pid}" in second.output
    assert f"server at {service.address}" in second.output


def test_programs_and_commands_find_it_from_a_folder_below(service: Embedded) -> None:
    below = service.folder / "some" / "where"
    below.mkdir(parents=True)
    connected = _run([sys.executable, "-c", CONNECT], below)
    assert connected.stdout.strip() == service.address, connected.stderr

    penstock = Commands(folder=below)
    assert penstock("status").stdout.startswith("demo")
    assert penstock("sim", "list").returncode == 0


@pytest.mark.parametrize("code", PYTHON_BLOCKS, ids=[block.strip().splitlines()[0] for block in PYTHON_BLOCKS])
def test_readmes_python_runs_as_printed(service: Embedded, code: str) -> None:
    done = _run([sys.executable, "-c", code], service.folder)

    assert done.returncode == 0, done.stderr
    for result in re.findall(r"^print\(.*\)  # (\{.*\})$", code, flags=re.MULTILINE):
        assert result in done.stdout


@pytest.mark.parametrize("command", TEMPORAL_COMMANDS, ids=[f"command {i + 1}" for i in range(len(TEMPORAL_COMMANDS))])
def test_readmes_temporal_command_runs_as_printed(service: Embedded, command: str) -> None:
    program, *arguments = shlex.split(command.replace("\\\n", ""))
    done = _run([str(Path(sys.executable).with_name(program)), *arguments], service.folder)

    assert done.returncode == 0, done.stderr


def test_readme_has_examples_to_run() -> None:
    assert len(PYTHON_BLOCKS) >= 2
    assert TEMPORAL_COMMANDS


def test_make_clean_refuses_to_remove_what_it_runs_on(service: Embedded) -> None:
    (service.folder / ".venv").mkdir()
    clean = [sys.executable, "-m", "embedded.clean", "--data"]
    done = _run(clean, service.folder)
    pid = service.process and service.process.pid

    assert done.returncode == 1
    assert f"the service in .penstock/ (process {pid}); stop it with Ctrl-C in its terminal, or: kill {pid}" in done.stderr
    assert (service.folder / ".venv").exists()
    assert service.address
