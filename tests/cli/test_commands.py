"""Commands on a running service: real processes, a real server, a worker, the simulated cloud."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from penstock.cli.render_config import config_text
from penstock.contract.names import SEARCH_ATTRIBUTES
from tests.activities.waiting import until
from tests.cli.relay import relayed
from tests.cli.running import SECONDS, Commands
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged

NOWHERE = "127.0.0.1:9"
DEMAND = [{"id": "work", "count": 4, "resources": {"cpu": 2}}, {"id": "huge", "resources": {"cpu": 999}}]


class Scene:
    """A cluster, and a directory with its files in which commands are given."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        self.cluster = stage.cluster
        self.commands = Commands(stage.machine.environment | {"PENSTOCK_CLUSTER": stage.cluster}, folder=folder)
        (folder / "cluster.yaml").write_text(config_text(stage.config))
        (folder / "demand.json").write_text(json.dumps(DEMAND))

    async def penstock(self, *arguments: str, told: str = "") -> CompletedProcess[str]:
        return await asyncio.to_thread(self.commands, *arguments, told=told)

    async def says(self, *arguments: str, code: int = 0) -> str:
        """What the command says; it must end with this code."""
        done = await self.penstock(*arguments)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    async def json(self, *arguments: str) -> Any:
        return await asyncio.to_thread(self.commands.json, *arguments)

    async def ready(self, count: int) -> None:
        """Wait until so many slices are READY: none of them leaves by itself."""
        await self.stage.eventually(lambda: self.stage.autoscaler.slices(state="READY"), lambda page: page.total == count)


def played(
    machine: Machine, folder: Path, story: Callable[[Scene], Awaitable[None]], *, start: bool = True, **first: Any
) -> None:
    """Play a story on a cluster of its own, with one group in zone a."""

    async def play() -> None:
        async with staged(machine, group(**first), start=start) as stage:
            await story(Scene(stage, folder))

    asyncio.run(play())


def test_a_cluster_is_started_fed_looked_at_and_deleted_by_commands_alone(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "the cluster is started" in await scene.says("config", "apply", "cluster.yaml")
        assert "the configuration is the same" in await scene.says("config", "apply", "cluster.yaml")
        accepted = await scene.says("demand", "submit", "demand.json")
        assert "Accepted 5 tasks of default" in accepted
        assert "penstock status --watch" in accepted
        await scene.ready(2)

        status = await scene.says("status")
        assert "2 READY" in status
        assert "1 unmet (1 insufficient_resources)" in status
        assert "2 slices." in await scene.says("slices", "--state", "ready")
        assert await scene.says("slices", "--page", "99") == "There is no page 99: 2 slices on 1 page.\n"
        assert await scene.says("slices", "--group", "small", "--state", "failed") == "No slices.\n"
        mistyped = await scene.says("slices", "--group", "smal", code=2)
        assert mistyped == "error: no group is called 'smal'\n  Did you mean small?\n" + f"  Groups of {scene.cluster}: small\n"
        assert "'redy' is not one of" in await scene.says("slices", "--state", "redy", code=2)
        assert "fits on READY slices of small" in await scene.says("explain", "work/0")
        assert "No task nobody" in await scene.says("explain", "nobody", code=2)
        assert "insufficient_resources" in await scene.says("decision", code=3)
        assert "agrees: 2 in the ledger, 2 slice workflows, 2 resources" in await scene.says("verify")

        assert "2 slices are being deleted" in await scene.says("delete", scene.cluster, "--force", "--yes")
        assert f"no cluster '{scene.cluster}' runs" in await scene.says("status", code=5)
        assert "agrees: 0 in the ledger" in await scene.says("verify")
        assert await scene.stage.cloud.existing() == []

    played(machine, tmp_path, story, start=False)


def test_programs_get_json(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        accepted = await scene.json("demand", "submit", "demand.json", "--source", "ci")
        assert (accepted["source"], accepted["invalid"]) == ("ci", 0)
        await scene.ready(2)
        status = await scene.json("status")
        assert status["demand"]["ci"]["tasks"] == 5
        assert status["groups"][0]["slices"] == {"READY": 2}
        assert [piece["state"] for piece in (await scene.json("slices"))["slices"]] == ["READY", "READY"]
        assert (await scene.json("decision"))["unmet"][0]["task_ids"] == ["huge"]
        assert (await scene.json("explain", "huge"))["code"] == "insufficient_resources"
        assert (await scene.json("config", "show"))["cluster"] == scene.cluster
        verdict = await scene.json("verify")
        assert (verdict["agrees"], verdict["slices"]) == (True, 2)
        await scene.says("demand", "clear", "--source", "ci")
        assert (await scene.json("status"))["demand"]["ci"]["tasks"] == 0
        assert await scene.json("config", "diff", "cluster.yaml") == {"changes": []}
        deleted = await scene.json("delete", scene.cluster, "--force", "--yes")
        assert (deleted["cluster"], deleted["gone"]) == (scene.cluster, True)

    played(machine, tmp_path, story)


def test_orders_are_answered_and_shown(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        assert "until the cluster is resumed" in await scene.says("pause", "moving house")
        assert "Paused: moving house." in await scene.says("status")
        assert "decisions go on" in await scene.says("resume")
        request = ("request", "notebooks", "--count", "2", "--cpu", "4", "--for", "8h")
        assert await scene.says(*request) == f"{scene.cluster}: the standing request of notebooks holds.\n"
        huge = await scene.says("request", "dreams", "--cpu", "1000")
        assert "the standing request of dreams holds.\nIt is unmet (insufficient_resources: " in huge
        assert (await scene.json("request", "dreams", "--cpu", "1000"))["unmet"].startswith("insufficient_resources: ")
        await scene.says("request", "dreams", "--release")
        await scene.ready(2)
        assert "Standing requests of notebooks." in await scene.says("status")
        (tmp_path / "wants.yaml").write_text("- {count: 1, resources: {cpu: 1}}\n")
        assert "holds" in await scene.says("request", "notebooks", "wants.yaml")
        assert "is withdrawn" in await scene.says("request", "notebooks", "--release")
        assert "small may be asked again" in await scene.says("clear-block", "small")
        slice_id = (await scene.json("slices"))["slices"][0]["id"]
        assert f"{slice_id} drains" in await scene.says("drain", slice_id, "--cause", "noisy fan")
        assert f"{slice_id} is told to serve again" in await scene.says("drain", slice_id, "--cancel")

    played(machine, tmp_path, story, min_slices=1)


def test_a_configuration_is_compared_applied_and_shown(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "would change nothing" in await scene.says("config", "diff", "cluster.yaml")
        wider = (tmp_path / "cluster.yaml").read_text().replace("max_slices: 4", "max_slices: 9")
        (tmp_path / "wider.yaml").write_text(wider)
        assert await scene.says("config", "diff", "wider.yaml", code=1) == "~ groups.small.max_slices: 4 → 9\n"
        (change,) = (await scene.json("config", "diff", "wider.yaml"))["changes"]
        assert change == {"path": "groups.small.max_slices", "before": "4", "after": "9"}
        assert "configuration revision 2 applies" in await scene.says("config", "apply", "wider.yaml")
        assert await scene.says("config", "show") == wider

    played(machine, tmp_path, story)


def test_what_is_refused_is_status_6_and_says_why(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "error: slice_id: no slice is called 'nobody'" in await scene.says("drain", "nobody", code=6)
        assert "error: group: no group is called 'smal'; did you mean small?" in await scene.says("clear-block", "smal", code=6)
        asked = await scene.penstock("delete", scene.cluster, told="n\n")
        assert (asked.returncode, "nothing was deleted" in asked.stderr) == (6, True)
        assert "nobody answered" in (await scene.penstock("delete", scene.cluster)).stderr
        assert not (await scene.stage.autoscaler.status()).closing

    played(machine, tmp_path, story)


def test_a_location_that_cannot_be_listed_is_a_difference(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        await scene.stage.cloud.behave(partial_lists=True)
        told = await scene.says("verify", code=1)
        assert f"No complete list of sim/{scene.stage.cloud.zone()}" in told

    played(machine, tmp_path, story, min_slices=1)


def test_a_view_is_kept_up_to_date_until_it_is_interrupted(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        watching = scene.commands.started("status", "--watch", "--json")
        assert watching.stdout is not None
        try:
            await scene.says("demand", "submit", "demand.json")
            seen: dict[str, Any] = {}
            async with asyncio.timeout(SECONDS):
                while not seen.get("demand"):
                    seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
            watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, SECONDS) == 0
        finally:
            watching.kill()
            watching.communicate()
        assert seen["demand"]["default"]["tasks"] == 5

    played(machine, tmp_path, story)


def test_whoever_leaves_a_deletion_is_told_that_it_goes_on_and_how_to_see_it(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        await scene.stage.cloud.behave(delete_latency=3600)
        leaving = scene.commands.started("delete", scene.cluster, "--force", "--yes")
        assert leaving.stdout is not None
        try:
            async with asyncio.timeout(SECONDS):
                while not (await asyncio.to_thread(leaving.stdout.readline)).startswith("left: "):
                    continue
            leaving.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(leaving.wait, SECONDS) == 130
        finally:
            leaving.kill()
            _, told = leaving.communicate()
        assert told.split("\n") == [
            "",
            f"The deletion of {scene.cluster} goes on.",
            f"  Watch it: penstock status --watch --cluster {scene.cluster}",
            f"  Stay until it is gone: penstock delete {scene.cluster}",
            "",
        ]
        assert (await scene.stage.autoscaler.status()).closing
        await scene.stage.cloud.behave()

    played(machine, tmp_path, story, min_slices=1)


def test_ctrl_c_answers_the_question_whether_to_delete(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        asking = scene.commands.started("delete", scene.cluster)
        assert asking.stdout is not None
        try:
            asked = ""
            async with asyncio.timeout(SECONDS):
                while not asked.endswith("[y/N]: "):
                    asked += await asyncio.to_thread(asking.stdout.read, 1)
            asking.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(asking.wait, SECONDS) == 6
        finally:
            asking.kill()
            _, told = asking.communicate()
        assert "nobody answered, so nothing was deleted" in told

    played(machine, tmp_path, story)


def test_a_view_outlasts_its_server_and_shows_nothing_but_itself(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with relayed(machine.port) as relay:
            watching = scene.commands.started("status", "--watch", "--json", "--address", relay.address)
            assert watching.stdout is not None
            try:
                seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
                relay.away()
                await until(relay.refusals, lambda tries: tries > 8, seconds=SECONDS)
                await scene.says("demand", "submit", "demand.json")
                relay.back()
                async with asyncio.timeout(SECONDS):
                    while not seen["demand"]:
                        seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
            finally:
                watching.kill()
                _, told = watching.communicate()
            assert told == ""

    played(machine, tmp_path, story)


def test_the_only_cluster_is_meant_and_one_of_several_must_be_named(machine: Machine, tmp_path: Path) -> None:
    penstock = Commands(machine.environment, folder=tmp_path)

    async def status() -> CompletedProcess[str]:
        return await asyncio.to_thread(penstock, "status")

    async def story(scene: Scene) -> None:
        alone = await until(status, lambda done: done.returncode == 0, seconds=SECONDS)
        assert f"{scene.cluster}: 0 slices" in alone.stdout
        async with staged(machine) as other:
            asked = await until(status, lambda done: done.returncode == 5, seconds=SECONDS)
            assert all(name in asked.stderr for name in (scene.cluster, other.cluster, "--cluster", "PENSTOCK_CLUSTER"))
        mistyped = await scene.says("status", "--cluster", f"{scene.cluster}x", code=5)
        assert f"Did you mean {scene.cluster}?" in mistyped
        assert f"Did you mean {scene.cluster}?" in await scene.says("verify", "--cluster", f"{scene.cluster}x", code=5)

    played(machine, tmp_path, story)


def test_a_server_without_a_worker_is_told_from_no_server(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.commands.environment["PENSTOCK_TASK_QUEUE"] = "nobody-works-here"
        assert "warning: no worker runs" in await scene.says("config", "apply", "cluster.yaml")
        assert "no worker runs on task queue 'nobody-works-here'" in await scene.says("status", code=4)
        assert "no worker runs" in await scene.says("verify", code=4)
        told = await scene.says("pause", code=4)
        assert "no worker runs" in told
        assert "The server may have the order: then it is carried out once a worker runs" in told
        assert "no worker runs" in await scene.says("demand", "submit", "demand.json", code=4)
        examined = await scene.json("doctor")
        assert [finding["ok"] for finding in examined["findings"]] == [True, False]

    played(machine, tmp_path, story, start=False)


def test_a_server_that_no_worker_prepared_is_refused_with_what_prepares_it(tmp_path: Path) -> None:
    bare = Machine(tmp_path)
    bare.server.start()
    try:
        bare.await_server()
        told = Commands({"TEMPORAL_ADDRESS": bare.address})("config", "apply", "examples/cluster.yaml")
    finally:
        bare.server.kill()
    assert told.returncode == 6
    assert f"A worker registers them when it starts: TEMPORAL_ADDRESS={bare.address} python -m worker" in told.stderr
    assert f"temporal operator search-attribute create --address {bare.address} --namespace default" in told.stderr
    assert all(f"--name {name} --type Keyword" in told.stderr for name in SEARCH_ATTRIBUTES)


def test_the_doctor_finds_server_worker_clusters_and_clouds_well(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        examined = await scene.json("doctor")
        subjects = [finding["subject"] for finding in examined["findings"]]
        assert {"server", "worker", "search attributes", scene.cluster} <= set(subjects)
        assert f"{scene.cluster}: sim/{scene.stage.cloud.zone()}" in subjects
        await scene.stage.cloud.behave(permission_denied="project")
        told = await scene.says("doctor", code=1)
        assert "give the worker's credentials access to" in told

    played(machine, tmp_path, story, min_slices=1)


@pytest.mark.parametrize(
    "arguments", [("status",), ("config", "apply", "examples/cluster.yaml"), ("demand", "clear"), ("verify",)]
)
def test_no_server_is_status_4_and_says_how_to_start_or_point_to_one(arguments: tuple[str, ...]) -> None:
    told = Commands({"TEMPORAL_ADDRESS": NOWHERE})(*arguments)
    assert told.returncode == 4
    assert f"error: no Temporal server answers at {NOWHERE} (Connection refused)" in told.stderr
    assert "make run" in told.stderr
    assert "--address HOST:PORT" in told.stderr


def test_whatever_else_answers_is_told_from_a_server(machine: Machine) -> None:
    other = machine.url.removeprefix("http://")
    told = Commands({"TEMPORAL_ADDRESS": other})("status")
    assert told.returncode == 4
    assert told.stderr.startswith(f"error: something answers at {other} that is not a Temporal server (is this the UI's port?)\n")


def test_the_doctor_says_that_there_is_no_server() -> None:
    told = Commands()("doctor", "--address", NOWHERE)
    assert (told.returncode, f"✗ server: no Temporal server answers at {NOWHERE}" in told.stdout) == (1, True)


def test_the_service_that_runs_in_this_directory_is_meant(tmp_path: Path) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "address").write_text(f"{NOWHERE}\n")
    assert f"at {NOWHERE}" in Commands(folder=tmp_path)("status").stderr


def test_every_mistake_in_a_file_is_told_with_its_line_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "demand.yaml").write_text("- {id: a, cpus: 1}\n- {id: b, resources: {cpu: many}}\n")
    (tmp_path / "cluster.yaml").write_text("cluster: c\ngroups:\n  - {name: a, max_slices: x}\n")
    (tmp_path / "wants.yaml").write_text("- {count: 1, resource: {cpu: 1}}\n")
    penstock = Commands({"TEMPORAL_ADDRESS": NOWHERE}, folder=tmp_path)
    for arguments, mistakes in (
        (
            ("demand", "submit", "demand.yaml"),
            ("demand.yaml:1: tasks[0].cpus: unknown key", "demand.yaml:2: tasks[1].resources.cpu"),
        ),
        (("config", "apply", "cluster.yaml"), ("cluster.yaml:3: groups[0].max_slices: 'x' is not a number",)),
        (("demand", "submit", "cluster.yaml"), ("cluster.yaml:1: cluster: unknown key; known keys: tasks",)),
        (("config", "diff", "missing.yaml"), ("missing.yaml: no such file",)),
        (("request", "me", "wants.yaml"), ("wants.yaml:1: wants[0].resource: unknown key; did you mean resources?",)),
        (("request", "me"), ("give a FILE or amounts such as --cpu 4",)),
        (("request", "me", "--cpu", "1", "--for", "long"), ("--for: 'long' is not a duration",)),
    ):
        told = penstock(*arguments)
        assert told.returncode == 2
        assert all(mistake in told.stderr for mistake in mistakes), told.stderr


def test_of_thousands_of_mistakes_the_first_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    (tmp_path / "demand.json").write_text(json.dumps([{"id": f"t{i}", "colour": "red"} for i in range(2000)], indent=1))
    told = Commands({"TEMPORAL_ADDRESS": NOWHERE}, folder=tmp_path)("demand", "submit", "demand.json")
    lines = told.stderr.splitlines()
    assert (told.returncode, len(lines), lines[-1]) == (2, 31, "and 1,970 more")
    assert lines[29].startswith("error: demand.json:120: tasks[29].colour: unknown key")
