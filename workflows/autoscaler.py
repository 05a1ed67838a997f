"""The workflow of one cluster: apply messages to its state, evaluate it in an activity, carry out the orders."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError

from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, DecisionSummary, Done, Explanation, SlicePage
from penstock.contract.error_codes import ErrorCode, with_code
from penstock.contract.messages import DecisionRequest, ExplainRequest, ExplainSliceRequest, SlicesRequest, StatusRequest
from penstock.contract.orders import Orders
from penstock.contract.problems import BadMessage, read
from penstock.contract.requests import SendCommandsRequest, SendCommandsResult
from penstock.contract.slice_answers import SliceExplanation
from penstock.contract.slices import SliceCommand
from penstock.core.answers.status import status_of
from penstock.core.state.events import (
    AnyEvent,
    CommandsSent,
    ConfigApplied,
    Decided,
    EvaluationFailed,
    LaunchesDropped,
    Paused,
    RecoveryBegan,
    Resumed,
    SlicesStarted,
)
from penstock.core.state.inbox import WORK
from penstock.core.state.specs import initial_lifecycle
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import work_of
from penstock.model.slices import Slice
from penstock.model.value import Value
from penstock.wording import counted
from workflows import policies
from workflows.errands import Errands, unless
from workflows.handover import hand_over
from workflows.metrics import count_failed_evaluation
from workflows.queries import QueryAnswers
from workflows.state_cell import StateCell
from workflows.ui.cluster_details import cluster_details

STARTS_AT_ONCE = 5
"""Slices started in one workflow task. The server schedules the next task behind these starts, and queries wait for it: with 50
at once, `status` waited for seconds and fewer slices became READY per second."""
COMMANDS_AT_ONCE = 50
"""Commands that one activity sends."""
MOST_CHILDREN = 1500
"""Slices that one run starts: the server ends a run at 2,000 pending children."""
SHOWN_LOCATIONS = 5
"""Locations that the UI details of a recovery name."""
NEXT_BATCH = timedelta(milliseconds=1)
"""Between two batches of a backlog of signals: the shortest timer."""
MOST_BATCHES = 100
"""Batches read before a decision is made all the same: a flood of signals must not keep the cluster from deciding."""
RESET = "this run was reset: events after the reset point are not in its history"
"""The reason of the recovery after a reset."""
LAST_AUDIT = "all slices are gone; every location is audited for leftovers"
"""The reason of the recovery before a cluster ends."""
_UNDO_LAUNCHES = (Paused, Resumed, ConfigApplied)
"""After these events, launches that are not started yet are dropped and decided again."""

_NO_ARGUMENT = RawValue(Payload())
"""The argument of a query that has none."""
Q = TypeVar("Q", bound=Value)
T = TypeVar("T")

_CLUSTER, _GROUP, _STATE, _CAUSE = (SearchAttributeKey.for_keyword(name) for name in names.SEARCH_ATTRIBUTES)


@workflow.defn(name=names.AUTOSCALER)
class AutoscalerWorkflow:
    """Evaluate, carry out the orders, wait for a change; continue as new when the history is long.

    No command depends on the clock: a worker that takes over a run may read an earlier time than the last one.
    """

    @workflow.init
    def __init__(self, state: AutoscalerState) -> None:
        self._cell = StateCell(state)
        self._answers = QueryAnswers(self._cluster)
        self._errands = Errands(self._cluster, self._cell)
        self._checked = (0, 0)
        """An activation, by its time, and the work of the updates that were checked in it."""
        self._children = 0
        self._being_started: frozenset[str] = frozenset()
        self._evaluated_inputs = -1
        """The input version of this run's last decision."""
        self._evaluations_begun = 0
        """By this run. It numbers the activities: a replay compares their ids."""
        self._pace: asyncio.Task[None] | None = None
        self._deadline: asyncio.Task[None] | None = None
        self._deadline_at: datetime | None = None
        self._unreachable: frozenset[str] = frozenset()
        """Slices that could not be sent a command, for a while."""
        self._pauses: set[asyncio.Task[None]] = set()
        self._details = ""
        self._shown = -1
        """The version of the state that the UI details show."""
        self._shown_recovery: tuple[str, ...] = ()
        """What they show of a recovery. Its thousands of reports change nothing else."""
        self._seen = -1
        """The version of the state at the end of the last pass: a long run without new events need not continue as new."""
        self._reset_seed: int | None = None
        """The new random seed of a run that was reset, until the reset is acted upon."""
        self._loop = asyncio.get_running_loop()
        workflow.register_random_seed_callback(self._on_reset)

    @workflow.run
    async def run(self, _state: AutoscalerState) -> dict[str, str | int]:
        """Run until the cluster is deleted. If cancelled, it stops deciding; its slices keep running."""
        reading = asyncio.create_task(self._read_messages())
        while not self._is_over():
            self._recover_from_reset()
            self._begin_last_audit()
            self._errands.begin()
            await self._evaluate()
            await self._launch()
            await self._send_commands()
            if self._is_outdated():
                self._show_details()
            if self._may_continue_as_new():
                workflow.continue_as_new(self._state)
            self._seen = self._state.version
            await workflow.wait_condition(self._has_work)
        await workflow.wait_condition(lambda: not self._cell.unread and workflow.all_handlers_finished())
        reading.cancel()
        return {"cluster": self._cluster, "evaluations": self._state.evaluations, "config_revision": self._state.config_revision}

    # Messages. Dynamic handlers accept any payload; a payload that a typed handler cannot decode would be lost.

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, payloads: Sequence[RawValue]) -> None:
        """Every signal, from controllers, slices and inventories. It is only stored: thousands may arrive in one activation."""
        now = workflow.now()
        if name != names.GATHERED_SIGNALS:
            self._cell.receive(name, _raw(payloads), now)
            return
        for one in payloads:
            self._cell.receive(one.payload.metadata[names.GATHERED_NAME].decode(errors="replace"), one.payload.data, now)

    @workflow.update(dynamic=True)
    async def on_update(self, name: str, payloads: Sequence[RawValue]) -> Accepted | Done:
        """Every update. It is carried out in its turn: a reset delivers all updates of a run again, in one activation.

        Live, the server delivers signals and updates of a task in the order in which they came, and in a replay the updates come
        last. Yielding once lets all signals be stored first, in both.
        """
        raw, at = _raw(payloads), workflow.now()
        await asyncio.sleep(0)
        return await self._cell.in_turn(lambda: self._carry_out(name, raw, at), work=work_of(self._state, name, raw))

    def _carry_out(self, name: str, raw: bytes, at: datetime) -> Accepted | Done:
        """Apply an update; returns its answer. One that its validator did not check may fail."""
        try:
            events, answer_in = self._answers.checked(self._state, name, raw, at)
        except BadMessage as bad:
            raise ApplicationError(str(bad), type="Refused") from None
        for event in events:
            self._apply(event)
        if any(isinstance(event, _UNDO_LAUNCHES) for event in events):
            self._undo_launches()
        return answer_in(self._state)

    @on_update.validator
    def validate_update(self, name: str, payloads: Sequence[RawValue]) -> None:
        """Refuse a bad update before it enters the history; not if messages are ahead of it that may change the answer."""
        raw = _raw(payloads)
        if self._cell.unread or not self._may_check(work_of(self._state, name, raw)):
            return
        try:
            self._answers.checked(self._state, name, raw, workflow.now())
        except BadMessage as bad:
            raise ApplicationError(str(bad), type="Refused") from None

    def _may_check(self, work: int) -> bool:
        """Whether this activation has time for a check; a replay makes none, so that what was spent is no part of the state."""
        activation, spent = workflow.time_ns(), self._checked[1]
        self._checked = (activation, work + (spent if activation == self._checked[0] else 0))
        return self._checked[1] - work < WORK // 2

    # Queries. They take raw JSON, so that a mistake is answered with the field and the fix.

    @workflow.query(name=names.STATUS)
    def status(self, request: RawValue = _NO_ARGUMENT) -> ClusterStatus:
        """The status of the cluster; only the version if nothing changed since the one given."""
        status = status_of(self._state, _request(StatusRequest, names.STATUS, request).since, now=_time_of_asking())
        return status.model_copy(update={"unread": self._cell.unread}) if self._cell.unread else status

    @workflow.query(name=names.DECISION)
    def decision(self, request: RawValue = _NO_ARGUMENT) -> DecisionSummary:
        """The decision on the current state, with reasons."""
        _request(DecisionRequest, names.DECISION, request)
        return self._answers.decision(self._state, _time_of_asking())

    @workflow.query(name=names.EXPLAIN)
    def explain(self, request: RawValue = _NO_ARGUMENT) -> Explanation:
        """Where a task, a gang or the tasks with a prefix are placed, or why they are not."""
        return self._answers.explanation(self._state, _request(ExplainRequest, names.EXPLAIN, request).task_id, _time_of_asking())

    @workflow.query(name=names.EXPLAIN_SLICE)
    def explain_slice(self, request: RawValue = _NO_ARGUMENT) -> SliceExplanation:
        """Why a slice is kept, or why it goes."""
        asked = _request(ExplainSliceRequest, names.EXPLAIN_SLICE, request)
        return self._answers.slice_explanation(self._state, asked.slice_id, _time_of_asking())

    @workflow.query(name=names.SLICES)
    def slices(self, request: RawValue = _NO_ARGUMENT) -> SlicePage:
        """One page of the ledger."""
        return self._answers.page(self._state, _request(SlicesRequest, names.SLICES, request), _time_of_asking())

    @workflow.query(name=names.DUMP)
    def dump(self) -> AutoscalerState:
        """The whole state."""
        return self._state

    async def _read_messages(self) -> None:
        """Read messages as they come, one batch in an activation: a timer makes the one that reads the next.

        The condition is checked once all signals and updates of an activation are stored, so that it holds once at most.
        """
        while True:
            await workflow.wait_condition(lambda: self._cell.unread > 0)
            self._cell.read()
            while self._cell.unread:
                await workflow.sleep(NEXT_BATCH, summary=f"{counted(self._cell.unread, 'message')} to read")
                self._cell.read()

    # Steps of a pass.

    def _begin_last_audit(self) -> None:
        """Before a deleted cluster with an empty ledger ends, recover the ledger once more to find leftovers."""
        if self._is_emptied():
            self._apply(RecoveryBegan(at=workflow.now(), id=f"closing-{workflow.uuid4()}", reason=LAST_AUDIT, closing=True))

    def _on_reset(self, seed: int) -> None:
        """Note the reset in the event loop: the SDK calls this outside it, and checks conditions only after something ran."""
        self._loop.call_soon(self._note_reset, seed)

    def _note_reset(self, seed: int) -> None:
        self._reset_seed = seed

    def _recover_from_reset(self) -> None:
        """Recover the ledger: events after the reset point are not in the history.

        The seed names the recovery: unlike the run id, it is the same in every replay.
        """
        if self._reset_seed is not None:
            run_id = workflow.info().run_id
            self._apply(RecoveryBegan(at=workflow.now(), id=f"reset-{self._reset_seed:x}", reason=RESET, run_id=run_id))
        self._reset_seed = None

    def _undo_launches(self) -> None:
        """Drop launches that are not started; not those whose start is in progress."""
        held = tuple(p.id for p in self._state.unstarted if p.is_launch and p.id not in self._being_started)
        if held:
            self._apply(LaunchesDropped(at=workflow.now(), slice_ids=held))

    async def _evaluate(self) -> None:
        """Evaluate. A newer configuration or a reset overtakes an evaluation; one that fails is shown, and repeated later.

        The SDK tells of a reset only after the loop has seen the signals that came with it, and may have begun to evaluate.
        """
        if not self._is_due():
            return
        revision = self._state.config_revision
        self._evaluations_begun += 1
        evaluation = f"{names.EVALUATE}-{self._evaluations_begun}"
        hand_over(self._state, evaluation)
        evaluating: workflow.ActivityHandle[Orders] = workflow.start_activity(
            names.EVALUATE,
            self._cluster,
            activity_id=evaluation,
            result_type=Orders,
            summary=f"evaluation {self._state.evaluations + 1}, {counted(len(self._state.slices), 'slice')}",
            **policies.EVALUATE,
        )
        try:
            orders = await unless(lambda: self._state.config_revision != revision or self._reset_seed is not None, evaluating)
        except ActivityError as error:
            pause = policies.pause_after(self._state.undecided.failures if self._state.undecided is not None else 0)
            at = workflow.now()
            self._apply(EvaluationFailed(at=at, problem=policies.problem_of(error), again_at=at + pause))
            count_failed_evaluation(self._cluster)
            self._pace = asyncio.create_task(self._pause(pause, revision))
            return
        if orders is None or self._reset_seed is not None:
            return
        if orders.recover is not None:
            recovery = RecoveryBegan(at=workflow.now(), id=f"reset-{orders.run_id}", reason=orders.recover, run_id=orders.run_id)
            self._apply(recovery)
            self._reset_seed = None
            return
        self._apply(Decided(at=workflow.now(), orders=orders))
        self._cell.batches = 0
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

    async def _pause(self, length: timedelta, revision: int) -> None:
        """Wait before an evaluation that failed is repeated, unless the configuration changes."""
        self._show_details()
        with contextlib.suppress(TimeoutError):
            changed = workflow.wait_condition(
                lambda: self._state.config_revision != revision,
                timeout=length,
                timeout_summary="until the evaluation is repeated",
            )
            await changed

    async def _launch(self) -> None:
        """Start the workflows of launched and adopted slices in batches, and await each start: continue-as-new would lose it."""
        if dropped := self._cancelled_launches():
            self._apply(LaunchesDropped(at=workflow.now(), slice_ids=tuple(piece.id for piece in dropped)))
        while batch := self._startable()[:STARTS_AT_ONCE]:
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
            known = tuple(command for command in commands if command.slice_id in slices)
            groups = {command.slice_id: slices[command.slice_id].group for command in known}
            try:
                result: SendCommandsResult | None = await workflow.execute_activity(
                    names.SEND_COMMANDS,
                    SendCommandsRequest(cluster=self._cluster, commands=known, groups=groups),
                    result_type=SendCommandsResult,
                    summary=f"{counted(len(known), 'command')} to slices",
                    **policies.SEND_COMMANDS,
                )
                failed = frozenset(result.failed if result is not None else ())
            except ActivityError as error:
                workflow.logger.warning("commands could not be sent and will be again: %s", error.cause)
                failed = frozenset(groups)
            self._apply(CommandsSent(at=workflow.now(), commands=tuple(c for c in commands if c.slice_id not in failed)))
            if failed:
                self._set_aside(failed)
            if self._run_is_long():
                return

    def _set_aside(self, slice_ids: frozenset[str]) -> None:
        """Send these slices no command for a while, so that slices that cannot be reached hold up no other."""
        self._unreachable |= slice_ids

        async def pause() -> None:
            await workflow.sleep(policies.ERRAND_AGAIN, summary="until commands are sent again")
            self._unreachable -= slice_ids

        self._pauses.add(paused := asyncio.create_task(pause()))
        paused.add_done_callback(self._pauses.discard)

    def _show_details(self) -> None:
        self._shown, self._shown_recovery = self._state.version, self._recovery_shown()
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
        """The first command to each slice whose workflow runs and could be reached last, a batch of them."""
        first = {command.slice_id: command for command in reversed(self._state.outbox)}
        waiting = {piece.id for piece in self._state.unstarted} | self._unreachable
        running = [command for slice_id, command in first.items() if slice_id not in waiting]
        return tuple(running[-COMMANDS_AT_ONCE:])

    def _has_work(self) -> bool:
        state = self._state
        orders = self._startable() or self._cancelled_launches() or self._deliverable()
        errands = orders or self._errands.are_due
        outgrown = state.version > self._seen and self._may_continue_as_new()
        return (
            self._reset_seed is not None
            or bool(errands)
            or outgrown
            or self._is_due()
            or self._is_outdated()
            or self._is_emptied()
        )

    def _is_due(self) -> bool:
        state = self._state
        held = state.config is None or state.is_held or state.paused is not None or state.closing
        if held or self._is_pacing() or self._is_catching_up():
            return False
        return state.input_version > self._evaluated_inputs or (self._deadline is not None and self._deadline.done())

    def _is_pacing(self) -> bool:
        return self._pace is not None and not self._pace.done()

    def _is_catching_up(self) -> bool:
        """Whether to read on before deciding: older signals of a backlog may order what newer ones no longer need."""
        return self._cell.unread > 0 and self._cell.batches < MOST_BATCHES

    def _is_outdated(self) -> bool:
        """Whether to write the UI details in this pass; after an evaluation they wait for the interval to end."""
        if self._state.version <= self._shown or self._is_pacing():
            return False
        return not self._state.is_held or self._recovery_shown() != self._shown_recovery

    def _recovery_shown(self) -> tuple[str, ...]:
        """What the UI details say of a recovery: its id and its last few locations, not each of thousands of reports."""
        recovery = self._state.recovery
        if recovery is None:
            return ()
        return (recovery.id, *(recovery.waiting if len(recovery.waiting) <= SHOWN_LOCATIONS else ()))

    def _run_is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested() or self._children >= MOST_CHILDREN

    def _may_continue_as_new(self) -> bool:
        return self._run_is_long() and workflow.all_handlers_finished() and not self._cell.unread

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


def _request(model: type[Q], name: str, raw: RawValue) -> Q:
    """The request of a query; a mistake fails the query with the field and the fix."""
    try:
        return read(model, raw.payload.data or b"{}")
    except BadMessage as bad:
        raise ApplicationError(with_code(ErrorCode.BAD_INPUT, f"{name}: {bad}")) from None


def _time_of_asking() -> datetime:
    """The worker's clock: a query has no event of its own, so the workflow's time is that of its last event, however old.

    Only answers depend on it: a query issues no command and changes no state.
    """
    with workflow.unsafe.sandbox_unrestricted():
        return datetime.now(UTC)
