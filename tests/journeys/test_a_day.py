"""A day in the life of a cluster with a small controller: a burst, idleness, scale to zero, and waking up again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.config.demand import DemandFile
from tests.activities.local_cloud import LocalCloud, RunningLocal, local_cloud
from tests.journeys.facts import agreed_by_command, quiet
from tests.journeys.small_controller import controlled, idle
from tests.workflows.ledgers import verified
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged

SOON: dict[str, Any] = {"idle_timeout": "500ms", "cancel_after": "500ms"}
BURST: list[dict[str, Any]] = [
    {"id": "train", "count": 2, "gang": {"size": 2}, "resources": {"cpu": 4, "gpu": 1}},
    {"id": "impossible", "gang": {"size": 3}, "resources": {"gpu": 1}},
    {"id": "prepare", "count": 6, "resources": {"cpu": 2}},
]


def test_the_example_s_controller_runs_its_tasks_and_the_cluster_shrinks_to_its_minimum(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus: dict[str, Any] = {"device": {"type": "gpu"}, "host": {"cpu": 4, "memory": "16GiB", "gpu": 1}, "hosts_per_slice": 2}

    async def story() -> None:
        async with (
            staged(machine, group(min_slices=1, **SOON), group("pairs", **gpus, **SOON)) as stage,
            controlled(stage, BURST) as controller,
        ):
            await idle(stage, controller, waiting=["impossible"])
            await quiet(stage, small=1)
        said = capsys.readouterr().out.splitlines()
        jobs = {"train/0", "train/1", *(f"prepare/{i}" for i in range(6))}
        assert {line.split()[0] for line in said if line.endswith(" has finished")} == jobs
        started = {line.split()[0]: line.split()[-1] for line in said if " starts on " in line}
        assert {job for job, slice_id in started.items() if slice_id.startswith("pairs-")} == {"train/0", "train/1"}
        assert all(f"{slice_id} is READY" in said for slice_id in started.values())
        assert all(
            any(f"{slice_id} is empty: drain " in line for line in said) for slice_id in started.values() if "pairs" in slice_id
        )

    asyncio.run(story())


def test_a_burst_idleness_scale_to_zero_and_waking_up_on_hosts_of_this_machine(machine: Machine, tmp_path: Path) -> None:
    daemon = RunningLocal(tmp_path / "hosts")
    daemon.start()
    provider = {"kind": "local", "url": daemon.url, "token": {"secret": f"file:{daemon.state / 'token'}"}}

    async def story() -> None:
        async with (
            staged(machine, group("hosts", provider=provider, max_slices=3, **SOON)) as stage,
            local_cloud(daemon) as hosts,
            controlled(stage, _tasks("morning", 9)) as controller,
        ):
            await _up(stage, hosts, most=3)
            await idle(stage, controller)
            await _down_to_zero(stage, hosts)
            controller.waiting += DemandFile.model_validate({"tasks": _tasks("noon", 2)}).tasks
            await _up(stage, hosts, most=1)
            await idle(stage, controller)
            await _down_to_zero(stage, hosts)
            made = [item["labels"]["penstock-slice"] for item in (await hosts.call("GET", "/resources"))["items"]]
            assert len(made) == len({*made})
            await agreed_by_command(stage)

    try:
        asyncio.run(story())
    finally:
        daemon.shut_down()


def _tasks(name: str, count: int) -> list[dict[str, Any]]:
    return [{"id": f"{name}-{i}", "resources": {"cpu": 2}} for i in range(count)]


async def _up(stage: Stage, hosts: LocalCloud, *, most: int) -> None:
    """Return once processes run for the cluster; there are never more slices than the demand is worth."""
    found = await stage.eventually(lambda: _running(hosts), lambda found: found)
    assert len(found) <= most


async def _down_to_zero(stage: Stage, hosts: LocalCloud) -> None:
    """Return once no process runs for the cluster, and everybody agrees that there is nothing."""
    await stage.eventually(lambda: _running(hosts), lambda found: not found)
    await stage.eventually(stage.autoscaler.status, lambda status: status.slices == 0 and not status.drains)
    verdict = await verified(stage)
    assert verdict.agrees, verdict
    assert (verdict.slices, verdict.workflows, verdict.resources) == (0, 0, 0)


async def _running(hosts: LocalCloud) -> list[str]:
    """Slices with a process that lives."""
    items = (await hosts.call("GET", "/resources"))["items"]
    alive = [item for item in items if any(Path(f"/proc/{host.get('pid')}").exists() for host in item.get("hosts", []))]
    return [item["labels"]["penstock-slice"] for item in alive]
