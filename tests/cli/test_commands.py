"""Commands on a running service: real processes, a Temporal server, a worker, the simulated cloud."""

import asyncio
import json
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any

import pytest

from penstock.contract.names import SEARCH_ATTRIBUTES
from tests.activities.waiting import until
from tests.cli.relay import relayed
from tests.cli.running import SECONDS, Commands
from tests.cli.scene import Scene, played
from tests.workflows.machine import Machine
from tests.workflows.stage import staged

NOWHERE = "127.0.0.1:9"


def test_a_cluster_is_started_given_demand_queried_and_deleted_by_commands_alone(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "Started the cluster" in await scene.output("config", "apply", "cluster.yaml")
        assert "Configuration unchanged: it is revision 1 already." in await scene.output("config", "apply", "cluster.yaml")
        accepted = await scene.output("demand", "submit", "demand.json")
        assert "Accepted 5 tasks of source default" in accepted
        assert "penstock status --watch" in accepted
        await scene.ready(2)

        status = await scene.output("status")
        assert "2 READY" in status
        assert "1 unmet (1 insufficient_resources)" in status
        assert "2 slices." in await scene.output("slices", "--state", "ready")
        assert await scene.output("slices", "--page", "99") == "There is no page 99: 2 slices on 1 page.\n"
        assert await scene.output("slices", "--group", "small", "--state", "failed") == "No slices.\n"
        mistyped = await scene.output("slices", "--group", "smal", code=2)
        assert mistyped == "error: there is no group 'smal'\n  Did you mean small?\n" + f"  Groups of {scene.cluster}: small\n"
        assert "'redy' is not one of" in await scene.output("slices", "--state", "redy", code=2)
        assert "fits on READY slices of small" in await scene.output("explain", "work/0")
        slice_id = (await scene.json("slices"))["slices"][0]["id"]
        explained = await scene.output("explain", slice_id)
        assert explained.startswith(f"Slice {slice_id} is kept (READY for ")
        assert (await scene.json("explain", slice_id))["status"] == "kept"
        listed = (await scene.json("slices"))["about"][slice_id]
        assert (bool(listed["why"]), listed["ordered_at"] is not None) == (True, True)
        assert "gone" in await scene.output("explain", "small-261116-115900-00ff00ff", code=2)
        assert "No task or gang nobody" in await scene.output("explain", "nobody", code=2)
        assert "insufficient_resources" in await scene.output("decision", code=3)
        assert "agrees: 2 in the ledger, 2 slice workflows, 2 resources" in await scene.output("verify")

        assert "Deleting 2 slices, then the cluster." in await scene.output("delete", scene.cluster, "--force", "--yes")
        assert f"no cluster '{scene.cluster}' runs" in await scene.output("status", code=5)
        assert "agrees: 0 in the ledger" in await scene.output("verify")
        assert await scene.stage.cloud.existing() == []

    played(machine, tmp_path, story, start=False)


def test_every_answer_is_available_as_json(machine: Machine, tmp_path: Path) -> None:
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
        await scene.output("demand", "clear", "--source", "ci")
        assert (await scene.json("status"))["demand"]["ci"]["tasks"] == 0
        assert await scene.json("config", "diff", "cluster.yaml") == {"changes": [], "effects": None}
        deleted = await scene.json("delete", scene.cluster, "--force", "--yes")
        assert (deleted["cluster"], deleted["gone"]) == (scene.cluster, True)

    played(machine, tmp_path, story)


def test_an_operators_commands_are_answered_and_shown(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        assert "Paused: nothing is launched or drained until the cluster is resumed." in await scene.output(
            "pause", "moving house"
        )
        assert "Paused: moving house." in await scene.output("status")
        assert ": Resumed.\n" in await scene.output("resume")
        request = ("request", "notebooks", "--count", "2", "--cpu", "4", "--for", "8h")
        assert await scene.output(*request) == f"{scene.cluster}: Standing request notebooks is active.\n"
        huge = await scene.output("request", "dreams", "--cpu", "1000")
        assert "Standing request dreams is active.\nIt cannot be met right now (insufficient_resources: " in huge
        assert (await scene.json("request", "dreams", "--cpu", "1000"))["unmet"].startswith("insufficient_resources: ")
        await scene.output("request", "dreams", "--release")
        await scene.ready(2)
        assert "│ notebooks │ met " in await scene.output("status")
        (tmp_path / "wants.yaml").write_text("- {count: 1, resources: {cpu: 1}}\n")
        assert "is active" in await scene.output("request", "notebooks", "wants.yaml")
        assert "Withdrew standing request notebooks." in await scene.output("request", "notebooks", "--release")
        assert "Cleared the block of group small." in await scene.output("clear-block", "small")
        slice_id = (await scene.json("slices"))["slices"][0]["id"]
        assert f"Keeping slice {slice_id} until " in await scene.output("keep", slice_id, "--for", "2h")
        assert f"Cordoned slice {slice_id}: " in await scene.output("cordon", slice_id)
        assert "READY (kept) (cordoned)" in await scene.output("slices")
        assert "no voluntary drain begins" in await scene.output("slice", slice_id)
        assert f"Slice {slice_id} is no longer kept." in await scene.output("keep", slice_id, "--off")
        assert f"Slice {slice_id} takes work again." in await scene.output("uncordon", slice_id)
        assert "give --for, such as --for 2h, or --off" in await scene.output("keep", slice_id, code=2)
        assert "'soon' is not a duration" in await scene.output("keep", slice_id, "--for", "soon", code=2)
        assert f"Draining slice {slice_id}." in await scene.output("drain", slice_id, "--cause", "noisy fan")
        assert f"Cancelling the drain of slice {slice_id}: it returns to READY." in await scene.output(
            "drain", slice_id, "--cancel"
        )

    played(machine, tmp_path, story, min_slices=1)


def test_a_configuration_is_compared_applied_and_shown(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "would change nothing" in await scene.output("config", "diff", "cluster.yaml")
        wider = (tmp_path / "cluster.yaml").read_text().replace("max_slices: 4", "max_slices: 9")
        (tmp_path / "wider.yaml").write_text(wider)
        assert await scene.output("config", "diff", "wider.yaml", code=1) == (
            "~ groups.small.max_slices: 4 → 9\nNothing would be launched or drained for it now.\n"
        )
        (tmp_path / "warm.yaml").write_text(wider.replace("max_slices: 9", "max_slices: 9\n  warm_slices: 2"))
        assert "small │   0 │          2" in await scene.output("config", "diff", "warm.yaml", code=1)
        difference = await scene.json("config", "diff", "warm.yaml")
        assert difference["effects"]["launches"] == [{"group": "small", "before": 0, "after": 2}]
        (change,) = (await scene.json("config", "diff", "wider.yaml"))["changes"]
        assert change == {"path": "groups.small.max_slices", "before": "4", "after": "9"}
        applied = await scene.output("config", "apply", "wider.yaml")
        assert applied.splitlines() == [
            f"{scene.cluster}: Applied configuration revision 2: 1 change.",
            "~ groups.small.max_slices: 4 → 9",
            f"Next: penstock status --cluster {scene.cluster}",
        ]
        assert (await scene.json("config", "apply", "cluster.yaml"))["changes"] == [change | {"before": "9", "after": "4"}]
        await scene.output("config", "apply", "wider.yaml")
        assert await scene.output("config", "show") == wider

    played(machine, tmp_path, story)


def test_a_refusal_is_status_6_with_its_reason(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert "error: slice_id: there is no slice 'nobody'" in await scene.output("drain", "nobody", code=6)
        assert "error: group: there is no group 'smal'; did you mean small?" in await scene.output("clear-block", "smal", code=6)
        asked = await scene.penstock("delete", scene.cluster, given="n\n")
        assert (asked.returncode, "nothing was deleted" in asked.stderr) == (6, True)
        assert (
            "no answer, so nothing was deleted; --yes skips the question"
            in (await scene.penstock("delete", scene.cluster)).stderr
        )
        assert not (await scene.stage.autoscaler.status()).closing

    played(machine, tmp_path, story)


def test_a_location_that_cannot_be_listed_is_a_difference(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        await scene.stage.cloud.behave(partial_lists=True)
        printed = await scene.output("verify", code=1)
        assert f"No complete list of sim/{scene.stage.cloud.zone()}" in printed

    played(machine, tmp_path, story, min_slices=1)


def test_a_live_view_prints_every_change_until_ctrl_c_and_then_nothing(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        watching = scene.commands.started("status", "--watch", "--json")
        assert watching.stdout is not None
        try:
            await scene.output("demand", "submit", "demand.json")
            seen: dict[str, Any] = {}
            async with asyncio.timeout(SECONDS):
                while not seen.get("demand"):
                    seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
            watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, SECONDS) == 130
        finally:
            watching.kill()
            rest, errors = watching.communicate()
        assert all(json.loads(line)["cluster"] == scene.cluster for line in rest.splitlines())
        assert errors == ""
        assert seen["demand"]["default"]["tasks"] == 5

    played(machine, tmp_path, story)


def test_ctrl_c_while_waiting_for_a_deletion_says_that_it_continues_and_how_to_follow_it(
    machine: Machine, tmp_path: Path
) -> None:
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
            _, errors = leaving.communicate()
        assert errors.split("\n") == [
            "",
            f"The deletion of {scene.cluster} continues.",
            f"  Watch it: penstock status --watch --cluster {scene.cluster}",
            f"  Wait for its end: penstock delete {scene.cluster}",
            "",
        ]
        assert (await scene.stage.autoscaler.status()).closing
        await scene.stage.cloud.behave()

    played(machine, tmp_path, story, min_slices=1)


def test_ctrl_c_at_the_question_whether_to_delete_deletes_nothing(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        asking = scene.commands.started("delete", scene.cluster)
        assert asking.stdout is not None
        try:
            asked = ""
            async with asyncio.timeout(SECONDS):
                while not asked.endswith("[y/N]: "):
                    asked += await asyncio.to_thread(asking.stdout.read, 1)

            async def interrupted() -> int | None:
                """A signal that comes just before the process begins to read the answer does not end the read."""
                asking.send_signal(signal.SIGINT)
                with suppress(TimeoutExpired):
                    return await asyncio.to_thread(asking.wait, 2.0)
                return None

            assert await until(interrupted, lambda status: status is not None, seconds=SECONDS) == 130
        finally:
            asking.kill()
            _, errors = asking.communicate()
        assert errors.strip() == "error: nothing was deleted"
        assert not (await scene.stage.autoscaler.status()).closing

    played(machine, tmp_path, story)


def test_a_live_view_outlasts_an_outage_of_its_server_without_errors(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with relayed(machine.port) as relay:
            watching = scene.commands.started("status", "--watch", "--json", "--address", relay.address)
            assert watching.stdout is not None
            try:
                seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
                relay.cut()
                await until(relay.refusals, lambda tries: tries > 8, seconds=SECONDS)
                await scene.output("demand", "submit", "demand.json")
                relay.mend()
                async with asyncio.timeout(SECONDS):
                    while not seen["demand"]:
                        seen = json.loads(await asyncio.to_thread(watching.stdout.readline))
            finally:
                watching.kill()
                _, errors = watching.communicate()
            assert errors == ""

    played(machine, tmp_path, story)


def test_the_only_cluster_is_the_default_and_one_of_several_must_be_named(machine: Machine, tmp_path: Path) -> None:
    penstock = Commands(machine.environment, folder=tmp_path)

    async def status() -> CompletedProcess[str]:
        return await asyncio.to_thread(penstock, "status")

    async def story(scene: Scene) -> None:
        alone = await until(status, lambda done: done.returncode == 0, seconds=SECONDS)
        assert f"{scene.cluster}: 0 slices" in alone.stdout
        async with staged(machine) as other:
            asked = await until(status, lambda done: done.returncode == 5, seconds=SECONDS)
            assert all(name in asked.stderr for name in (scene.cluster, other.cluster, "--cluster", "PENSTOCK_CLUSTER"))
        mistyped = await scene.output("status", "--cluster", f"{scene.cluster}x", code=5)
        assert f"Did you mean {scene.cluster}?" in mistyped
        assert f"Did you mean {scene.cluster}?" in await scene.output("verify", "--cluster", f"{scene.cluster}x", code=5)

    played(machine, tmp_path, story)


def test_a_server_without_a_worker_is_not_reported_as_no_server(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.commands.environment["PENSTOCK_TASK_QUEUE"] = "no-such-queue"
        assert "warning: no worker runs" in await scene.output("config", "apply", "cluster.yaml")
        assert "no worker runs on task queue 'no-such-queue'" in await scene.output("status", code=4)
        assert "no worker runs" in await scene.output("verify", code=4)
        printed = await scene.output("pause", code=4)
        assert "no worker runs" in printed
        assert "The order may have reached the server: then it is carried out once a worker runs" in printed
        assert "no worker runs" in await scene.output("demand", "submit", "demand.json", code=4)
        report = await scene.json("doctor")
        assert [finding["ok"] for finding in report["findings"]] == [True, False]

    played(machine, tmp_path, story, start=False)


def test_missing_search_attributes_are_reported_with_the_command_that_adds_them(tmp_path: Path) -> None:
    bare = Machine(tmp_path)
    bare.server.start()
    try:
        bare.await_server()
        done = Commands({"TEMPORAL_ADDRESS": bare.address})("config", "apply", "examples/cluster.yaml")
    finally:
        bare.server.kill()
    assert done.returncode == 6
    assert f"A worker registers them within 30 s: TEMPORAL_ADDRESS={bare.address} python -m worker" in done.stderr
    assert f"temporal operator search-attribute create --address {bare.address} --namespace default" in done.stderr
    assert all(f"--name {name} --type Keyword" in done.stderr for name in SEARCH_ATTRIBUTES)


def test_the_doctor_checks_server_worker_clusters_and_clouds(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        report = await scene.json("doctor")
        subjects = [finding["subject"] for finding in report["findings"]]
        assert {"server", "worker", "search attributes", scene.cluster} <= set(subjects)
        assert f"{scene.cluster}: sim/{scene.stage.cloud.zone()}" in subjects
        await scene.stage.cloud.behave(permission_denied="project")
        printed = await scene.output("doctor", code=1)
        assert "give the worker's credentials access to" in printed

    played(machine, tmp_path, story, min_slices=1)


def test_a_terminated_autoscaler_is_restored_by_one_command(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        await scene.output("pause", "a freeze")
        await scene.stage.workflow.terminate("by hand")
        missing = await scene.output("status", code=5)
        assert f"Its autoscaler was terminated: penstock restore {scene.cluster}" in missing
        restored = f"{scene.cluster}: Restored with configuration revision 1; it is still paused: penstock resume.\n"
        assert await scene.output("restore", scene.cluster) == restored
        await scene.ready(1)
        assert "a freeze" in await scene.output("status")
        assert "runs already" in await scene.output("restore", scene.cluster, code=6)
        assert "no cluster 'never' runs" in await scene.output("restore", "never", code=5)

    played(machine, tmp_path, story, min_slices=1)


@pytest.mark.parametrize(
    "arguments", [("status",), ("config", "apply", "examples/cluster.yaml"), ("demand", "clear"), ("verify",)]
)
def test_no_server_is_status_4_with_how_to_start_or_name_one(arguments: tuple[str, ...]) -> None:
    done = Commands({"TEMPORAL_ADDRESS": NOWHERE})(*arguments)
    assert done.returncode == 4
    assert f"error: no Temporal server answers at {NOWHERE} (Connection refused)" in done.stderr
    assert "make run" in done.stderr
    assert "--address HOST:PORT" in done.stderr


def test_a_web_server_is_not_taken_for_a_temporal_server(machine: Machine) -> None:
    other = machine.url.removeprefix("http://")
    done = Commands({"TEMPORAL_ADDRESS": other})("status")
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: what answers at {other} is not a Temporal server; is it the port of the UI?\n")


def test_the_doctor_reports_a_missing_server() -> None:
    done = Commands()("doctor", "--address", NOWHERE)
    assert (done.returncode, f"✗ server: no Temporal server answers at {NOWHERE}" in done.stdout) == (1, True)


def test_the_service_of_this_directory_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "address").write_text(f"{NOWHERE}\n")
    assert f"at {NOWHERE}" in Commands(folder=tmp_path)("status").stderr


def test_every_problem_of_a_file_is_reported_with_its_line_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "demand.yaml").write_text("- {id: a, cpus: 1}\n- {id: b, resources: {cpu: many}}\n")
    (tmp_path / "cluster.yaml").write_text("cluster: c\ngroups:\n  - {name: a, max_slices: x}\n")
    (tmp_path / "wants.yaml").write_text("- {count: 1, resource: {cpu: 1}}\n")
    penstock = Commands({"TEMPORAL_ADDRESS": NOWHERE}, folder=tmp_path)
    for arguments, problems in (
        (
            ("demand", "submit", "demand.yaml"),
            ("demand.yaml:1: tasks[0].cpus: unknown key", "demand.yaml:2: tasks[1].resources.cpu"),
        ),
        (("config", "apply", "cluster.yaml"), ("cluster.yaml:3: groups[0].max_slices: 'x' is not a number",)),
        (("demand", "submit", "cluster.yaml"), ("cluster.yaml:1: cluster: unknown key; known keys: tasks",)),
        (("config", "diff", "missing.yaml"), ("missing.yaml: no such file",)),
        (("request", "me", "wants.yaml"), ("wants.yaml:1: wants[0].resource: unknown key; did you mean resources?",)),
        (("request", "me"), ("give either a FILE or amounts such as --cpu 4",)),
        (("request", "me", "--cpu", "1", "--for", "long"), ("--for: 'long' is not a duration",)),
    ):
        done = penstock(*arguments)
        assert done.returncode == 2
        assert all(problem in done.stderr for problem in problems), done.stderr


def test_of_thousands_of_problems_the_first_are_printed_and_the_rest_counted(tmp_path: Path) -> None:
    (tmp_path / "demand.json").write_text(json.dumps([{"id": f"t{i}", "colour": "red"} for i in range(2000)], indent=1))
    done = Commands({"TEMPORAL_ADDRESS": NOWHERE}, folder=tmp_path)("demand", "submit", "demand.json")
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), lines[-1]) == (2, 31, "and 1,970 more")
    assert lines[29].startswith("error: demand.json:120: tasks[29].colour: unknown key")
