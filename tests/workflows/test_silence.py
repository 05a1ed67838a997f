"""Silence through the workflows: what nobody says buys nothing, and what a controller leaves out is noticed."""

from datetime import timedelta

from penstock.client import AutoscalerClient
from penstock.contract.answers import ClusterStatus, SlicePage
from penstock.model.decision import Code
from penstock.model.failures import FailureKind
from penstock.model.slices import SliceState
from tests.workflows.ledgers import reset, run_of, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_demand import played, ready, tasks

GRACE_SECONDS = 0.2
GRACES = 10
GRACE = f"{int(GRACE_SECONDS * 1000)}ms"


async def silent_for_many_graces(stage: Stage) -> ClusterStatus:
    """Evaluate again and again while no usage report names a slice that has been READY for many graces."""

    async def evaluated_again() -> ClusterStatus:
        await stage.autoscaler.submit_demand(tasks(1, cpu=100, name="nudge"), source="nudge")
        await stage.autoscaler.submit_demand([], source="nudge")
        return await stage.autoscaler.status()

    def is_long(status: ClusterStatus) -> bool:
        since = status.groups[0].unreported_since
        long = timedelta(seconds=GRACES * GRACE_SECONDS)
        return since is not None and status.evaluated_at is not None and status.evaluated_at - since > long

    return await stage.eventually(evaluated_again, is_long)


def test_one_task_and_no_usage_report_is_one_slice_for_ever(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1))
        await ready(stage, "small", 1)
        status = await silent_for_many_graces(stage)
        assert len(await stage.cloud.ever_made()) == 1
        assert status.groups[0].unreported == 1
        assert status.groups[0].not_started == ("task-0",)
        text = (await stage.autoscaler.explain("task-0")).text
        assert "No usage report has named 1 slice of small" in text
        assert "and no report says that it runs: does the controller use these slices?" in text

    played(machine, story, ready_grace=GRACE)


def test_a_warm_slice_that_nobody_reports_is_not_replaced_when_its_grace_ends(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await ready(stage, "small", 1)
        await silent_for_many_graces(stage)
        assert len(await stage.cloud.ever_made()) == 1

    played(machine, story, group(warm_slices=1), ready_grace=GRACE)


def test_a_slice_that_a_reporting_controller_never_names_is_replaced_later_and_given_back(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        known, stranger = (await stage.autoscaler.slices()).slices

        async def heard() -> ClusterStatus:
            await stage.autoscaler.usage({known.id: [{"tasks": ["task-0"], "reserved": {"cpu": 4}}]})
            await stage.workflow.signal("report", {"source": "default"})
            return await stage.autoscaler.status()

        status = await stage.eventually(heard, lambda status: bool(status.recent_failures))
        failed = status.recent_failures[0]
        assert (failed.slice_id, failed.failure.kind) == (stranger.id, FailureKind.UNCLAIMED)
        made = await stage.eventually(stage.cloud.ever_made, lambda made: len(made) == 3)
        names = [item["labels"]["penstock-slice"] for item in made]
        gone = await stage.eventually(
            stage.cloud.existing, lambda items: all(item["labels"]["penstock-slice"] != stranger.id for item in items)
        )
        assert {item["labels"]["penstock-slice"] for item in gone} == {known.id, *set(names) - {known.id, stranger.id}}

    timeouts = {"drain": "300ms"}
    played(
        machine,
        story,
        group(timeouts=timeouts),
        ready_grace=GRACE,
        unclaimed_after="2s",
        backoff={"first": "500ms", "longest": "500ms"},
    )


def test_demand_whose_lease_lapsed_is_not_bought_again_until_its_source_is_heard(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        async def renewed() -> SlicePage:
            await stage.workflow.signal("report", {"source": "default"})
            return await stage.autoscaler.slices(state="READY")

        await stage.workflow.signal("demand", {"tasks": tasks(1), "lease": "2s"})
        await stage.eventually(renewed, lambda page: page.total == 1)
        status = await stage.eventually(
            stage.autoscaler.status, lambda status: status.demand["default"].buys_nothing and status.evaluations > 1
        )
        assert "the lease of source default lapsed at" in (status.demand["default"].buys_nothing or "")
        (made,) = await stage.cloud.ever_made()
        await stage.cloud.preempt(made["name"])
        await stage.eventually(stage.autoscaler.status, lambda status: status.unmet == {Code.NO_CAPACITY: 1})
        assert "the lease of source default lapsed at" in (await stage.autoscaler.explain("task-0")).text
        assert len(await stage.cloud.ever_made()) == 1
        await stage.workflow.signal("report", {"source": "default"})
        await stage.eventually(stage.cloud.ever_made, lambda made: len(made) == 2)

    played(machine, story)


def test_a_forgotten_source_wants_nothing_any_more(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        gone = AutoscalerClient(stage.client, stage.cluster)
        await gone.submit_demand(tasks(1), source="gone")
        done = await stage.autoscaler.forget_source("gone")
        assert done.message == "Forgot source gone: 1 task, and its word on 0 slices"
        assert "gone" not in (await stage.autoscaler.status()).demand

    played(machine, story)


def test_a_client_notices_that_a_reset_lost_its_usage_and_sends_all_of_it_again(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "small", 1)
        (piece,) = (await stage.autoscaler.slices()).slices
        await stage.autoscaler.usage({piece.id: "idle"})
        await stage.eventually(lambda: state_of(stage), lambda state: piece.id in state.usage)
        kept = (await stage.workflow.fetch_history()).events[-1].event_id
        before = await run_of(stage.workflow)
        await stage.autoscaler.usage({piece.id: [{"tasks": ["task-0"]}]})
        await stage.eventually(lambda: state_of(stage), lambda state: state.usage[piece.id][0].tasks == ("task-0",))
        await reset(stage, after=kept)
        await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))
        await stage.eventually(stage.autoscaler.status, lambda status: status.recovery is None)

        async def reported() -> ClusterStatus:
            await stage.autoscaler.usage({piece.id: [{"tasks": ["task-0"]}]})
            return await stage.autoscaler.status()

        status = await stage.eventually(reported, lambda status: status.usage["default"].resync_needed is None)
        assert status.usage["default"].slices == 1
        state = await stage.eventually(lambda: state_of(stage), lambda state: state.usage[piece.id][0].tasks == ("task-0",))
        assert [each.state for each in state.slices] == [SliceState.READY]

    played(machine, story)
