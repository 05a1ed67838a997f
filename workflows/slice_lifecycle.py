"""The workflow of one slice: from its order until the cloud confirms that it is gone."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory, FailureError

from penstock.contract import names
from penstock.contract.pacing import queue_for
from penstock.contract.slices import CreateResult, DeleteResult, ReportCommand, SliceLifecycle, SliceReport, SliceReports
from penstock.core.slices.lifecycle import (
    Cancelled,
    CommandReceived,
    CreateAnswered,
    DeletionConfirmed,
    DeletionOverdue,
    LifecycleEvent,
    Observed,
    Overdue,
    Reported,
    advance,
    deadline_seconds,
    parse_command,
    report_of,
)
from penstock.model.failures import Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import DrainTerms, SliceState
from workflows import policies, slice_telemetry
from workflows.ui.slice_details import slice_timeline

T = TypeVar("T")
_STATE = SearchAttributeKey.for_keyword(names.STATE_ATTRIBUTE)
_CAUSE = SearchAttributeKey.for_keyword(names.CAUSE_ATTRIBUTE)
_LONGEST_CAUSE = 100
"""Characters of the search attribute, which the UI shows in a column."""


@workflow.defn(name=names.SLICE)
class SliceLifecycleWorkflow:
    """Create, follow sightings and commands, delete until gone: three small loops over one lifecycle.

    In READY it only waits for messages, which costs no events. Cancelling it deletes the slice.

    Whoever sends a message as an update gets the slice's report and takes it to the autoscaler, together with those of other
    slices. The slice itself reports only what happens otherwise: answers of the cloud, deadlines, signals.
    """

    @workflow.init
    def __init__(self, lifecycle: SliceLifecycle) -> None:
        self._lifecycle = lifecycle
        self._in_flight_calls = 0
        """Activities and signals in flight."""
        self._visit = 0
        """Counts the states it was in, so that a deadline belongs to one visit: see `_visit_of`."""
        self._visit_began = workflow.now()
        self._shown: SliceLifecycle | None = None
        """What the search attributes and the details show."""
        self._seen_gone = False
        self._stop_reporting = False
        """Cancelled while only the last report was undelivered."""
        self._cancel_delivered = False
        """A cancel request reached this run. The server delivers one per run; a second reaches only the next run."""
        self._report_failed = False
        """The last report could not be delivered."""
        self._resend_report = _is_resumed(lifecycle) and workflow.info().continued_run_id is None
        """Report the current state even if it was reported: the autoscaler requested it, or may not know this resumed slice."""
        if workflow.info().continued_run_id is None:
            slice_telemetry.record_first(lifecycle)

    @workflow.run
    async def run(self, lifecycle: SliceLifecycle) -> SliceLifecycle:  # noqa: ARG002 - __init__ takes it, because handlers may run before this
        """Run until the slice is gone and its autoscaler knows, or until the history is long.

        A slice that ended FAILED fails its workflow, so that the Temporal UI shows it in red with the cause.
        """
        loops = [asyncio.create_task(loop) for loop in (self._live(), self._keep_deadlines(), self._keep_reporting())]
        while not self._is_over() and not self._should_continue_as_new():
            try:
                await workflow.wait_condition(lambda: self._is_outdated() or self._should_continue_as_new() or _is_broken(loops))
            except asyncio.CancelledError:
                self._cancel()
            for loop in loops:
                if loop.done():
                    loop.result()
            self._show()
        if not self._is_over():
            workflow.continue_as_new(self._lifecycle)
        if self._lifecycle.state is SliceState.FAILED:
            raise _failed(self._lifecycle)
        return self._lifecycle

    @workflow.signal(name=names.OBSERVED)
    def observed(self, raw: Any) -> None:
        """A sighting, from an inventory."""
        self._observe(raw)

    @workflow.update(name=names.OBSERVED)
    async def answer_sighting(self, raw: Any) -> SliceReport:
        """A sighting; answers with the slice's report.

        Signals of the same workflow task count first: a replay brings them first, whatever order they came in.
        """
        await asyncio.sleep(0)
        self._observe(raw)
        return self._answer()

    @workflow.signal(name=names.COMMAND)
    def command(self, raw: Any) -> None:
        """A command of the autoscaler."""
        self._obey(raw)

    @workflow.update(name=names.COMMAND)
    async def answer_command(self, raw: Any) -> SliceReport:
        """A command of the autoscaler; answers with the slice's report."""
        await asyncio.sleep(0)
        self._obey(raw)
        return self._answer()

    @workflow.query(name=names.LIFECYCLE)
    def lifecycle(self) -> SliceLifecycle:
        """The whole state of the slice."""
        return self._lifecycle

    # The three loops.

    async def _live(self) -> None:
        """Create the resource unless it exists, wait until it is to be deleted, and delete it until it is gone."""
        await self._create()
        await workflow.wait_condition(lambda: not self._lifecycle.state.live)
        await self._delete()

    async def _keep_deadlines(self) -> None:
        """Judge each state that outstays its deadline.

        One timer serves successive states: it goes on unless the next state allows less time, and is set anew if it ends before
        the deadline of the state that the slice has reached meanwhile. Only the configured limits are compared, never the clock.
        """
        while self._lifecycle.state.live:
            visit, limit = self._visit, deadline_seconds(self._lifecycle)
            if limit is None:
                await workflow.wait_condition(lambda: self._visit != visit)  # noqa: B023 - awaited in this iteration
                continue
            left = limit - (workflow.now() - self._visit_began).total_seconds()
            summary = f"deadline of {self._lifecycle.state}"
            if not await self._within(left, lambda: self._allows_less_than(limit), summary) and self._visit == visit:  # noqa: B023
                await self._judge(visit)

    async def _keep_reporting(self) -> None:
        """Report every change to the autoscaler; while it cannot be reached, retry with growing pauses."""
        pause = policies.FIRST_PAUSE_SECONDS
        while True:
            await workflow.wait_condition(lambda: self._owes_a_report())
            self._report_failed = not await self._report()
            if not self._report_failed:
                pause = policies.FIRST_PAUSE_SECONDS
                continue
            self._resend_report = False
            await self._within(pause, lambda: self._resend_report, "until the report is sent again")
            self._resend_report = True
            pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)

    # Steps of the loops.

    async def _create(self) -> None:
        """Call create until the cloud accepts or refuses the order. After a rate limit, wait and call again."""
        policy = policies.CREATE | {"task_queue": queue_for(workflow.info().task_queue, self._lifecycle.spec)}
        pause = policies.FIRST_PAUSE_SECONDS
        while self._lifecycle.state is SliceState.REQUESTING and not self._lifecycle.create_accepted:
            result = await self._call(names.CREATE, CreateResult, policy, wanted=lambda: self._lifecycle.state.live)
            if result is None:
                return
            self._apply(CreateAnswered(workflow.now(), result))
            if result.failure is not None and self._lifecycle.state is SliceState.REQUESTING:
                seconds = max(result.failure.retry_after_seconds, pause)
                await self._within(seconds, lambda: self._lifecycle.state is not SliceState.REQUESTING, "rate limited")
                pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)

    async def _judge(self, visit: int) -> None:
        """A deadline passed. Look at the cloud once more; the deadline counts only if that does not move the slice."""
        state = self._lifecycle.state
        if self._lifecycle.create_accepted and state is not SliceState.DRAINING:
            sighting = await self._call(names.OBSERVE, Sighting, policies.OBSERVE, wanted=lambda: self._visit == visit)
            if sighting is not None:
                self._apply(Observed(workflow.now(), sighting))
        if self._visit == visit:
            self._apply(Overdue(workflow.now(), state))

    async def _delete(self) -> None:
        """Call delete until the cloud confirms that the resource is gone. Never give up, but note when it is overdue.

        If no call can be made at all, no create call was made either, so there is nothing to delete. The call that finds it gone
        takes the slice's last report to the autoscaler.
        """
        alarm = asyncio.create_task(self._note_when_overdue())
        pause = policies.FIRST_PAUSE_SECONDS
        while self._lifecycle.state is SliceState.DELETING:
            self._seen_gone = False
            last = report_of(advance(self._lifecycle, DeletionConfirmed(workflow.now())))
            result = await self._call(names.DELETE, DeleteResult, policies.DELETE, last)
            if result.gone if result is not None else not self._lifecycle.create_accepted:
                self._apply(DeletionConfirmed(workflow.now()))
                if result is not None and result.reported:
                    self._apply(Reported(workflow.now(), last.sequence))
                break
            await self._within(pause, lambda: self._seen_gone, "until delete is called again")
            pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)
        if not self._is_over():
            alarm.cancel()

    async def _note_when_overdue(self) -> None:
        await workflow.sleep(policies.DELETION_OVERDUE, summary="deletion is overdue")
        self._apply(DeletionOverdue(workflow.now()))

    async def _report(self) -> bool:
        """Send the current state to the autoscaler; whether it arrived."""
        report = report_of(self._lifecycle)
        autoscaler = workflow.get_external_workflow_handle(names.autoscaler_id(self._lifecycle.spec.cluster))
        self._resend_report = False
        self._in_flight_calls += 1
        try:
            await autoscaler.signal(names.SLICES_REPORTED, SliceReports(reports=(report,)))
        except FailureError:
            return False
        finally:
            self._in_flight_calls -= 1
        self._apply(Reported(workflow.now(), report.sequence))
        return True

    async def _call(
        self, name: str, kind: type[T], policy: dict[str, Any], *more: object, wanted: Callable[[], bool] = lambda: True
    ) -> T | None:
        """Run an activity for this slice; None if it failed for good, or was cancelled because it is no longer `wanted`."""
        spec = self._lifecycle.spec
        call: workflow.ActivityHandle[T] = workflow.start_activity(
            name, args=[spec, *more], result_type=kind, summary=f"{spec.group} in {spec.location.name}", **policy
        )
        self._in_flight_calls += 1
        try:
            await workflow.wait_condition(lambda: call.done() or not wanted())
            if not call.done():
                call.cancel()
            return await call
        except ActivityError as error:
            workflow.logger.warning("%s of %s failed: %s", name, spec.slice_id, error.cause)
            return None
        finally:
            self._in_flight_calls -= 1

    async def _within(self, seconds: float | None, holds: Callable[[], bool], summary: str) -> bool:
        """Whether the condition became true within the time."""
        if seconds is None:
            await workflow.wait_condition(holds)
            return True
        try:
            await workflow.wait_condition(holds, timeout=max(seconds, 0.001), timeout_summary=summary)
        except TimeoutError:
            return holds()
        return True

    # Messages.

    def _observe(self, raw: Any) -> None:
        try:
            sighting = Sighting.model_validate(raw)
        except ValidationError as error:
            workflow.logger.warning("unreadable sighting: %s", error)
            return
        self._seen_gone = self._seen_gone or sighting.phase is Phase.GONE
        self._apply(Observed(workflow.now(), sighting))

    def _obey(self, raw: Any) -> None:
        try:
            command = parse_command(raw)
        except ValidationError as error:
            workflow.logger.warning("unreadable command: %s", error)
            return
        if command.slice_id != self._lifecycle.spec.slice_id:
            workflow.logger.warning("ignored a command for another slice, %s", command.slice_id)
            return
        self._resend_report = self._resend_report or isinstance(command, ReportCommand)
        self._apply(CommandReceived(workflow.now(), command))

    def _answer(self) -> SliceReport:
        """The report, for a sender that takes it to the autoscaler: the slice need not send it itself."""
        report = report_of(self._lifecycle)
        self._apply(Reported(workflow.now(), report.sequence))
        return report

    def _show(self) -> None:
        """Search attributes and details of the current state, once per workflow task."""
        if self._shown is self._lifecycle:
            return
        lifecycle = self._shown = self._lifecycle
        workflow.set_current_details(slice_timeline(lifecycle))
        wanted = ((_STATE, lifecycle.state.value), (_CAUSE, (lifecycle.cause or lifecycle.spec.cause)[:_LONGEST_CAUSE]))
        shown = workflow.info().typed_search_attributes
        if news := [key.value_set(value) for key, value in wanted if shown.get(key) != value]:
            workflow.upsert_search_attributes(news)

    # Conditions.

    def _is_outdated(self) -> bool:
        return self._shown is not self._lifecycle

    def _allows_less_than(self, limit: float) -> bool:
        """Whether the current state has a shorter deadline, or none."""
        now = deadline_seconds(self._lifecycle)
        return now is None or now < limit

    def _owes_a_report(self) -> bool:
        return self._resend_report or self._lifecycle.sequence > self._lifecycle.reported

    def _is_over(self) -> bool:
        """The slice has ended, and the autoscaler has its last report, or a cancel request gave up on delivering it."""
        return self._lifecycle.state.ended and (self._stop_reporting or not self._owes_a_report())

    def _should_continue_as_new(self) -> bool:
        """Whether to continue as new: history is long, or a further cancel could not reach this run; and no call is in flight."""
        if self._in_flight_calls:
            return False
        if self._cancel_delivered and self._report_failed and self._lifecycle.state.ended:
            return True
        if not workflow.info().is_continue_as_new_suggested():
            return False
        return not self._lifecycle.state.live or deadline_seconds(self._lifecycle) is None

    def _apply(self, event: LifecycleEvent) -> None:
        before, self._lifecycle = self._lifecycle, advance(self._lifecycle, event)
        if _visit_of(before) != _visit_of(self._lifecycle):
            self._visit, self._visit_began = self._visit + 1, workflow.now()
        slice_telemetry.record(before, self._lifecycle)

    def _cancel(self) -> None:
        self._cancel_delivered = True
        self._stop_reporting = self._lifecycle.state.ended
        self._apply(Cancelled(workflow.now()))


def _visit_of(lifecycle: SliceLifecycle) -> tuple[SliceState, bool, DrainTerms | None]:
    """What makes a visit. Time in a cloud's queue is one of its own, and so is each drain: a newer one has its own deadline."""
    return lifecycle.state, lifecycle.queued, lifecycle.drain


def _is_resumed(lifecycle: SliceLifecycle) -> bool:
    """Whether the lifecycle began before this workflow, so that its autoscaler may hold an older state."""
    return lifecycle.create_accepted or lifecycle.state is not SliceState.REQUESTING


def _failed(lifecycle: SliceLifecycle) -> ApplicationError:
    """The end of a slice that failed: its cause as the message, its kind as the type, the lifecycle as details.

    Benign: clouds run dry and take slices back every day, so the SDK must not log it as an error of the workflow's code.
    """
    failure = lifecycle.failure
    kind = str(failure.kind) if failure is not None else lifecycle.cause
    message = f"{kind}: {failure.message}" if failure is not None and failure.message else kind
    return ApplicationError(message, lifecycle, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def _is_broken(loops: Sequence[asyncio.Task[None]]) -> bool:
    """Whether a loop raised. The error fails the workflow task, so that the workflow waits for fixed code."""
    return any(loop.done() and loop.exception() is not None for loop in loops)
