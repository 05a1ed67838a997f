"""`clusters`, `slice`, `demand show`, `ui` and completion of names, on a running service."""

import asyncio
import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import quote, unquote

from penstock.contract.names import INVENTORY, SLICE
from tests.activities.waiting import until
from tests.cli.running import SECONDS, Commands
from tests.cli.scene import DEMAND, Scene, played
from tests.workflows.machine import Machine


def row(table: str, name: str) -> list[str]:
    """The cells of the row that begins with a name."""
    (line,) = [line for line in table.splitlines() if line.split("│")[1:2] and line.split("│")[1].strip() == name]
    return [cell.strip() for cell in line.split("│")[2:-1]]


def test_clusters_lists_each_cluster_with_its_state_and_numbers_and_a_deleted_one_only_on_request(
    machine: Machine, tmp_path: Path
) -> None:
    async def story(scene: Scene) -> None:
        await scene.output("demand", "submit", "demand.json")
        await scene.ready(2)

        async def listed() -> CompletedProcess[str]:
            return await scene.penstock("clusters")

        done = await until(listed, lambda done: scene.cluster in done.stdout, seconds=SECONDS)
        state, slices, tasks, unmet, _, worker = row(done.stdout, scene.cluster)
        assert (state, slices, tasks, unmet, worker) == ("running", "2", "5", "1", "answers")
        await scene.output("pause")
        (found,) = [each for each in (await scene.json("clusters"))["clusters"] if each["cluster"] == scene.cluster]
        assert (found["state"], found["slices"], found["worker_answers"]) == ("paused", 2, True)

        await scene.output("delete", scene.cluster, "--force", "--yes")
        await until(listed, lambda done: scene.cluster not in done.stdout, seconds=SECONDS)
        state, *numbers, _, worker = row(await scene.output("clusters", "--all"), scene.cluster)
        assert (state, numbers, worker.startswith("ended ")) == ("deleted", ["–"] * 3, True)

    played(machine, tmp_path, story)


def test_clusters_without_a_worker_have_no_answer(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.commands.environment["PENSTOCK_TASK_QUEUE"] = "no-such-queue"
        await scene.output("config", "apply", "cluster.yaml")

        async def listed() -> CompletedProcess[str]:
            return await scene.penstock("clusters")

        done = await until(listed, lambda done: scene.cluster in done.stdout, seconds=SECONDS)
        state, *numbers, _, worker = row(done.stdout, scene.cluster)
        assert (state, numbers, worker) == ("no answer", ["–"] * 3, "no answer")

    played(machine, tmp_path, story, start=False)


def test_a_slice_is_shown_with_its_location_usage_drain_timeline_and_link_and_also_after_it_ended(
    machine: Machine, tmp_path: Path
) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        slice_id = (await scene.json("slices"))["slices"][0]["id"]
        await scene.stage.autoscaler.usage({slice_id: "busy"})
        await scene.output("drain", slice_id, "--cause", "noisy fan")

        async def shown() -> CompletedProcess[str]:
            return await scene.penstock("slice", slice_id, "--ui", "http://ui")

        done = await until(shown, lambda done: "DRAINING for" in done.stdout, seconds=SECONDS)
        text = " ".join(done.stdout.split())
        for part in (
            f"cluster {scene.cluster}",
            "group small",
            f"location sim/{scene.stage.cloud.zone()}",
            "drain noisy fan (number 1); back to READY at the deadline if work is left",
            "usage 1 of 1 host busy",
            f"UI http://ui/namespaces/default/workflows/{quote(f'penstock/{scene.cluster}/small/{slice_id}', safe='')}",
        ):
            assert part in text
        details = await scene.json("slice", slice_id)
        drain = details["ledger"]["drain"]
        assert (drain["cause"], drain["force"], drain["number"]) == ("noisy fan", False, 1)
        assert [move["state"] for move in details["lifecycle"]["transitions"]][-2:] == ["READY", "DRAINING"]

        mistyped = await scene.penstock("slice", f"{slice_id}x")
        assert (mistyped.returncode, f"Did you mean {slice_id}?" in mistyped.stderr) == (2, True)
        error = (await scene.json("slice", "nobody"))["error"]
        assert (error["code"], "penstock slices" in error["fix"]) == ("no_such_slice", True)

        await scene.stage.autoscaler.confirm_drain(slice_id)
        ended = await until(shown, lambda done: "not in the ledger" in done.stdout, seconds=SECONDS)
        assert "TERMINATED" in ended.stdout

    played(machine, tmp_path, story, min_slices=1)


def test_demand_is_read_from_standard_input_and_shown_by_source_and_shape(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.output("demand", "show") == "No demand was submitted: penstock demand submit FILE\n"
        submitted = await scene.penstock("demand", "submit", "-", "--source", "ci", given=json.dumps(DEMAND))
        assert (submitted.returncode, "Accepted 5 tasks of source ci" in submitted.stdout) == (0, True)
        shown = await scene.output("demand", "show")
        assert "ci: 5 tasks, 0 gangs, 2 shapes; epoch " in shown
        assert row(shown, "cpu 2") == ["4", "4", "work/0"]
        assert row(shown, "cpu 999") == ["1", "1", "huge"]
        (source,) = (await scene.json("demand", "show", "--source", "ci"))["sources"]
        assert [(shape["tasks"], shape["first_task_ids"]) for shape in source["shapes"]] == [
            (4, ["work/0", "work/1", "work/2"]),
            (1, ["huge"]),
        ]
        unknown = await scene.output("demand", "show", "--source", "cy", code=2)
        assert unknown == "error: there is no demand of source 'cy'; sources: ci\n"
        assert (await scene.output("demand", "clear", "--source", "ci")).startswith("Cleared demand of source ci: epoch ")
        assert "ci: 0 tasks" in await scene.output("demand", "show")
        assert (await scene.json("status"))["demand"]["ci"]["lease_ends"] is None
        forgotten = f"{scene.cluster}: Forgot source ci: 0 tasks, and its word on 0 slices.\n"
        assert await scene.output("demand", "forget", "ci") == forgotten
        assert "there is no source 'ci'" in await scene.output("demand", "forget", "ci", code=6)

    played(machine, tmp_path, story)


def test_ui_prints_links_to_the_cluster_and_to_a_slice(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        slice_id = (await scene.json("slices"))["slices"][0]["id"]
        links = await scene.json("ui", slice_id, "--ui", "http://ui:1/")
        base = "http://ui:1/namespaces/default/workflows"
        assert (links["workflows"], links["guessed"]) == (base, False)
        assert unquote(links["autoscaler"]) == f"{base}/penstock/{scene.cluster}"
        assert unquote(links["slice"]) == f"{base}/penstock/{scene.cluster}/small/{slice_id}"
        for name, workflow_type in (("slices", SLICE), ("inventories", INVENTORY)):
            query = unquote(links[name]).partition("?query=")[2]
            found = [each async for each in scene.stage.client.list_workflows(query)]
            assert [each.workflow_type for each in found] == [workflow_type]
            assert scene.cluster in found[0].id
        for name in ("slices", "failed", "in flight", "draining"):
            query = unquote((await scene.json("ui", "--group", "none"))[name]).partition("?query=")[2]
            assert [each async for each in scene.stage.client.list_workflows(query)] == []
        assert links["columns"] == ["PenstockGroup", "PenstockState", "PenstockCause"]
        guess = await scene.penstock("ui")
        assert re.findall("^columns .*", guess.stdout, flags=re.MULTILINE) == [
            "columns      PenstockGroup, PenstockState, PenstockCause: add them to the list with the gear above it"
        ]
        assert f"http://127.0.0.1:{machine.port + 1000}/namespaces" in guess.stdout
        assert "is guessed from the server's address; --ui URL names another" in guess.stderr
        assert "'nobody' is not the name of a slice" in await scene.output("ui", "nobody", code=2)

    played(machine, tmp_path, story, min_slices=1)


def test_the_shell_completes_names_of_clusters_groups_and_slices(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        slice_id = (await scene.json("slices"))["slices"][0]["id"]

        async def completed(words: str, typed: int) -> list[str]:
            shell = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(typed)}
            done = await asyncio.to_thread(Commands(scene.commands.environment | shell, folder=tmp_path))
            assert (done.returncode, done.stderr) == (0, "")
            return [name for line in done.stdout.splitlines() if (name := line.partition(",")[2])]

        async def offers(words: str, typed: int, name: str) -> None:
            """Wait for a completion: on a busy machine the first ones find nothing in the second that a shell waits for them."""
            await until(lambda: completed(words, typed), lambda names: name in names, seconds=SECONDS)

        await offers(f"penstock status --cluster {scene.cluster[:4]}", 3, scene.cluster)
        await offers("penstock clear-block sm", 2, "small")
        await offers("penstock drain small-", 2, slice_id)
        scene.commands.environment["TEMPORAL_ADDRESS"] = "127.0.0.1:9"
        assert await completed("penstock drain small-", 2) == []

    played(machine, tmp_path, story, min_slices=1)


def test_failures_on_a_running_service_are_json_on_request(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for arguments, status, code in (
            (("drain", "nobody"), 6, "refused"),
            (("status", "--cluster", f"{scene.cluster}x"), 5, "no_such_cluster"),
            (("slices", "--group", "smal"), 2, "bad_input"),
            (("status", "--address", "127.0.0.1:9"), 4, "no_server"),
            (("demand", "submit", "missing.json"), 2, "bad_input"),
        ):
            done = await scene.penstock(*arguments, "--json")
            error = json.loads(done.stdout)["error"]
            assert (done.returncode, done.stderr, error["code"]) == (status, "", code)
            assert error["message"]

    played(machine, tmp_path, story)


def test_slices_of_a_terminated_autoscaler_are_found_by_verify_which_is_suggested(machine: Machine, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.ready(1)
        await scene.stage.workflow.terminate()
        assert f"Something of it may still exist: penstock verify --cluster {scene.cluster}" in await scene.output(
            "status", code=5
        )
        verdict = " ".join((await scene.output("verify", "--cluster", scene.cluster, code=1)).split())
        assert f"{scene.cluster} does not agree: 0 in the ledger, 1 slice workflow, 1 resource in 1 location" in verdict
        assert "not_in_ledger" in verdict

    played(machine, tmp_path, story, min_slices=1)
