"""Today's workflows replay the histories of earlier versions; activities and timers are described in the Temporal UI."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, WorkflowRunner
from temporalio.workflow import NondeterminismError

from penstock.contract import names
from tests.replay import golden
from tests.replay.careless import ClockReading, Hesitant, Settling, SettlingFromNowOn
from worker.assembly import WORKFLOWS
from worker.sandbox import production_runner, strict_runner
from workflows.autoscaler import AutoscalerWorkflow
from workflows.doctor import DoctorWorkflow
from workflows.inventory import InventoryWorkflow
from workflows.slice_lifecycle import SliceLifecycleWorkflow
from workflows.verification import VerifyWorkflow

Runner = Callable[[], WorkflowRunner]
SHOWN = (EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, EventType.EVENT_TYPE_TIMER_STARTED)
OF_KIND: dict[str, type] = {
    names.AUTOSCALER: AutoscalerWorkflow,
    names.SLICE: SliceLifecycleWorkflow,
    names.INVENTORY: InventoryWorkflow,
    names.VERIFY: VerifyWorkflow,
    names.DOCTOR: DoctorWorkflow,
}
RUNNERS = {"production": production_runner, "strict": strict_runner}


def _kind(name: str) -> str:
    """The type of the workflow that has the history."""
    return golden.load(name).events[0].workflow_execution_started_event_attributes.workflow_type.name


def _replay(name: str, runner: Runner, workflows: Sequence[type] | None = None) -> None:
    """Replay a history on its own workflow alone: a sandbox imports everything anew for each that a replayer knows."""
    replayer = Replayer(
        workflows=workflows or [OF_KIND[_kind(name)]], workflow_runner=runner(), data_converter=pydantic_data_converter
    )
    asyncio.run(replayer.replay_workflow(golden.load(name)))


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
@pytest.mark.parametrize("name", golden.names())
def test_a_golden_history_is_replayed(name: str, runner: Runner) -> None:
    _replay(name, runner)


def test_every_workflow_has_a_golden_history() -> None:
    assert {_kind(name) for name in golden.names()} == OF_KIND.keys()
    assert {*OF_KIND.values()} == {*WORKFLOWS}


def test_golden_histories_contain_nothing_of_the_machine_they_were_recorded_on() -> None:
    for name in golden.names():
        document = (golden.HISTORIES / f"{name}.json").read_text()

        assert "site-packages" not in document, name
        assert "@" not in document, f"{name} names a process and its host"
        assert {event.get("identity", "worker") for event in json.loads(document)["events"]} <= {"worker"}


def test_a_change_of_what_a_workflow_does_is_found() -> None:
    with pytest.raises(NondeterminismError):
        _replay("slice-drained", production_runner, [Hesitant])


def test_a_change_behind_a_patch_leaves_runs_under_way_as_they_were() -> None:
    """The example of docs/upgrades.md."""
    with pytest.raises(NondeterminismError):
        _replay("autoscaler-overflow", production_runner, [Settling])

    _replay("autoscaler-overflow", production_runner, [SettlingFromNowOn])


def test_a_clock_read_deep_in_the_library_is_found_by_the_strict_runner_alone() -> None:
    _replay("slice-drained", production_runner, [ClockReading])

    with pytest.raises(Exception, match=r"time\.time"):
        _replay("slice-drained", strict_runner, [ClockReading])


@pytest.mark.parametrize("name", golden.names())
def test_every_activity_and_timer_has_a_summary_in_the_temporal_ui(name: str) -> None:
    events = golden.load(name).events
    shown = [event for event in events if event.event_type in SHOWN]

    silent = [event.event_id for event in shown if not event.user_metadata.summary.data.strip(b'" ')]
    assert not silent, f"{name}: events without a summary"
