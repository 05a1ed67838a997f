"""Today's workflows continue from the state that an earlier version carried over, on a new server and cloud."""

import asyncio
import json
from typing import Any

import aiohttp
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from activities.providers.port import resource_name
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import ConfirmEmptyCommand, DrainCommand, SliceLifecycle, SliceReports
from penstock.core.slices.watch import unpack_notified
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import DrainTerms, SliceState
from tests.activities.waiting import until
from tests.replay import golden
from tests.workflows.machine import Machine
from tests.workflows.stage import SECONDS, StagedCloud, cleared


def _carried(name: str) -> tuple[str, list[Any]]:
    """The workflow's id, and the input of its last run."""
    history = golden.load(name)
    started = history.events[0].workflow_execution_started_event_attributes
    assert started.continued_execution_run_id, f"{name} is the first run"
    return history.workflow_id, [json.loads(payload.data) for payload in started.input.payloads]


async def _signal_log(client: Client, workflow_id: str) -> "WorkflowHandle[Any, Any]":
    """A workflow that no worker runs: signals to it stay in its history."""
    return await client.start_workflow("SignalLog", id=workflow_id, task_queue="no-worker")


async def _signals(log: "WorkflowHandle[Any, Any]", signal: str) -> list[bytes]:
    """Payloads of the signals of one name, in order."""
    kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    events = [event for event in (await log.fetch_history()).events if event.event_type == kind]
    received = [event.workflow_execution_signaled_event_attributes for event in events]
    return [each.input.payloads[0].data for each in received if each.signal_name == signal]


async def _add_resource(machine: Machine, lifecycle: SliceLifecycle) -> None:
    """Create the resource of the slice in its cloud."""
    spec = lifecycle.spec
    labels = {"penstock-cluster": spec.cluster, "penstock-group": spec.group, "penstock-slice": spec.slice_id}
    region, command = spec.location.name.rsplit("-", 1)
    async with aiohttp.ClientSession() as session:
        cloud = StagedCloud(machine.url, session, cluster=spec.cluster, region=region)
        name = resource_name(cluster=spec.cluster, group=spec.group, slice_id=spec.slice_id)
        await cloud.add(name, command, labels=labels, hosts=spec.hosts)


def test_an_autoscaler_continues_with_the_ledger_and_the_demand_that_an_earlier_version_carried(machine: Machine) -> None:
    workflow_id, (carried,) = _carried("autoscaler-later-run")

    async def story() -> None:
        client = await machine.client()
        await client.start_workflow(names.AUTOSCALER, carried, id=workflow_id, task_queue=names.TASK_QUEUE)
        autoscaler = AutoscalerClient(client, workflow_id.removeprefix(names.autoscaler_id("")))
        # This cloud has none of its slices: they are found missing, and as many are launched as its demand needs.
        lost = {piece.id for piece in AutoscalerState.model_validate(carried).slices}
        assert lost
        sources = (await autoscaler.status()).demand
        for source in sources:  # Their controllers are still there: a lease that has lapsed since would buy nothing.
            await client.get_workflow_handle(workflow_id).signal(names.REPORT, {"source": source})
        wanted = sum(source.tasks for source in sources.values())

        async def ready() -> set[str]:
            slices = (await autoscaler.slices()).slices
            return {piece.id for piece in slices if piece.state is SliceState.READY and piece.id not in lost}

        await until(ready, lambda slices: len(slices) == wanted, seconds=SECONDS)
        assert (await autoscaler.status()).evaluations > carried["evaluations"]
        await autoscaler.delete(force=True)
        await autoscaler.deleted()

    asyncio.run(story())


def test_a_slice_continues_with_the_lifecycle_that_an_earlier_version_carried(machine: Machine) -> None:
    workflow_id, (carried,) = _carried("slice-later-run")
    lifecycle = SliceLifecycle.model_validate(carried)
    spec = lifecycle.spec
    assert lifecycle.state is SliceState.READY

    async def story() -> None:
        client = await machine.client()
        log = await _signal_log(client, names.autoscaler_id(spec.cluster))
        await _add_resource(machine, lifecycle)
        slice_workflow = await client.start_workflow(
            names.SLICE, carried, id=workflow_id, task_queue=names.TASK_QUEUE, result_type=SliceLifecycle
        )
        assert await slice_workflow.query(names.LIFECYCLE, result_type=SliceLifecycle) == lifecycle
        drain = DrainCommand(slice_id=spec.slice_id, terms=DrainTerms(cause="idle"))
        for command in (drain, ConfirmEmptyCommand(slice_id=spec.slice_id)):
            await slice_workflow.signal(names.COMMAND, command.model_dump(mode="json"))
        async with asyncio.timeout(SECONDS):
            ended: SliceLifecycle = await slice_workflow.result()

        assert ended.state is SliceState.TERMINATED
        assert ended.transitions[: len(lifecycle.transitions)] == lifecycle.transitions
        payloads = await _signals(log, names.SLICES_REPORTED)
        reports = [report for each in payloads for report in SliceReports.model_validate_json(each).reports]
        (last,) = (report for report in reports if report.state is SliceState.TERMINATED)
        assert last.sequence == ended.sequence > lifecycle.reported
        await cleared(client, spec.cluster)

    asyncio.run(story())


def test_an_inventory_continues_with_the_table_that_an_earlier_version_carried(machine: Machine) -> None:
    workflow_id, carried = _carried("inventory-later-run")
    location = WatchedLocation.model_validate(carried[0])
    ((slice_id, known),) = unpack_notified(carried[1]).items()
    assert known.healthy

    async def story() -> None:
        client = await machine.client()
        log = await _signal_log(client, names.slice_workflow_id(location.cluster, known.group, slice_id))
        inventory = await client.start_workflow(names.INVENTORY, args=carried, id=workflow_id, task_queue=names.TASK_QUEUE)

        async def notified() -> list[Phase]:
            return [Sighting.model_validate_json(payload).phase for payload in await _signals(log, names.OBSERVED)]

        # This cloud does not have the slice. Only a watch that knows the slice from before can miss it.
        await until(notified, lambda phases: Phase.GONE in phases, seconds=SECONDS)
        async with asyncio.timeout(SECONDS):
            await inventory.result()
        assert await notified() == [Phase.GONE]
        await cleared(client, location.cluster)

    asyncio.run(story())
