"""Verify: agreement of ledger, workflows and cloud, and every kind of difference in a sentence."""

import asyncio

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError

from activities.temporal_reads import last_state_of
from penstock.contract.answers import Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice
from tests.workflows.ledgers import all_listed, name_of, settled, verified
from tests.workflows.machine import Machine
from tests.workflows.stage import QUICK, Stage, group, staged

UNHURRIED = {"inventory": QUICK["inventory"] | {"lost_after": "1h", "audit": "1h"}}
"""After the first audit of a watch, no other one repairs a difference before the test has read it."""


async def left_alone(stage: Stage, count: int) -> tuple[Slice, ...]:
    """The slices, one more in each group than at first: the watch that saw them start has audited the location before."""
    await settled(stage, count - len(stage.config.groups))
    groups = tuple(each.model_copy(update={"min_slices": each.min_slices + 1}) for each in stage.config.groups)
    await stage.autoscaler.apply_config(stage.config.model_copy(update={"groups": groups}))
    return await settled(stage, count)


def kinds(verdict: Verdict) -> list[tuple[str, str]]:
    return sorted((difference.kind, difference.slice_id) for difference in verdict.differences)


def test_a_quiet_cluster_agrees(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=2), group("large", zone="b", min_slices=1)) as stage:
            await settled(stage, 3)
            verdict = await verified(stage)
            assert verdict.agrees, verdict
            assert (verdict.slices, verdict.workflows, verdict.resources, verdict.locations) == (3, 3, 3, 2)

    asyncio.run(story())


def test_a_slice_that_the_cloud_lost(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1), **UNHURRIED) as stage:
            lost, _ = await left_alone(stage, 2)
            await stage.cloud.delete(name_of(stage, lost))
            verdict = await verified(stage)
            (difference,) = verdict.differences
            location = f"sim/{stage.cloud.zone()}"
            assert difference.message == f"slice {lost.id} is READY in the ledger, but the cloud does not have it in {location}"
            assert (difference.kind, difference.group, difference.location) == ("no_resource", "small", location)
            assert not verdict.agrees

    asyncio.run(story())


def test_a_resource_without_a_workflow_and_a_slice_that_only_the_ledger_has(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1), **UNHURRIED) as stage:
            first, second = await left_alone(stage, 2)
            for piece in (first, second):
                await stage.slice_workflow(piece.group, piece.id).terminate("by hand")
            await stage.cloud.delete(name_of(stage, second))
            assert kinds(await verified(stage)) == sorted([("no_workflow", first.id), ("nowhere", second.id)])

    asyncio.run(story())


def test_slices_whose_autoscaler_was_terminated_are_in_no_ledger(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            await all_listed(stage, 1)
            await stage.workflow.terminate("by hand")
            assert kinds(await verified(stage)) == [("not_in_ledger", piece.id)]

    asyncio.run(story())


def test_a_resource_left_where_nothing_is_configured_any_more(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(), group("other", zone="b"), **UNHURRIED) as stage:
            left = next(piece for piece in await left_alone(stage, 2) if piece.group == "small")
            await all_listed(stage, 2)
            await stage.workflow.terminate("by hand")
            await stage.slice_workflow("small", left.id).terminate("by hand")
            written = stage.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
            kept = [each for each in written["groups"] if each["name"] == "other"]
            await stage.autoscaler.start(ClusterConfig.model_validate(written | {"groups": kept}))
            await settled(stage, 1)
            assert kinds(await verified(stage)) == [("no_workflow", left.id)]

    asyncio.run(story())


def test_a_resource_that_only_carries_the_labels_of_a_slice(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(), **UNHURRIED) as stage:
            (piece,) = await left_alone(stage, 1)
            labels = {"penstock-cluster": stage.cluster, "penstock-group": "small", "penstock-slice": piece.id}
            await stage.cloud.add(f"second-{stage.cluster}", labels=labels)
            assert kinds(await verified(stage)) == [("foreign", piece.id)]

    asyncio.run(story())


def test_a_location_without_a_complete_listing_is_named_and_its_slices_are_not_missing(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            await settled(stage, 1)
            await stage.cloud.behave(partial_lists=True)
            verdict = await verified(stage)
            assert (verdict.differences, verdict.unlisted) == ((), (f"sim/{stage.cloud.zone()}",))
            assert not verdict.agrees

    asyncio.run(story())


def test_a_cluster_that_never_existed(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(), start=False) as stage:
            with pytest.raises(WorkflowFailureError) as failed:
                await verified(stage)
            assert isinstance(failed.value.cause, ActivityError)
            assert isinstance(failed.value.cause.cause, ApplicationError)
            assert failed.value.cause.cause.type == ErrorCode.NO_SUCH_CLUSTER

    asyncio.run(story())


def test_slices_of_an_autoscaler_that_temporal_has_forgotten_are_found(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1), **UNHURRIED) as stage:
            (piece,) = await settled(stage, 1)
            await stage.workflow.terminate()
            await stage.client.workflow_service.delete_workflow_execution(
                DeleteWorkflowExecutionRequest(
                    namespace=stage.client.namespace, workflow_execution=WorkflowExecution(workflow_id=stage.workflow.id)
                )
            )
            await stage.eventually(lambda: last_state_of(stage.client, stage.cluster), lambda state: state is None)
            verdict = await verified(stage)
            assert kinds(verdict) == [("not_in_ledger", piece.id)]
            assert (verdict.slices, verdict.workflows, verdict.resources, verdict.locations) == (0, 1, 1, 1)

    asyncio.run(story())
