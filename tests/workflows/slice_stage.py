"""Single slice workflows on a running machine, without an autoscaler: the test sends the sightings and commands."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes, HistoryEvent
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from activities.providers.port import resource_name
from penstock.contract import names
from penstock.contract.slices import DeleteCommand, DrainCommand, SliceLifecycle, SliceReport, SliceReports, SliceSpec
from penstock.model.failures import Phase
from penstock.model.location import Location
from penstock.model.sightings import Host, Labels, Ref, Sighting
from penstock.model.slices import DrainTerms, SliceState
from tests.activities.waiting import STORY_SECONDS, until, within
from tests.workflows.machine import Machine
from tests.workflows.stage import SECONDS, StagedCloud, cleared

GROUP = "small"


class OneSlice:
    """A slice workflow, and its location in the cloud."""

    def __init__(self, handle: WorkflowHandle[Any, Any], spec: SliceSpec) -> None:
        self.handle = handle
        self.spec = spec
        self.name = resource_name(cluster=spec.cluster, group=spec.group, slice_id=spec.slice_id)

    async def lifecycle(self) -> SliceLifecycle:
        lifecycle: SliceLifecycle = await self.handle.query(names.LIFECYCLE, result_type=SliceLifecycle)
        return lifecycle

    async def until(self, holds: Callable[[SliceLifecycle], object]) -> SliceLifecycle:
        """Its lifecycle once a condition holds; wait only for a condition that lasts."""
        return await until(self.lifecycle, holds, seconds=SECONDS)

    async def comes_to(self, state: SliceState) -> SliceLifecycle:
        return await self.until(lambda lifecycle: lifecycle.state is state)

    async def ended(self) -> SliceLifecycle:
        """Its last state, once its workflow is over and its autoscaler has the last report."""
        async with asyncio.timeout(SECONDS):
            with suppress(WorkflowFailureError):
                await self.handle.result()
        return await self.lifecycle()

    async def failure(self) -> ApplicationError:
        """The failure of its workflow, once it is over."""
        async with asyncio.timeout(SECONDS):
            with pytest.raises(WorkflowFailureError) as failed:
                await self.handle.result()
        assert isinstance(failed.value.cause, ApplicationError)
        return failed.value.cause

    async def see(self, phase: Phase, **rest: Any) -> None:
        """Send a sighting as a signal."""
        await self.handle.signal(names.OBSERVED, self.sighting(phase, **rest).model_dump(mode="json"))

    def sighting(self, phase: Phase, **rest: Any) -> Sighting:
        """A look at its resource."""
        labels = Labels(cluster=self.spec.cluster, group=self.spec.group, slice=self.spec.slice_id)
        ref = Ref(location=self.spec.location.name, name=self.name, labels=labels)
        return Sighting(ref=ref, phase=phase, **rest)

    def healthy(self) -> Sighting:
        """A look that shows all its hosts healthy."""
        return self.sighting(Phase.RUNNING, hosts=self.hosts(healthy=True))

    async def see_healthy(self, *, first: int = 1) -> None:
        await self.see(Phase.RUNNING, hosts=self.hosts(healthy=True, first=first))

    def hosts(self, *, healthy: bool = False, first: int = 1) -> tuple[Host, ...]:
        """Its hosts, with addresses that count up from the first."""
        answered = self.spec.slice_id if healthy else None
        return tuple(
            Host(name=f"host-{i}", address=f"10.0.0.{first + i}", asked=healthy, answered=answered)
            for i in range(self.spec.hosts)
        )

    async def make_ready(self) -> SliceLifecycle:
        await self.until(lambda lifecycle: lifecycle.create_accepted)
        await self.see_healthy()
        return await self.comes_to(SliceState.READY)

    async def drain(self, cause: str = "idle", *, force: bool = False) -> None:
        await self.send(DrainCommand(slice_id=self.spec.slice_id, terms=DrainTerms(cause=cause, force=force)))

    async def delete(self, cause: str = "not wanted") -> None:
        await self.send(DeleteCommand(slice_id=self.spec.slice_id, cause=cause))

    async def send(self, command: Any) -> None:
        await self.handle.signal(names.COMMAND, command.model_dump(mode="json"))

    async def events(self) -> list[HistoryEvent]:
        """The newest run's history."""
        return list((await self.handle.fetch_history()).events)

    async def count(self, kind: EventType.ValueType) -> int:
        """Events of that kind in the newest run."""
        return sum(event.event_type == kind for event in await self.events())

    async def scheduled(self, name: str) -> list[ActivityTaskScheduledEventAttributes]:
        """How the activities of that name were scheduled."""
        return [each for each in await self._scheduled() if each.activity_type.name == name]

    async def activities(self) -> list[str]:
        """Names of the activities that were scheduled, in order."""
        return [each.activity_type.name for each in await self._scheduled()]

    async def _scheduled(self) -> list[ActivityTaskScheduledEventAttributes]:
        kind = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        return [event.activity_task_scheduled_event_attributes for event in await self.events() if event.event_type == kind]


class SliceStage:
    """The name of a cluster, a zone, and a log of signals in place of its autoscaler."""

    def __init__(self, client: Client, cloud: StagedCloud) -> None:
        self.client = client
        self.cloud = cloud
        self.cluster = cloud.cluster
        self._begun: list[OneSlice] = []

    async def last_state(self) -> str:
        """For a test that hangs: the state of its slices."""
        return "\n".join([(await piece.lifecycle()).model_dump_json(indent=1) for piece in self._begun])

    async def start_signal_log(self) -> None:
        """Start a workflow that no worker runs, under the autoscaler's id: signals to it stay in its history."""
        queue = f"no-worker-{self.cluster}"
        await self.client.start_workflow("SignalLog", id=names.autoscaler_id(self.cluster), task_queue=queue)

    async def reports(self) -> list[SliceReport]:
        """The reports of slices, in order."""
        history = await self.client.get_workflow_handle(names.autoscaler_id(self.cluster)).fetch_history()
        kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        signals = [e.workflow_execution_signaled_event_attributes for e in history.events if e.event_type == kind]
        bodies = [signal.input.payloads[0].data for signal in signals if signal.signal_name == names.SLICES_REPORTED]
        return [report for body in bodies for report in SliceReports.model_validate_json(body).reports]

    def spec(self, **rest: Any) -> SliceSpec:
        slice_id = f"{GROUP}-{uuid.uuid4().hex[:8]}"
        given = {"cluster": self.cluster, "group": GROUP, "slice_id": slice_id, "cause": "demand", "location": self.location()}
        return SliceSpec.model_validate(given | rest)

    def location(self, provider: str = "sim", **settings: str) -> Location:
        """The zone of this stage."""
        return Location(provider=provider, account=provider, name=self.cloud.zone(), settings=dict(settings))

    async def order(self, **rest: Any) -> OneSlice:
        return await self.begin(self.spec(**rest))

    async def found(self, state: SliceState, *, cause: str = "", sequence: int = 0, **rest: Any) -> OneSlice:
        """A slice that existed before its workflow."""
        spec = self.spec(**{"cause": "adopted"} | rest)
        name = resource_name(cluster=spec.cluster, group=spec.group, slice_id=spec.slice_id)
        labels = {"penstock-cluster": spec.cluster, "penstock-group": spec.group, "penstock-slice": spec.slice_id}
        await self.cloud.add(name, labels=labels, hosts=spec.hosts)
        return await self.begin(spec, state=state, create_accepted=True, cause=cause, sequence=sequence, reported=sequence)

    async def begin(self, spec: SliceSpec, *, task_queue: str = names.TASK_QUEUE, **lifecycle: Any) -> OneSlice:
        now = datetime.now(UTC)
        workflow_id = names.slice_workflow_id(spec.cluster, spec.group, spec.slice_id)
        begun = SliceLifecycle(spec=spec, since=now, ordered_at=now, **lifecycle)
        handle = await self.client.start_workflow(
            names.SLICE, begun, id=workflow_id, task_queue=task_queue, result_type=SliceLifecycle
        )
        piece = OneSlice(self.client.get_workflow_handle(handle.id, result_type=SliceLifecycle), spec)
        self._begun.append(piece)
        return piece


@asynccontextmanager
async def slice_stage(machine: Machine, *, log: bool = True, **behaviour: Any) -> AsyncIterator[SliceStage]:
    """A fresh cluster and zone; its workflows are ended with the test, which may not hang."""
    name = uuid.uuid4().hex[:8]
    client = await machine.client()
    async with aiohttp.ClientSession() as session:
        stage = SliceStage(client, StagedCloud(machine.url, session, cluster=f"c{name}", region=f"region{name}"))
        await stage.cloud.behave(**behaviour)
        try:
            async with within(STORY_SECONDS, stage.last_state):
                if log:
                    await stage.start_signal_log()
                yield stage
        finally:
            await cleared(client, stage.cluster)


def played(machine: Machine, story: Callable[[SliceStage], Awaitable[None]], *, log: bool = True, **behaviour: Any) -> None:
    """Play a story on a stage of its own."""

    async def play() -> None:
        async with slice_stage(machine, log=log, **behaviour) as stage:
            await story(stage)

    asyncio.run(play())


async def reported(stage: SliceStage, holds: Callable[[SliceReport], object]) -> SliceReport:
    """A report that the autoscaler received."""
    found = await until(stage.reports, lambda reports: any(map(holds, reports)), seconds=SECONDS)
    return next(filter(holds, found))
