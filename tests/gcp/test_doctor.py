"""`penstock doctor` on Google's clouds: its findings and fixes."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from activities.clock_skew import SET_CLOCK
from penstock.contract.answers import Finding
from penstock.model.cluster import ClusterConfig
from tests.cli.running import Commands
from tests.gcp.machine import GcpMachine, running_gcp_machine
from tests.gcp.machine_stage import GcpStage, gangs, staged, tpu, vm
from tests.workflows.ledgers import state_of
from tests.workflows.test_demand import tasks

LOGIN = "gcloud auth application-default login"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpMachine]:
    """A service whose worker has no Google credentials."""
    folder = tmp_path_factory.mktemp("google")
    no_login = {"GOOGLE_APPLICATION_CREDENTIALS": "", "CLOUDSDK_CONFIG": str(folder / "gcloud"), "NO_GCE_CHECK": "true"}
    with running_gcp_machine(folder, no_login) as running:
        yield running


async def run_doctor(stage: GcpStage) -> dict[str, Finding]:
    """The doctor's findings, by subject."""
    report = await asyncio.to_thread(Commands(stage.machine.environment).json, "doctor")
    found = [Finding.model_validate(finding) for finding in report["findings"]]
    return {finding.subject: finding for finding in found}


def test_passed_checks_of_googles_clouds_are_reported(machine: GcpMachine) -> None:
    async def play() -> None:
        async with staged(machine, tpu("v5e", "west-a"), vm("vm", "west-a")) as stage:
            await stage.autoscaler.submit_demand(gangs(1))
            await stage.quiet(v5e=1)
            found = await run_doctor(stage)
            project, zone = stage.cloud.project, stage.cloud.zone("west-a")
            expected = {
                "server",
                "worker",
                "search attributes",
                stage.cluster,
                f"gcp-tpu:{project}: credentials",
                f"gcp-tpu:{project}: clock",
                f"gce:{project}: clock",
                f"gce:{project}: quotas",
                f"gce:{project}: quotas in {zone.rpartition('-')[0]}",
                f"{stage.cluster}: gcp-tpu:{project}/{zone}",
                f"{stage.cluster}: gce:{project}/{zone}",
            }
            assert expected <= found.keys()
            assert all(found[subject].ok for subject in expected), found

    asyncio.run(play())


def test_quotas_labels_and_orders_that_need_attention_are_reported_with_what_to_do(machine: GcpMachine) -> None:
    groups = [
        vm("vm", "west-a"),
        gpu("l4", "west-a", machine_type="g2-standard-48"),
        tpu("odd", "west-a", provider={"kind": "gcp-tpu", "runtime": "v2"}),
        tpu("secret", "west-a", provider={"kind": "gcp-tpu", "startup_script": {"secret": "env:PENSTOCK_TEST_NOT_SET"}}),
    ]

    async def play() -> None:
        async with staged(machine, *groups) as stage:
            project, zone = stage.cloud.project, stage.cloud.zone("west-a")
            await stage.cloud.behave("west-a", quota={"scope": "region", "limit": 2, "metric": "NVIDIA_L4_GPUS"})
            labels = {"penstock-cluster": stage.cluster, "penstock-group": "vm", "penstock-resource": "changed"}
            await stage.cloud.admin.add_stranger("changed", kind="instance", project=project, zone=zone, labels=labels)
            found = await run_doctor(stage)

            region = zone.rpartition("-")[0]
            quota = found[f"gce:{project}: quotas in {region}"]
            assert "the groups may need 12 NVIDIA_L4_GPUS, the quota is 2" in quota.message
            assert "lower max_slices" in quota.fix
            label = found[f"{stage.cluster}: gce:{project}/{zone} labels"]
            assert label.message.startswith("changed: labelled as")
            assert "by hand" in label.fix
            assert "provider.runtime: unknown key; did you mean runtime_version?" in found[f"{stage.cluster}: odd"].message
            assert "PENSTOCK_TEST_NOT_SET" in found[f"{stage.cluster}: secret"].message

    asyncio.run(play())


def test_a_clock_that_is_an_hour_off_is_reported_with_what_to_do(machine: GcpMachine) -> None:
    async def play() -> None:
        async with cloud_of_an_hour_ago() as endpoint:
            late = vm("vm", "west-a")
            async with staged(machine, late | {"provider": late["provider"] | {"endpoint": endpoint}}) as stage:
                found = await run_doctor(stage)
            clock = found[f"gce:{stage.cloud.project}: clock"]
            assert (clock.ok, clock.fix) == (False, SET_CLOCK)
            skew = re.fullmatch(r"the worker's is (\d+) s ahead of it", clock.message)
            assert skew is not None, clock
            assert 3600 <= int(skew[1]) < 3700
            assert all(finding.ok for subject, finding in found.items() if subject.startswith("clock of worker"))

    asyncio.run(play())


@asynccontextmanager
async def cloud_of_an_hour_ago() -> AsyncIterator[str]:
    """The address of a server whose Date header is an hour old."""

    async def answer(_: web.Request) -> web.Response:
        then = datetime.now(UTC) - timedelta(hours=1)
        return web.Response(status=503, headers={"Date": format_datetime(then, usegmt=True)})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def gpu(name: str, zone: str, *, machine_type: str) -> dict[str, Any]:
    made = vm(name, zone, host={"cpu": 48, "memory": "192GiB", "gpu": 4}, device={"type": "gpu", "variant": "l4"})
    return made | {"provider": made["provider"] | {"machine_type": machine_type}}


def test_without_credentials_one_sentence_says_so_in_log_status_and_doctor(machine: GcpMachine) -> None:
    google = {"kind": "gcp-tpu", "endpoint": None, "tpu_endpoint": None}

    async def play() -> None:
        async with staged(machine, tpu("v5e", "west-a", provider=google)) as stage:
            state = await stage.eventually(lambda: state_of(stage), lambda state: state.blocks)
            (block,) = state.blocks
            assert LOGIN in block.health.reason
            (group,) = (await stage.autoscaler.status()).groups
            assert (group.availability, group.reason) == ("disabled", block.health.reason)
            found = await run_doctor(stage)
            credentials = found[f"gcp-tpu:{stage.cloud.project}: credentials"]
            assert not credentials.ok
            assert LOGIN in credentials.fix
            assert not found[f"{stage.cluster}: v5e"].ok
            assert machine.worker is not None
            log = machine.worker.log.read_text()
            assert log.count(f"gcp-tpu:{stage.cloud.project}: No usable Google credentials") == 1, log

    asyncio.run(play())


def test_what_people_mended_is_noticed_without_them(machine: GcpMachine) -> None:
    broken = vm("broken", "east-a", priority=2)

    async def play() -> None:
        groups = [vm("vm", "west-a", priority=1, max_slices=1), broken | {"provider": broken["provider"] | {"reach": "far"}}]
        async with staged(machine, *groups, start=False) as stage:
            await stage.cloud.behave("west-a", permission_denied="project")
            await stage.autoscaler.start(stage.config)
            state = await stage.eventually(lambda: state_of(stage), lambda state: len(state.blocks) == 2)
            assert state.recovery is not None
            assert {block.health.availability for block in state.blocks} == {"disabled"}
            assert "provider.reach" in " ".join(block.health.reason for block in state.blocks)

            await stage.cloud.behave("west-a")
            config = stage.config.model_dump(mode="json")
            config["groups"][1]["provider"]["reach"] = "internal"
            await stage.autoscaler.apply_config(ClusterConfig.model_validate(config))
            await stage.autoscaler.submit_demand(tasks(2, cpu=4))
            await stage.quiet(vm=1, broken=1)
            assert (await state_of(stage)).blocks == ()

    asyncio.run(play())
