"""examples/controller.py, started as README says: it runs its tasks on what it is given, whatever restarts meanwhile."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded.ports import free_port
from tests.activities.waiting import until
from tests.cli.running import Commands
from tests.embedded.launched import CLUSTER, EXAMPLES, SECONDS, Embedded, clean_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel ends orphans, and /proc lists processes, on Linux only"
)
PAIRS = {"max_slices": 1, "hosts_per_slice": 2, "device": {"type": "gpu"}, "host": {"cpu": 4, "gpu": 1}}
GROUPS = [
    {"name": "small", "zone": "west-a", "idle_timeout": "1s", "min_slices": 1, "max_slices": 3, "host": {"cpu": 4}},
    {"name": "pairs", "zone": "west-a", "idle_timeout": "1s"} | PAIRS,
]
TASKS = [
    {"id": "train", "gang": {"size": 2}, "resources": {"gpu": 1}},
    {"id": "prepare", "count": 9, "resources": {"cpu": 2}},
]
JOBS = {"train", *(f"prepare/{i}" for i in range(9))}


def test_it_runs_its_tasks_across_a_restart_and_the_cluster_shrinks_to_its_minimum(tmp_path: Path) -> None:
    service = Embedded(tmp_path, port=free_port(), ui_port=free_port())
    _copy_example(tmp_path)

    async def said() -> str:
        return (tmp_path / "said").read_text()

    async def story() -> None:
        service.start()
        await service.ready()
        with _controller(tmp_path) as controller:
            await until(said, lambda text: " has finished" in text, seconds=SECONDS)
            service.send(signal.SIGTERM)
            service.start()
            await service.ready()
            await until(said, lambda text: _first_words(text, " has finished") == JOBS, seconds=SECONDS)
            penstock = Commands(folder=tmp_path)

            async def slices() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = (await asyncio.to_thread(penstock.json, "slices"))["slices"]
                return found

            left = await until(slices, lambda found: len(found) == 1, seconds=SECONDS)
            assert (left[0]["group"], left[0]["state"]) == ("small", "READY")
            controller.send_signal(signal.SIGINT)
            assert controller.wait(SECONDS) == 0
        text = await said()
        assert "Traceback" not in text
        places = {line.split()[-1] for line in text.splitlines() if " starts on " in line}
        assert _first_words(text, " is READY") >= places
        assert {place.split("-")[0] for place in places} == {"small", "pairs"}

    try:
        asyncio.run(story())
    finally:
        service.end()


def test_it_is_as_short_as_an_example_should_be() -> None:
    assert len((EXAMPLES / "controller.py").read_text().splitlines()) < 80


def _first_words(text: str, ending: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines() if line.endswith(ending)}


def _copy_example(folder: Path) -> None:
    """The example beside files of its own, with tasks that take a second."""
    text = (EXAMPLES / "controller.py").read_text()
    (folder / "controller.py").write_text(text.replace("seconds: float = 20", "seconds: float = 1"))
    assert "seconds: float = 20" in text
    (folder / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER | {"groups": GROUPS}))
    (folder / "demand.json").write_text(json.dumps({"tasks": TASKS}))


@contextmanager
def _controller(folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The controller, started in its folder; its output is in a file there."""
    command = [sys.executable, "-u", "controller.py"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=clean_environment(), cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
