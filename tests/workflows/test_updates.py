"""Updates: refused before they reach the history, or done and answered at once."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowQueryFailedError

from activities.providers.port import resource_name
from penstock.client import AutoscalerClient, NoSuchCluster, Refused
from penstock.contract import names
from penstock.contract.messages import LARGEST_MESSAGE
from penstock.contract.orders import Launch, Orders
from penstock.core.state.apply import replay
from penstock.core.state.events import ConfigApplied, Decided, Paused
from tests.workflows.histories import recorded
from tests.workflows.machine import Machine
from tests.workflows.stage import QUICK, Stage, group, staged
from tests.workflows.test_demand import played, ready, recovered, tasks
from workflows.ui.markdown_tables import row

PATIENT = {**QUICK["inventory"], "orphan_grace": "1h"}
"""Orphans are left alone for longer than any test takes."""


async def refusal(call: Any) -> str:
    with pytest.raises(Refused) as refused:
        await call
    return str(refused.value)


def test_an_impossible_update_is_refused_and_leaves_no_event(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        autoscaler = stage.autoscaler
        await autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        (piece,) = (await autoscaler.slices()).slices
        await stage.eventually(autoscaler.dump, lambda state: state.orders and state.orders.input_version == state.input_version)
        before = await autoscaler.status()
        assert f"did you mean {piece.id}?" in await refusal(autoscaler.drain(piece.id[:-1] + "_"))
        assert "is not draining, it is READY" in await refusal(autoscaler.cancel_drain(piece.id))
        assert "did you mean small?" in await refusal(autoscaler.clear_block("smal"))
        assert "a cluster cannot be renamed" in await refusal(autoscaler.apply_config({"cluster": "other", "groups": []}))
        assert "task id 'a' occurs twice" in await refusal(autoscaler.submit_demand([{"id": "a"}, {"id": "a"}]))
        assert "at most" in await refusal(autoscaler.pause("x" * LARGEST_MESSAGE))
        after = await autoscaler.status()
        assert after.version == before.version
        assert (await autoscaler.status(since=after.version)).changed is False

    played(machine, story)


def test_a_cluster_that_does_not_run_is_another_error_than_a_refusal(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        absent = AutoscalerClient(stage.client, f"no-{stage.cluster}")
        for call in (absent.status(), absent.pause(), absent.report([]), absent.submit_demand([])):
            with pytest.raises(NoSuchCluster):
                await call
        assert await stage.autoscaler.start(stage.config) is False
        assert "runs already" in await refusal(stage.autoscaler.start(stage.config, exists_ok=False))

    played(machine, story)


def test_the_details_of_a_cluster_in_the_temporal_ui_are_soon_up_to_date(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        async def shown() -> str:
            metadata = await stage.workflow.query("__temporal_workflow_metadata")
            return str(metadata.current_details)

        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await stage.eventually(shown, lambda details: row(("small", 1, 0, 0, 1, "at_max")) in details)
        await stage.eventually(shown, lambda details: "2 tasks are waiting or placed; unmet: 1 no_capacity." in details)
        await stage.autoscaler.pause("maintenance")
        await stage.eventually(shown, lambda details: "**Paused.** maintenance" in details)
        await stage.autoscaler.resume()
        await stage.eventually(shown, lambda details: "Paused" not in details)

    played(machine, story, group(max_slices=1))


def test_a_paused_cluster_orders_nothing_until_it_is_resumed(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await recovered(stage)
        await stage.autoscaler.pause("maintenance")
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        status = await stage.autoscaler.status()
        assert (status.paused, status.slices) == ("maintenance", 0)
        decision = await stage.autoscaler.decision()
        assert decision.launches == {"small": 2}
        assert await stage.cloud.ever_made() == []
        await stage.autoscaler.resume()
        await ready(stage, "small", 2)
        record = await recorded(stage.workflow)
        (paused,), (submitted,), (resumed,) = map(record.updates, (names.PAUSE, names.SUBMIT_DEMAND, names.RESUME))
        assert paused < submitted < resumed
        evaluations = [decision.begun for decision in record.activities(names.EVALUATE)]
        assert [begun for begun in evaluations if paused < begun < resumed] == []
        assert [begun for begun in evaluations if begun > resumed] != []

    played(machine, story)


def test_a_block_ends_when_an_operator_clears_it(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.cloud.behave("a", invalid=True)
        await stage.autoscaler.submit_demand(tasks(1))
        await stage.eventually(stage.autoscaler.status, lambda status: status.recent_failures and not status.slices)
        await stage.cloud.behave("a")
        await stage.autoscaler.clear_block("small")
        await ready(stage, "small", 1)

    played(machine, story)


def test_deleting_a_cluster_gives_everything_back_and_ends_its_autoscaler(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(3, cpu=4))
        await ready(stage, "small", 3)
        pieces = (await stage.autoscaler.slices()).slices
        await stage.autoscaler.delete()
        await stage.autoscaler.report([], usage={piece.id: "idle" for piece in pieces})
        await stage.autoscaler.deleted()
        assert await stage.cloud.existing() == []
        assert len(await stage.cloud.ever_made()) == 3
        with pytest.raises(NoSuchCluster):
            await stage.autoscaler.status()

    played(machine, story, group(min_slices=1))


def test_a_forced_deletion_does_not_wait_for_work(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        (piece,) = (await stage.autoscaler.slices()).slices
        await stage.autoscaler.usage({piece.id: "busy"})
        await stage.autoscaler.delete(force=True)
        await stage.autoscaler.deleted()
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_a_cluster_deleted_before_it_found_its_slices_leaves_none_of_them(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        (piece,) = (await stage.autoscaler.slices()).slices
        await stage.workflow.terminate("by hand")
        await stage.slice_workflow(piece.group, piece.id).terminate("by hand")
        await stage.autoscaler.start(stage.config)
        await stage.autoscaler.delete(force=True)
        await stage.autoscaler.deleted()
        assert [item["phase"] for item in await stage.cloud.ever_made()] == ["gone"]

    played(machine, story, inventory=PATIENT)


def test_a_deleted_cluster_deletes_its_orphans_however_young_they_are(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await recovered(stage)
        name = resource_name(cluster=stage.cluster, group="forgotten", slice_id="forgotten-1")
        labels = {"penstock-cluster": stage.cluster, "penstock-group": "forgotten", "penstock-slice": "forgotten-1"}
        await stage.cloud.add(name, labels=labels)
        await stage.autoscaler.delete()
        await stage.autoscaler.deleted()
        assert [item["phase"] for item in await stage.cloud.ever_made()] == ["gone"]

    played(machine, story, inventory=PATIENT)


def test_a_cluster_does_not_end_while_a_location_gives_no_complete_listing(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await recovered(stage)
        await stage.cloud.behave("a", partial_lists=True)
        await stage.autoscaler.delete()
        location = f"sim/{stage.cloud.zone('a')}"
        status = await stage.eventually(stage.autoscaler.status, lambda s: s.recovery and s.recovery.waiting_for == (location,))
        assert (status.closing, status.slices) == (True, 0)
        await stage.cloud.behave("a")
        await stage.autoscaler.deleted()

    played(machine, story, group(), group("other", zone="b"))


def test_a_cluster_without_groups_is_deleted_too(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.apply_config({"cluster": stage.cluster, "groups": []})
        await stage.autoscaler.delete()
        await stage.autoscaler.deleted()

    played(machine, story)


def test_launches_that_a_pause_held_back_are_decided_anew_instead_of_started(machine: Machine) -> None:
    """Of many slices that were ordered, few are wanted when the cluster is resumed."""

    async def story() -> None:
        async with staged(machine, start=False) as stage:
            config = stage.config
            launches = tuple(Launch(slice_id=f"small-{i}", group="small", cause="demand") for i in range(4))
            now = datetime.now(UTC)
            decided = Decided(at=now, orders=Orders(at=now, config_revision=1, launches=launches))
            held = replay([ConfigApplied(at=now, config=config), decided, Paused(at=now, reason="too many")])
            await stage.client.start_workflow(names.AUTOSCALER, held, id=stage.workflow.id, task_queue=names.TASK_QUEUE)
            assert (await stage.autoscaler.status()).slices == 4
            await stage.autoscaler.submit_demand(tasks(1))
            await stage.autoscaler.apply_config(config.model_copy(update={"max_slices": 1}))
            assert (await stage.autoscaler.status()).slices == 0
            await stage.autoscaler.resume()
            await ready(stage, "small", 1)
            assert len(await stage.cloud.ever_made()) == 1

    asyncio.run(story())


def test_a_cancelled_autoscaler_keeps_its_slices_and_the_next_one_finds_them(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        before = {piece.id for piece in (await stage.autoscaler.slices()).slices}
        await stage.workflow.cancel()
        with pytest.raises(WorkflowFailureError):
            await stage.workflow.result()
        assert await stage.autoscaler.start(stage.config)
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        assert {piece.id for piece in (await stage.autoscaler.slices()).slices} == before
        assert len(await stage.cloud.ever_made()) == 2

    played(machine, story)


def test_queries_take_plain_json_and_answer_a_mistake_with_the_field_and_the_fix(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        async def mistake(name: str, *arguments: Any) -> str:
            with pytest.raises(WorkflowQueryFailedError) as failed:
                await stage.workflow.query(name, args=arguments)
            return str(failed.value)

        await stage.autoscaler.submit_demand(tasks(1))
        assert (await stage.workflow.query(names.EXPLAIN, "task-0"))["task_id"] == "task-0"
        assert (await stage.workflow.query(names.EXPLAIN, {"task_id": "task-0"}))["status"] != "unknown"
        assert (await stage.workflow.query(names.STATUS))["cluster"] == stage.cluster
        assert (await stage.workflow.query(names.SLICES, {"group": "small", "page_size": 1}))["page"] == 1
        assert (await stage.workflow.query(names.EXPLAIN_SLICE, "nobody"))["status"] == "gone"
        assert await mistake(names.EXPLAIN_SLICE) == "bad_input: explain_slice: slice_id: is missing; add it"
        assert await mistake(names.EXPLAIN) == "bad_input: explain: task_id: is missing; add it"
        assert "task: unknown key; did you mean task_id?" in await mistake(names.EXPLAIN, {"task": "task-0"})
        assert "slices: page_size: should be 1000 or less, not 5000" in await mistake(names.SLICES, {"page_size": 5000})
        assert "status: since: 'yesterday' is not a number" in await mistake(names.STATUS, {"since": "yesterday"})
        assert "slices: state: should be 'REQUESTING', 'BOOTING'" in await mistake(names.SLICES, {"state": "redy"})
        assert "decision: task: unknown key" in await mistake(names.DECISION, {"task": "a"})

    played(machine, story)


def test_answers_of_a_paused_cluster_say_so_and_promise_no_evaluation(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await recovered(stage)
        await stage.autoscaler.pause("maintenance")
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        status = await stage.autoscaler.status()
        decision = await stage.autoscaler.decision()
        explained = await stage.autoscaler.explain("task-0")
        assert status.held == decision.held == explained.held
        assert status.held == "The cluster is paused (maintenance): nothing is launched or drained until it is resumed."
        assert (status.outdated, status.next_change_at, decision.next_change_at) == (True, None, None)

    played(machine, story)
