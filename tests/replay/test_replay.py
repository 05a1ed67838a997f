"""Today's workflows replay the histories of yesterday's, and go on with the state that they carried."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.core.state import AutoscalerState
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.replay import golden
from tests.replay.careless import ClockReading, Hesitant
from tests.service.machine import Machine
from tests.service.stage import SECONDS
from worker.assembly import WORKFLOWS
from worker.sandbox import production_runner, strict_runner

Runner = Callable[[], SandboxedWorkflowRunner]
RUNNERS = {"production": production_runner, "strict": strict_runner}


def _replay(name: str, runner: Runner, workflows: Sequence[type] = WORKFLOWS) -> None:
    replayer = Replayer(workflows=workflows, workflow_runner=runner(), data_converter=pydantic_data_converter)
    asyncio.run(replayer.replay_workflow(golden.load(name)))


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
@pytest.mark.parametrize("name", golden.names())
def test_a_golden_history_is_replayed(name: str, runner: Runner) -> None:
    _replay(name, runner)


def test_every_workflow_has_a_golden_history() -> None:
    kinds = {
        golden.load(name).events[0].workflow_execution_started_event_attributes.workflow_type.name for name in golden.names()
    }

    assert kinds == {names.AUTOSCALER, names.SLICE, names.INVENTORY, names.VERIFY, names.DOCTOR}


def test_golden_histories_tell_nothing_of_the_machine_they_were_recorded_on() -> None:
    for name in golden.names():
        document = (golden.HISTORIES / f"{name}.json").read_text()

        assert "site-packages" not in document, name
        assert {event.get("identity", "worker") for event in json.loads(document)["events"]} <= {"worker"}


def test_a_change_of_what_a_workflow_does_is_found() -> None:
    with pytest.raises(NondeterminismError):
        _replay("slice-drained", production_runner, [Hesitant])


def test_a_clock_read_deep_in_the_library_is_found_by_the_strict_runner_alone() -> None:
    _replay("slice-drained", production_runner, [ClockReading])

    with pytest.raises(Exception, match=r"time\.time"):
        _replay("slice-drained", strict_runner, [ClockReading])


def test_the_state_that_an_earlier_version_carried_over_is_gone_on_with(machine: Machine) -> None:
    """What an earlier run wrote down is given to today's workflow, on a server and a cloud that know nothing of it."""
    history = golden.load("autoscaler-later-run")
    started = history.events[0].workflow_execution_started_event_attributes
    carried = json.loads(started.input.payloads[0].data)
    cluster = history.workflow_id.removeprefix(names.autoscaler_id(""))

    async def story() -> None:
        client = await machine.client()
        await client.start_workflow(names.AUTOSCALER, carried, id=history.workflow_id, task_queue=names.TASK_QUEUE)
        autoscaler = AutoscalerClient(client, cluster)
        # Nobody has its slices here: they are found missing, and as many are launched as its demand still wants.
        lost = {piece.id for piece in AutoscalerState.model_validate(carried).slices}
        assert lost
        wanted = sum(source.tasks for source in (await autoscaler.status()).demand.values())

        async def ready() -> set[str]:
            slices = (await autoscaler.slices()).slices
            return {piece.id for piece in slices if piece.state is SliceState.READY and piece.id not in lost}

        await until(ready, lambda slices: len(slices) == wanted, seconds=SECONDS)
        assert (await autoscaler.status()).evaluations > carried["evaluations"]
        await autoscaler.delete(force=True)
        await autoscaler.deleted()

    asyncio.run(story())
