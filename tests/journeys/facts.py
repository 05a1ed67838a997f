"""Conditions that hold at every moment of a journey, and conditions that hold once nothing is in flight."""

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus

from activities.temporal_reads import running_slices
from penstock.contract import names
from penstock.model.slices import Slice, SliceState
from tests.cli.running import Commands
from tests.workflows.ledgers import state_of, verified
from tests.workflows.stage import Stage

QUIET_SECONDS = 120.0
"""A killed worker is missed after 15 s, and retries back off for as long as calls failed."""
_SLICE, _GROUP = "penstock-slice", "penstock-group"


class Accounts(NamedTuple):
    """One reading of ledger, workflows and cloud, and of the work that the autoscaler still has to do."""

    ledger: tuple[Slice, ...]
    workflows: frozenset[str]
    resources: frozenset[str]
    busy: str

    @property
    def quiet(self) -> bool:
        """Whether every slice is READY, with one workflow and one resource, and nothing is under way."""
        ids = {piece.id for piece in self.ledger}
        ready = all(piece.state is SliceState.READY for piece in self.ledger)
        return ready and not self.busy and ids == self.workflows == self.resources

    @property
    def groups(self) -> dict[str, int]:
        """How many slices each group has."""
        return dict(Counter(piece.group for piece in self.ledger))


async def accounts(stage: Stage) -> Accounts:
    """Ledger, workflows and cloud now."""
    state = await state_of(stage)
    workflows = await running_slices(stage.client, stage.cluster)
    resources = [item["labels"][_SLICE] for item in await stage.cloud.existing()]
    pending = {"recovery": state.recovery, "unstarted": state.unstarted, "outbox": state.outbox, "draining": state.draining}
    busy = ", ".join(name for name, work in pending.items() if work)
    return Accounts(state.slices, frozenset(workflows), frozenset(resources), busy)


async def nothing_doubled(stage: Stage, *, stolen: Collection[str] = ()) -> None:
    """At any moment no order was carried out twice, and no group has more slices than its maximum.

    A resource that was `stolen` before its reply came is rightly made again under its name.
    """
    made = await stage.cloud.ever_made()
    times = Counter(item["labels"][_SLICE] for item in made if item["phase"] != "gone" or item["name"] not in stolen)
    doubled = [slice_id for slice_id, count in times.items() if count > 1]
    assert not doubled, doubled
    existing = Counter(item["labels"][_GROUP] for item in made if item["phase"] != "gone")
    for group in stage.config.groups:
        assert existing[group.name] <= group.max_slices, existing


async def quiet(stage: Stage, **groups: int) -> Accounts:
    """Wait until every slice is READY and owned, so many of each group; then nothing was doubled, and `verify` agrees."""
    found = await stage.eventually(
        lambda: accounts(stage), lambda seen: seen.quiet and seen.groups == groups, seconds=QUIET_SECONDS
    )
    await nothing_doubled(stage)
    verdict = await verified(stage)
    assert verdict.agrees, verdict
    assert (verdict.slices, verdict.workflows, verdict.resources) == (len(found.ledger),) * 3
    return found


async def agreed_by_command(stage: Stage) -> None:
    """`penstock verify`, as a person runs it, finds no difference."""
    done = await asyncio.to_thread(Commands(stage.machine.environment), "verify", "--cluster", stage.cluster)
    assert done.returncode == 0, done.stdout + done.stderr


async def attempts(stage: Stage, piece: Slice, activity: str) -> list[int]:
    """How often each finished call of a slice was tried, as its history has it."""
    history = await stage.slice_workflow(piece.group, piece.id).fetch_history()
    scheduled = {
        event.event_id
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        and event.activity_task_scheduled_event_attributes.activity_type.name == activity
    }
    started = [e for e in history.events if e.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED]
    found = [event.activity_task_started_event_attributes for event in started]
    return [one.attempt for one in found if one.scheduled_event_id in scheduled]


async def ended(stage: Stage, workflow_id: str | None = None) -> WorkflowExecutionStatus:
    """How a workflow, the autoscaler unless another is named, ended, once it has."""
    handle = stage.client.get_workflow_handle(workflow_id or names.autoscaler_id(stage.cluster))

    async def status() -> WorkflowExecutionStatus | None:
        return (await handle.describe()).status

    seen = await stage.eventually(status, lambda found: found is not WorkflowExecutionStatus.RUNNING)
    assert seen is not None
    return seen
