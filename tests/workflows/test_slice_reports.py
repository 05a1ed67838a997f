"""What a slice tells: its autoscaler, if there is one, and people; over many runs and messages it cannot read."""

from temporalio.api.enums.v1 import EventType
from temporalio.common import SearchAttributeKey

from penstock.contract import names
from penstock.contract.slices import ReportCommand
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import READY, SliceStage, played, reported
from tests.workflows.stage import SECONDS
from workflows.ui.markdown_tables import row

STATE = SearchAttributeKey.for_keyword(names.STATE_ATTRIBUTE)


def test_without_an_autoscaler_a_slice_keeps_its_state_and_reports_when_there_is_one(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        failed = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED
        await until(piece.events, lambda events: any(event.event_type == failed for event in events), seconds=SECONDS)
        lifecycle = await piece.lifecycle()
        assert (lifecycle.state, lifecycle.reported) == (SliceState.READY, 0)
        await stage.open_box()
        report = await reported(stage, lambda report: report.state is SliceState.READY)
        assert report.sequence == lifecycle.sequence
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)

    played(machine, story, box=False)


def test_an_ended_slice_without_an_autoscaler_waits_for_one_until_it_is_cancelled(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.comes_to(SliceState.FAILED)
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.FAILED

    played(machine, story, box=False, stockout=True)


def test_a_cancelled_slice_without_an_autoscaler_can_be_cancelled_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        first = (await piece.handle.describe()).run_id
        await piece.handle.cancel()

        async def run() -> str:
            return (await piece.handle.describe()).run_id

        await until(run, lambda now: now != first, seconds=SECONDS)
        assert (await piece.lifecycle()).state is SliceState.TERMINATED
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert await stage.cloud.existing() == []

    played(machine, story, box=False)


def test_a_slice_says_again_where_it_is_when_it_is_asked(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        before = len(await stage.reports())
        await piece.tell(ReportCommand(slice_id=piece.spec.slice_id))
        reports = await until(stage.reports, lambda reports: len(reports) > before, seconds=SECONDS)
        assert reports[-1] == reports[-2]

    played(machine, story)


def test_an_adopted_slice_reports_at_once_and_is_not_created_again(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.READY, sequence=7)
        assert (await reported(stage, lambda report: report.sequence == 7)).state is SliceState.READY
        assert await piece.activities() == []
        await piece.delete()
        assert (await piece.ended()).sequence == 9
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_an_adopted_slice_that_nobody_wants_is_deleted(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.DELETING, cause="nobody's")
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.TERMINATED, "nobody's")
        assert await stage.cloud.existing() == []

    played(machine, story)


def test_messages_that_cannot_be_read_change_nothing(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        for nonsense in ("?", {"phase": "melted"}, None, [1]):
            await piece.handle.signal(names.OBSERVED, nonsense)
            await piece.handle.signal(names.COMMAND, nonsense)
        await piece.handle.signal(names.COMMAND, {"kind": "delete", "slice_id": "another", "cause": "a mistake"})
        assert (await piece.make_ready()).cause == ""

    played(machine, story)


def test_the_life_goes_on_over_many_runs(machine_of_short_runs: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        first = (await piece.handle.describe()).run_id

        async def run_after_a_look() -> str:
            await piece.see(**READY)
            return (await piece.handle.describe()).run_id

        await until(run_after_a_look, lambda run: run != first, seconds=SECONDS)
        lifecycle = await piece.lifecycle()
        assert (lifecycle.state, lifecycle.sequence, lifecycle.reported) == (SliceState.READY, 3, 3)
        assert [move.state for move in lifecycle.moves] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]
        assert (await piece.handle.describe()).typed_search_attributes[STATE] == SliceState.READY
        await piece.delete()
        assert (await piece.ended()).state is SliceState.TERMINATED
        assert (await stage.reports())[-1].sequence == 5
        assert len(await stage.cloud.ever_made()) == 1

    played(machine_of_short_runs, story)


def test_people_find_a_slice_by_state_and_cause_and_read_its_timeline(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.drain("idle")
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        query = f"PenstockState = 'DRAINING' AND PenstockCause = 'idle' AND WorkflowId = '{piece.handle.id}'"

        async def found() -> list[str]:
            return [each.id async for each in stage.client.list_workflows(query)]

        await until(found, bool, seconds=SECONDS)
        metadata = await piece.handle.query("__temporal_workflow_metadata")
        assert row(("DRAINING", "idle")).removeprefix("| ") in metadata.current_details

    played(machine, story)
