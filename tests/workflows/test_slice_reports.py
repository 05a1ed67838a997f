"""Reports of a slice to its autoscaler and its timeline for people, over many runs and past unreadable messages."""

from temporalio.api.enums.v1 import EventType
from temporalio.common import SearchAttributeKey

from penstock.contract import names
from penstock.contract.slices import ReportCommand
from penstock.model.slices import SliceState
from tests.activities.waiting import until
from tests.workflows.machine import Machine
from tests.workflows.slice_stage import SliceStage, played, reported
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
        await stage.start_signal_log()
        report = await reported(stage, lambda report: report.state is SliceState.READY)
        assert report.sequence == lifecycle.sequence
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)

    played(machine, story, log=False)


def test_an_ended_slice_without_an_autoscaler_waits_for_one_until_it_is_cancelled(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.comes_to(SliceState.FAILED)
        await piece.handle.cancel()
        assert (await piece.ended()).state is SliceState.FAILED

    played(machine, story, log=False, stockout=True)


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

    played(machine, story, log=False)


def test_a_slice_repeats_its_report_on_request(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        before = len(await stage.reports())
        await piece.send(ReportCommand(slice_id=piece.spec.slice_id))
        reports = await until(stage.reports, lambda reports: len(reports) > before, seconds=SECONDS)
        assert reports[-1] == reports[-2]

    played(machine, story)


def test_a_slice_reports_the_addresses_of_its_hosts_and_any_change_of_them(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order(hosts=2)
        await piece.make_ready()
        ready = await reported(stage, lambda report: report.state is SliceState.READY)
        assert [(host.name, host.address) for host in ready.hosts] == [("host-0", "10.0.0.1"), ("host-1", "10.0.0.2")]
        await piece.see_healthy(first=7)
        moved = await reported(stage, lambda report: report.sequence == ready.sequence + 1)
        assert (moved.state, moved.since) == (SliceState.READY, ready.since)
        assert [(host.name, host.address) for host in moved.hosts] == [("host-0", "10.0.0.7"), ("host-1", "10.0.0.8")]
        lifecycle = await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        assert (lifecycle.hosts, lifecycle.transitions[-1].why) == (moved.hosts, "addresses of hosts changed")

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


def test_an_adopted_slice_that_is_not_wanted_is_deleted(machine: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.found(SliceState.DELETING, cause="not wanted")
        lifecycle = await piece.ended()
        assert (lifecycle.state, lifecycle.cause) == (SliceState.TERMINATED, "not wanted")
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


def test_a_lifecycle_continues_over_many_runs(machine_of_short_runs: Machine) -> None:
    async def story(stage: SliceStage) -> None:
        piece = await stage.order()
        await piece.make_ready()
        await piece.until(lambda lifecycle: lifecycle.reported == lifecycle.sequence)
        first = (await piece.handle.describe()).run_id

        async def run_after_a_sighting() -> str:
            await piece.see_healthy()
            return (await piece.handle.describe()).run_id

        await until(run_after_a_sighting, lambda run: run != first, seconds=SECONDS)
        lifecycle = await piece.lifecycle()
        assert (lifecycle.state, lifecycle.sequence, lifecycle.reported) == (SliceState.READY, 3, 3)
        assert [move.state for move in lifecycle.transitions] == [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY]
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
