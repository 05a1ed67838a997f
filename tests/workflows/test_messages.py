"""Signals from anywhere: plain JSON by any tool, in any order and state of the cluster, and nothing is lost or wedged."""

import asyncio
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio import activity
from temporalio.worker import Worker

from activities.evaluate import EvaluateActivities
from embedded.dev_server import installed_executable
from penstock.client import AutoscalerClient, Refused
from penstock.client.demand_messages import as_demand
from penstock.contract import names
from penstock.contract.answers import ClusterStatus
from penstock.contract.messages import LARGEST_MESSAGE, DemandMessage, size_of
from penstock.contract.names import autoscaler_id
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceReport, SliceReports
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import SliceState
from tests.workflows.histories import recorded
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, served_here
from tests.workflows.test_demand import played, ready, recovered, tasks
from worker import assembly
from workflows.autoscaler import AutoscalerWorkflow

AT: dict[str, Any] = {"since": datetime(2030, 1, 1, tzinfo=UTC), "ordered_at": datetime(2030, 1, 1, tzinfo=UTC)}
"""When a slice was ordered, and has been where it is since."""


async def send(stage: Stage, name: str, *inputs: str) -> None:
    """Send a signal with Temporal's own command."""
    executable = installed_executable()
    assert executable is not None
    arguments = ["--address", stage.machine.address, "--workflow-id", autoscaler_id(stage.cluster), "--name", name]
    for text in inputs:
        arguments += ["--input", text]
    process = await asyncio.create_subprocess_exec(str(executable.path), "workflow", "signal", *arguments)
    assert await process.wait() == 0


def rejected(status: ClusterStatus) -> dict[str, str]:
    return {rejection.message: rejection.problem for rejection in status.rejected}


def test_temporals_own_command_can_send_demand_and_usage(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await send(stage, "demand", json.dumps({"tasks": tasks(2, cpu=4)}))
        await ready(stage, "small", 2)
        first, second = (await stage.autoscaler.slices()).slices
        usage = {first.id: [{"tasks": ["task-0"], "reserved": {"cpu": 4}}], second.id: "idle"}
        await send(stage, "report", json.dumps({"usage": usage}))
        state = await stage.eventually(stage.autoscaler.dump, lambda state: len(state.usage) == 2)
        assert state.usage[first.id][0].tasks == ("task-0",)
        assert (await stage.autoscaler.explain("task-0")).text.startswith(f"Task task-0 is running on slice {first.id}")

    played(machine, story)


def test_rejected_messages_are_kept_with_their_problem_and_change_nothing(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await send(stage, "demand", '{"tsks": []}')
        await send(stage, "usage", "7")
        await send(stage, "pressure", '{"pressure": {"small": {"queued": 3, "running": 1, "capacity": 2, "slices": 1}}}')
        await send(stage, "dmand", "[]")
        await send(stage, "confirm_drain")
        await send(stage, "slices_reported", "{}", "{}")
        await stage.workflow.signal("location_reported", b"\x00 no JSON")
        status = await stage.eventually(stage.autoscaler.status, lambda status: status.rejected_in_all == 7)
        problems = rejected(status)
        assert problems["demand"] == "tsks: unknown key; did you mean tasks?"
        assert problems["pressure"].startswith("pressure.small: small is driven by the tasks that are placed on it")
        assert "did you mean demand?" in problems["dmand"]
        assert set(problems) == {"demand", "usage", "pressure", "dmand", "confirm_drain", "slices_reported", "location_reported"}
        await ready(stage, "small", 1)

    played(machine, story)


def test_a_message_full_of_mistakes_and_one_that_is_too_large_change_nothing(machine: Machine) -> None:
    """Each would stop the cluster for good: one with the time it takes to read, the other with a state that cannot be carried."""

    async def story(stage: Stage) -> None:
        await recovered(stage)
        autoscaler = stage.autoscaler
        bad = [{"id": f"task-{i}", "nodes": 1} for i in range(2_000)]
        await stage.workflow.signal(names.DEMAND, {"source": "careless", "tasks": bad})
        status = await stage.eventually(autoscaler.status, lambda status: "careless" in status.demand)
        assert status.demand["careless"].tasks == len(bad)
        await autoscaler.submit_demand([], source="careless")

        await autoscaler.submit_demand(tasks(1))
        heavy = as_demand([{"id": random.randbytes(250).hex()} for _ in range(4_250)])
        with pytest.raises(Refused, match=r"the limit is \d+; give tasks shorter ids"):
            await autoscaler.submit_demand(heavy)
        packed = DemandMessage(demand=heavy)
        assert size_of(packed) < LARGEST_MESSAGE
        await stage.workflow.signal(names.DEMAND, packed)
        status = await stage.eventually(autoscaler.status, lambda status: status.rejected_in_all == 1)
        assert status.demand["default"].tasks == 1
        assert "the limit is" in (status.demand["default"].resync_needed or "")
        await ready(stage, "small", 1)
        assert len((await autoscaler.dump()).model_dump_json()) < 100_000

    played(machine, story)


def test_messages_that_come_while_a_decision_is_made_count_in_the_next_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a worker in this process, whose first decision is overtaken by six messages before it is recorded."""

    async def story(stage: Stage) -> None:
        class Overtaken(EvaluateActivities):
            @activity.defn(name=names.EVALUATE)
            async def evaluate(self, cluster: str) -> Orders:
                orders = await super().evaluate(cluster)
                if not (await stage.autoscaler.dump()).demand:
                    sent = [{"source": f"s{n}", "tasks": tasks(1, cpu=4, name=f"s{n}-task")} for n in range(6)]
                    await asyncio.gather(*(stage.workflow.signal(names.DEMAND, message) for message in sent))
                return orders

        monkeypatch.setattr(assembly, "EvaluateActivities", Overtaken)
        async with served_here(stage, monkeypatch):
            await ready(stage, "small", 6)
            state = await stage.autoscaler.dump()
        assert len(state.demand) == len(state.slices) == 6
        record = await recorded(stage.workflow)
        first, *later = record.activities(names.EVALUATE)
        assert later
        assert first.ended is not None
        assert [first.begun < message < first.ended for message in record.signals(names.DEMAND)] == [True] * 6

    played(machine, story, group(max_slices=10), start=False)


def test_queries_leave_nothing_in_the_state_that_a_replay_would_not_find(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries between two reports of slices that arrive during one decision. A replay has the reports, and not the queries."""

    async def story(stage: Stage) -> None:
        asked: asyncio.Future[AutoscalerState] = asyncio.get_running_loop().create_future()

        class Questioned(EvaluateActivities):
            @activity.defn(name=names.EVALUATE)
            async def evaluate(self, cluster: str) -> Orders:
                for sequence in (1, 2):
                    booting = SliceReport(slice_id="s", group="small", state=SliceState.BOOTING, sequence=sequence, **AT)
                    await stage.workflow.signal(names.SLICES_REPORTED, SliceReports(reports=(booting,)))
                    state = await stage.autoscaler.dump()
                asked.set_result(state)
                await asyncio.Event().wait()  # Until the worker is stopped: nothing else happens to the state.
                return await super().evaluate(cluster)

        monkeypatch.setattr(assembly, "EvaluateActivities", Questioned)
        async with served_here(stage, monkeypatch):
            before = await asked
        async with Worker(stage.client, task_queue=f"own-{stage.cluster}", workflows=[AutoscalerWorkflow]):
            after = await stage.autoscaler.dump()
        assert [piece.sequence for piece in after.slices] == [2]
        assert after == before

    played(machine, story, start=False)


def test_demand_never_drifts(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        autoscaler = stage.autoscaler
        wanted = tasks(20)
        await autoscaler.report(wanted)
        await autoscaler.report(wanted[1:], usage={}, confirmed=())
        status = await stage.eventually(
            autoscaler.status, lambda status: status.demand and status.demand["default"].revision == 2
        )
        assert status.demand["default"].tasks == 19

        # Another controller takes over, and the first one comes back: each begins an epoch of its own.
        other = AutoscalerClient(stage.client, stage.cluster)
        assert (await other.submit_demand(wanted[:5])).resync_needed is None
        assert (await autoscaler.submit_demand(wanted[:7])).resync_needed is None
        assert (await autoscaler.status()).demand["default"].tasks == 7

        # A delta that builds on something else is not applied, and the next message puts it right.
        await send(stage, "demand", json.dumps({"tasks": wanted[:2]}))
        await stage.eventually(autoscaler.status, lambda status: status.demand["default"].tasks == 2)
        accepted = await autoscaler.submit_demand(wanted[:8])
        assert accepted.resync_needed is None
        assert (await autoscaler.status()).demand["default"].tasks == 8

    played(machine, story)


def test_a_drained_slice_leaves_once_its_controller_confirms(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        first, second = (await stage.autoscaler.slices()).slices
        await stage.autoscaler.report([], usage={first.id: "busy", second.id: "busy"})
        await stage.autoscaler.drain(first.id)
        await stage.eventually(stage.autoscaler.status, lambda status: [drain.slice_id for drain in status.drains] == [first.id])
        await stage.autoscaler.confirm_drain(first.id)
        await stage.eventually(stage.autoscaler.slices, lambda page: [piece.id for piece in page.slices] == [second.id])
        assert [made["labels"]["penstock-slice"] for made in await stage.cloud.existing()] == [second.id]

    played(machine, story)


def test_a_cancelled_drain_leaves_the_slice_serving(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        (piece,) = (await stage.autoscaler.slices()).slices
        await stage.autoscaler.usage({piece.id: "busy"})
        await stage.autoscaler.drain(piece.id)
        await stage.autoscaler.cancel_drain(piece.id)

        async def state() -> Any:
            (now,) = (await stage.autoscaler.slices()).slices
            return now

        await stage.eventually(state, lambda now: now.state is SliceState.READY and now.sequence > piece.sequence)
        assert (await stage.autoscaler.status()).drains == ()

    played(machine, story, group(max_slices=1))
