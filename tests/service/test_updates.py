"""Updates: refused before they reach the history, or done and answered at once."""

from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from penstock.client import AutoscalerClient, NoSuchCluster, Refused
from penstock.contract import names
from penstock.contract.messages import LARGEST_MESSAGE
from tests.service.histories import recorded
from tests.service.machine import Machine
from tests.service.stage import Stage, group
from tests.service.test_demand import played, ready, recovered, tasks


async def refusal(call: Any) -> str:
    with pytest.raises(Refused) as refused:
        await call
    return str(refused.value)


def test_what_cannot_be_done_is_refused_and_leaves_no_trace(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        autoscaler = stage.autoscaler
        await autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        (piece,) = (await autoscaler.slices()).slices
        await stage.eventually(autoscaler.dump, lambda state: state.orders and state.orders.told == state.told)
        before = await autoscaler.status()
        assert f"did you mean {piece.id}?" in await refusal(autoscaler.drain(piece.id[:-1] + "_"))
        assert "is not draining, it is READY" in await refusal(autoscaler.cancel_drain(piece.id))
        assert "did you mean small?" in await refusal(autoscaler.clear_block("smal"))
        assert "a cluster keeps its name" in await refusal(autoscaler.apply_config({"cluster": "other", "groups": []}))
        assert "stands here twice" in await refusal(autoscaler.submit_demand([{"id": "a"}, {"id": "a"}]))
        assert "at most" in await refusal(autoscaler.pause("x" * LARGEST_MESSAGE))
        after = await autoscaler.status()
        assert after.version == before.version
        assert (await autoscaler.status(since=after.version)).changed is False

    played(machine, story)


def test_a_cluster_that_does_not_run_is_told_from_one_that_refuses(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        nobody = AutoscalerClient(stage.client, f"no-{stage.cluster}")
        for call in (nobody.status(), nobody.pause(), nobody.report([]), nobody.submit_demand([])):
            with pytest.raises(NoSuchCluster):
                await call
        assert await stage.autoscaler.start(stage.config) is False
        assert "runs already" in await refusal(stage.autoscaler.start(stage.config, exists_ok=False))

    played(machine, story)


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
        (paused,), (told,), (resumed,) = map(record.updates, (names.PAUSE, names.SUBMIT_DEMAND, names.RESUME))
        assert paused < told < resumed
        evaluations = [decision.begun for decision in record.activities(names.DECIDE)]
        assert [begun for begun in evaluations if paused < begun < resumed] == []
        assert [begun for begun in evaluations if begun > resumed] != []

    played(machine, story)


def test_a_block_ends_when_an_operator_clears_it(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.cloud.behave("a", invalid=True)
        await stage.autoscaler.submit_demand(tasks(1))
        await stage.eventually(stage.autoscaler.status, lambda status: status.troubles and not status.slices)
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
