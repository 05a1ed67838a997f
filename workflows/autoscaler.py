"""The workflow of one cluster: apply messages to its state, evaluate it in an activity, carry out the orders."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, DecisionSummary, Done, Explanation, SlicePage
from penstock.contract.messages import SlicesRequest, StatusRequest
from penstock.contract.orders import Orders
from penstock.contract.problems import BadMessage
from penstock.contract.requests import CollectReportsRequest, KeepInventoriesRequest
from penstock.contract.slices import SliceCommand
from penstock.core.answers.status import page_of, status_of
from penstock.core.state.events import (
    AnyEvent,
    CommandsSent,
    ConfigApplied,
    Decided,
    LaunchesDropped,
    MessageRejected,
    Paused,
    RecoveryBegan,
    ReportsCollected,
    Resumed,
    SlicesStarted,
)
from penstock.core.state.signals import read_signal
from penstock.core.state.specs import initial_lifecycle, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import Slice
from penstock.wording import counted
from workflows import policies
from workflows.queries import QueryAnswers
from workflows.state_cell import StateCell
from workflows.ui.cluster_details import cluster_details

BATCH = 50
"""Slices started, or commands sent, in one workflow task: other sizes measured slower."""
MOST_CHILDREN = 1500
"""Slices that one run starts: the server ends a run at 2,000 pending children."""
LAST_AUDIT = "all slices are gone; every location is audited for leftovers"
"""The reason of the recovery before a cluster ends."""
_UNDO_LAUNCHES = (Paused, Resumed, ConfigApplied)
"""After these events, launches that are not started yet are dropped and decided again."""

_CLUSTER, _GROUP, _STATE, _CAUSE = (SearchAttributeKey.for_keyword(name) for name in names.SEARCH_ATTRIBUTES)


@workflow.defn(name=names.AUTOSCALER)
class AutoscalerWorkflow:
    """Evaluate, carry out the orders, wait for a change; continue as new when the history is long.

    No command depends on the clock: a worker that takes over a run may read an earlier time than the last one.
    """

    @workflow.init
    def __init__(self, state: AutoscalerState) -> None:
        self._cell = StateCell(state)
        self._answers = QueryAnswers()
        self._children = 0
        self._being_started: frozenset[str] = frozenset()
        self._kept: tuple[int, str | None] | None = None
        """The configuration revision and the recovery for which this run last started inventories."""
        self._evaluated_inputs = -1
        """The input version of this run's last decision."""
        self._pace: asyncio.Task[None] | None = None
        self._deadline: asyncio.Task[None] | None = None
        self._deadline_at: datetime | None = None
        self._details = ""
        self._shown = -1
        """The version of the state that the UI details show."""
        self._seen = -1
        """The version of the state at the end of the last pass: a long run without new events need not continue as new."""

    @workflow.run
    async def run(self, _state: AutoscalerState) -> dict[str, str | int]:
        """Run until the cluster is deleted. If cancelled, it stops deciding; its slices keep running."""
        while not self._is_over():
            self._begin_last_audit()
            await self._recover()
            await self._keep_inventories()
            await self._evaluate()
            await self._launch()
            await self._send_commands()
            if self._is_outdated():
                self._show_details()
            if self._may_continue_as_new():
                workflow.continue_as_new(self._state)
            self._seen = self._state.version
            await workflow.wait_condition(self._has_work)
        return {"cluster": self._cluster, "evaluations": self._state.evaluations, "config_revision": self._state.config_revision}

    # Messages. Dynamic handlers accept any payload; a payload that a typed handler cannot decode would be lost.

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, payloads: Sequence[RawValue]) -> None:
        """Every signal, from controllers, slices and inventories. Never raises: the workflow task would fail again and again."""
        known = self._cell.without_reports if name == names.SLICES_REPORTED else self._state
        try:
            for event in read_signal(known, name, _raw(payloads), workflow.now()):
                self._apply(event)
        except Exception as error:
            self._apply(MessageRejected(at=workflow.now(), message=name, problem=f"failed unexpectedly: {error!r}"[:500]))

    @workflow.update(dynamic=True)
    def on_update(self, name: str, payloads: Sequence[RawValue]) -> Accepted | Done:
        """Every update. No handler waits."""
        try:
            events, answer_in = self._answers.update(self._state, name, _raw(payloads), workflow.now())
        except BadMessage as bad:
            raise ApplicationError(str(bad), type="Refused") from None
        for event in events:
            self._apply(event)
        if any(isinstance(event, _UNDO_LAUNCHES) for event in events):
            self._undo_launches()
        return answer_in(self._state)

    @on_update.validator
    def validate_update(self, name: str, payloads: Sequence[RawValue]) -> None:
        """Refuse a bad update before it enters the history."""
        try:
            self._answers.check(self._state, name, _raw(payloads), workflow.now())
        except BadMessage as bad:
            raise ApplicationError(str(bad), type="Refused") from None

    # Queries.

    @workflow.query(name=names.STATUS)
    def status(self, request: StatusRequest = StatusRequest()) -> ClusterStatus:  # noqa: B008 - it is frozen
        """The status of the cluster; only the version if nothing changed since the one given."""
        return status_of(self._state, request.since)

    @workflow.query(name=names.DECISION)
    def decision(self) -> DecisionSummary:
        """The decision on the current state, with reasons."""
        return self._answers.decision(self._state)

    @workflow.query(name=names.EXPLAIN)
    def explain(self, task_id: str) -> Explanation:
        """Where one task is placed, or why it is not."""
        return self._answers.explanation(self._state, task_id)

    @workflow.query(name=names.SLICES)
    def slices(self, request: SlicesRequest = SlicesRequest()) -> SlicePage:  # noqa: B008 - it is frozen
        """One page of the ledger."""
        return page_of(self._state, request)

    @workflow.query(name=names.DUMP)
    def dump(self) -> AutoscalerState:
        """The whole state."""
        return self._state

    # Steps of a pass.

    def _begin_last_audit(self) -> None:
        """Before a deleted cluster with an empty ledger ends, recover the ledger once more to find leftovers."""
        if self._is_emptied():
            self._apply(RecoveryBegan(at=workflow.now(), id=f"closing-{workflow.uuid4()}", reason=LAST_AUDIT, closing=True))

    def _undo_launches(self) -> None:
        """Drop launches that are not started; not those whose start is in progress."""
        held = tuple(p.id for p in self._state.unstarted if p.is_launch and p.id not in self._being_started)
        if held:
            self._apply(LaunchesDropped(at=workflow.now(), slice_ids=held))

    async def _recover(self) -> None:
        """During a recovery, collect the reports of all running slices."""
        recovery = self._state.recovery
        if recovery is None or recovery.reports_collected:
            return
        await workflow.execute_activity(
            names.COLLECT_REPORTS,
            CollectReportsRequest(cluster=self._cluster, recovery=recovery.id),
            summary=f"collect reports of all slices: {recovery.reason}"[:200],
            **policies.COLLECT_REPORTS,
        )
        self._apply(ReportsCollected(at=workflow.now(), id=recovery.id))

    async def _keep_inventories(self) -> None:
        """Start missing inventories, and have every location audited during a recovery."""
        wanted = self._wanted_inventories()
        if wanted is None:
            return
        revision = self._state.config_revision
        audited = " and audit them now" if wanted.recovery else ""
        await workflow.execute_activity(
            names.KEEP_INVENTORIES,
            wanted,
            summary=f"watch {counted(len(wanted.locations), 'location')}{audited}",
            **policies.KEEP_INVENTORIES,
        )
        self._kept = (revision, wanted.recovery)

    async def _evaluate(self) -> None:
        if not self._is_due():
            return
        orders: Orders = await workflow.execute_activity(
            names.EVALUATE,
            self._cluster,
            result_type=Orders,
            summary=f"evaluation {self._state.evaluations + 1}, {counted(len(self._state.slices), 'slice')}",
            **policies.EVALUATE,
        )
        if orders.recover is not None:
            recovery = RecoveryBegan(at=workflow.now(), id=f"reset-{orders.run_id}", reason=orders.recover, run_id=orders.run_id)
            self._apply(recovery)
            return
        self._apply(Decided(at=workflow.now(), orders=orders))
        self._evaluated_inputs = orders.input_version
        self._set_timers(orders)

    def _set_timers(self, orders: Orders) -> None:
        """The next evaluation comes at the earliest after the interval, at the latest at `next_change_at`."""
        assert self._state.config is not None
        pace = self._state.config.evaluation.interval_seconds
        self._pace = asyncio.create_task(self._keep_pace(pace))
        if self._deadline is not None and not self._deadline.done():
            if orders.next_change_at == self._deadline_at:
                return
            self._deadline.cancel()
        self._deadline, self._deadline_at = None, orders.next_change_at
        if orders.next_change_at is not None:
            left = max(orders.next_change_at - orders.at, timedelta())
            self._deadline = asyncio.create_task(workflow.sleep(left, summary="next scheduled evaluation"))

    async def _keep_pace(self, seconds: float) -> None:
        """Wait for the interval, then write the UI details: before it, writing them would delay the first slices."""
        await workflow.sleep(seconds, summary="evaluation interval")
        self._show_details()

    async def _launch(self) -> None:
        """Start the workflows of launched and adopted slices in batches, and await each start: continue-as-new would lose it."""
        if dropped := self._cancelled_launches():
            self._apply(LaunchesDropped(at=workflow.now(), slice_ids=tuple(piece.id for piece in dropped)))
        while batch := self._startable()[:BATCH]:
            ids = tuple(piece.id for piece in batch)
            self._being_started = frozenset(ids)
            await asyncio.gather(*(self._start(piece) for piece in batch))
            self._being_started = frozenset()
            self._children += len(batch)
            self._apply(SlicesStarted(at=workflow.now(), slice_ids=ids))
            if self._run_is_long():
                return

    async def _start(self, piece: Slice) -> None:
        """Start the workflow of a slice. An adopted slice may reuse the id of its earlier workflow, which has ended."""
        lifecycle = initial_lifecycle(self._state, piece, workflow.now())
        if lifecycle is None:
            return
        spec = lifecycle.spec
        pairs = ((_CLUSTER, spec.cluster), (_GROUP, spec.group), (_STATE, lifecycle.state.value), (_CAUSE, spec.cause))
        reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE if piece.adopted else WorkflowIDReusePolicy.REJECT_DUPLICATE
        try:
            child: workflow.ChildWorkflowHandle[Any, Any] = await workflow.start_child_workflow(
                names.SLICE,
                lifecycle,
                id=names.slice_workflow_id(spec.cluster, spec.group, spec.slice_id),
                id_reuse_policy=reuse,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                search_attributes=TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs]),
                static_summary=f"{spec.group} in {spec.location.name} for {spec.cause}",
            )
        except WorkflowAlreadyStartedError:
            return  # It was started before this run was reset, and reports itself.
        child.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # Its end is reported by signal.

    async def _send_commands(self) -> None:
        """Send the commands of the outbox. A slice that cannot be reached has no workflow; the inventory finds its resource.

        At most one command per slice is in flight, because the server does not keep signals in order.
        """
        while commands := self._deliverable():
            slices = self._state.by_id
            known = [command for command in commands if command.slice_id in slices]
            await asyncio.gather(*(self._send(slices[command.slice_id].group, command) for command in known))
            self._apply(CommandsSent(at=workflow.now(), commands=commands))
            if self._run_is_long():
                return

    async def _send(self, group: str, command: SliceCommand) -> None:
        handle = workflow.get_external_workflow_handle(names.slice_workflow_id(self._cluster, group, command.slice_id))
        try:
            await handle.signal(names.COMMAND, command)
        except FailureError:
            return

    def _show_details(self) -> None:
        self._shown = self._state.version
        details = cluster_details(status_of(self._state))
        if details != self._details:
            self._details = details
            workflow.set_current_details(details)

    # Conditions.

    def _startable(self) -> tuple[Slice, ...]:
        """Slices to be started now. While the cluster is paused or deleted, only those that already exist in the cloud."""
        state = self._state
        if state.paused is None and not state.closing:
            return state.unstarted
        return tuple(piece for piece in state.unstarted if piece.adopted)

    def _cancelled_launches(self) -> tuple[Slice, ...]:
        """Launches of a cluster that is being deleted."""
        state = self._state
        return tuple(piece for piece in state.unstarted if piece.is_launch) if state.closing else ()

    def _deliverable(self) -> tuple[SliceCommand, ...]:
        """The first command to each slice whose workflow runs, a batch of them."""
        first = {command.slice_id: command for command in reversed(self._state.outbox)}
        unstarted = {piece.id for piece in self._state.unstarted}
        running = [command for slice_id, command in first.items() if slice_id not in unstarted]
        return tuple(running[-BATCH:])

    def _has_work(self) -> bool:
        state = self._state
        unreported = state.recovery is not None and not state.recovery.reports_collected
        orders = self._startable() or self._cancelled_launches() or self._deliverable()
        errands = orders or unreported or self._wanted_inventories() is not None
        outgrown = state.version > self._seen and self._may_continue_as_new()
        return bool(errands) or outgrown or self._is_due() or self._is_outdated() or self._is_emptied()

    def _is_due(self) -> bool:
        state = self._state
        held = state.config is None or state.recovery is not None or state.paused is not None or state.closing
        if held or self._is_pacing():
            return False
        return state.input_version > self._evaluated_inputs or (self._deadline is not None and self._deadline.done())

    def _is_pacing(self) -> bool:
        return self._pace is not None and not self._pace.done()

    def _is_outdated(self) -> bool:
        """Whether to write the UI details in this pass; after an evaluation they wait for the interval to end."""
        return self._state.version > self._shown and not self._is_pacing()

    def _wanted_inventories(self) -> KeepInventoriesRequest | None:
        """The inventories that this run still has to start or ask for an audit, if any."""
        state, kept = self._state, self._kept
        if state.config is None:
            return None
        recovery = state.recovery.id if state.recovery is not None else None
        if kept is not None and kept[0] == state.config_revision and recovery in (None, kept[1]):
            return None
        return KeepInventoriesRequest(locations=locations_of(state.config), recovery=recovery)

    def _run_is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested() or self._children >= MOST_CHILDREN

    def _may_continue_as_new(self) -> bool:
        return self._run_is_long() and workflow.all_handlers_finished()

    def _is_emptied(self) -> bool:
        state = self._state
        return state.closing and not state.slices and state.recovery is None

    def _is_over(self) -> bool:
        """Whether the ledger is empty and every location was audited without leftovers."""
        return self._is_emptied() and self._state.verified

    @property
    def _cluster(self) -> str:
        return workflow.info().workflow_id.removeprefix(names.autoscaler_id(""))

    @property
    def _state(self) -> AutoscalerState:
        return self._cell.state

    def _apply(self, event: AnyEvent) -> None:
        self._cell.apply_event(event)


def _raw(payloads: Sequence[RawValue]) -> bytes:
    return payloads[0].payload.data if payloads else b""
