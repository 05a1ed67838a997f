"""The workflow that owns one slice: from the order until the cloud says that it is gone."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, FailureError

from penstock.contract import names
from penstock.contract.inventories import Sighting
from penstock.contract.pacing import queue_for
from penstock.contract.slices import CreateResult, DeleteResult, ReportCommand, SliceLifecycle, SliceReports
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
from penstock.model.slices import ENDED, SliceState
from workflows import policies, slice_telemetry
from workflows.ui.slice_timeline import slice_timeline

T = TypeVar("T")
_STATE = SearchAttributeKey.for_keyword(names.STATE_ATTRIBUTE)
_CAUSE = SearchAttributeKey.for_keyword(names.CAUSE_ATTRIBUTE)
_LONGEST_CAUSE = 100
"""Characters of a search attribute that people read in a column."""
_BEFORE_DELETING = (
    SliceState.REQUESTING,
    SliceState.BOOTING,
    SliceState.INITIALIZING,
    SliceState.READY,
    SliceState.DRAINING,
)


@workflow.defn(name=names.SLICE)
class SliceLifecycleWorkflow:
    """Create, follow what is seen and told, delete until gone; three small loops over one lifecycle.

    In READY it waits for signals alone, so that it costs no events. Cancelling it deletes the slice.
    """

    @workflow.init
    def __init__(self, lifecycle: SliceLifecycle) -> None:
        self._lifecycle = lifecycle
        self._in_flight_calls = 0
        """Activities and signals under way."""
        self._visit = 0
        """Which visit in a state this is; a deadline belongs to one. Time in a cloud's queue is a visit of its own."""
        self._seen_gone = False
        self._stop_reporting = False
        """Cancelled when only the last report was still to be delivered."""
        self._cancel_delivered = False
        """Cancelled already: a server tells a run so once, and further ones only the next run."""
        self._report_failed = False
        """The last report could not be delivered."""
        self._resend_report = _is_resumed(lifecycle) and workflow.info().continued_run_id is None
        """Report the current state even without news: the autoscaler asked, or it may not know this resumed slice."""

    @workflow.run
    async def run(self, lifecycle: SliceLifecycle) -> SliceLifecycle:  # noqa: ARG002 - taken by __init__, so that handlers that run first have it
        """Until the slice is gone and its autoscaler knows, or the history is long."""
        workflow.set_current_details(slice_timeline(self._lifecycle))
        loops = [asyncio.create_task(loop) for loop in (self._live(), self._keep_deadlines(), self._keep_reporting())]
        while not self._is_over() and not self._is_due_anew():
            try:
                await workflow.wait_condition(lambda: self._is_over() or self._is_due_anew() or _is_broken(loops))
            except asyncio.CancelledError:
                self._cancel()
            for loop in loops:
                if loop.done():
                    loop.result()
        if not self._is_over():
            workflow.continue_as_new(self._lifecycle)
        return self._lifecycle

    @workflow.signal(name=names.OBSERVED)
    def seen(self, raw: Any) -> None:
        """An inventory looked at the slice."""
        try:
            sighting = Sighting.model_validate(raw)
        except ValidationError as error:
            workflow.logger.warning("a sighting that cannot be read: %s", error)
            return
        self._seen_gone = self._seen_gone or sighting.phase is Phase.GONE
        self._apply(Observed(workflow.now(), sighting))

    @workflow.signal(name=names.COMMAND)
    def command(self, raw: Any) -> None:
        """The autoscaler wrote."""
        try:
            command = parse_command(raw)
        except ValidationError as error:
            workflow.logger.warning("a command that cannot be read: %s", error)
            return
        if command.slice_id != self._lifecycle.spec.slice_id:
            workflow.logger.warning("a command to slice %s", command.slice_id)
            return
        self._resend_report = self._resend_report or isinstance(command, ReportCommand)
        self._apply(CommandReceived(workflow.now(), command))

    @workflow.query(name=names.LIFECYCLE)
    def lifecycle(self) -> SliceLifecycle:
        """Everything the slice knows of itself."""
        return self._lifecycle

    # The three loops.

    async def _live(self) -> None:
        """Create it unless it exists, wait until it is to go, and see it gone."""
        await self._create()
        await workflow.wait_condition(lambda: self._lifecycle.state not in _BEFORE_DELETING)
        await self._delete()

    async def _keep_deadlines(self) -> None:
        """One timer for each visit in a state that has a deadline."""
        while self._lifecycle.state in _BEFORE_DELETING:
            visit = self._visit
            seconds = deadline_seconds(self._lifecycle)
            summary = f"deadline of {self._lifecycle.state}"
            if await self._within(seconds, lambda: self._visit != visit, summary):  # noqa: B023 - awaited in this very turn
                continue
            await self._judge(visit)

    async def _keep_reporting(self) -> None:
        """Tell the autoscaler the newest whenever there is news; one that cannot be reached is tried again, ever less often."""
        pause = policies.FIRST_PAUSE_SECONDS
        while True:
            await workflow.wait_condition(lambda: self._owes_a_report())
            self._report_failed = not await self._report()
            if not self._report_failed:
                pause = policies.FIRST_PAUSE_SECONDS
                continue
            self._resend_report = False
            await self._within(pause, lambda: self._resend_report, "until the autoscaler is told again")
            self._resend_report = True
            pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)

    # What they do.

    async def _create(self) -> None:
        """Ask the cloud until it takes or refuses the order, when it is this one's turn. Rate limits are waited out."""
        policy = policies.CREATE | {"task_queue": queue_for(workflow.info().task_queue, self._lifecycle.spec)}
        pause = policies.FIRST_PAUSE_SECONDS
        while self._lifecycle.state is SliceState.REQUESTING and not self._lifecycle.created:
            asked = await self._call(names.CREATE, CreateResult, policy, wanted=lambda: self._lifecycle.state in _BEFORE_DELETING)
            if asked is None:
                return
            self._apply(CreateAnswered(workflow.now(), asked))
            if asked.failure is not None and self._lifecycle.state is SliceState.REQUESTING:
                seconds = max(asked.failure.retry_after_seconds, pause)
                await self._within(seconds, lambda: self._lifecycle.state is not SliceState.REQUESTING, "rate limited")
                pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)

    async def _judge(self, visit: int) -> None:
        """A deadline passed. The cloud is looked at once more: what it shows now counts."""
        state = self._lifecycle.state
        if self._lifecycle.created and state is not SliceState.DRAINING:
            sighting = await self._call(names.OBSERVE, Sighting, policies.OBSERVE, wanted=lambda: self._visit == visit)
            if sighting is not None:
                self._apply(Observed(workflow.now(), sighting))
        if self._visit == visit:
            self._apply(Overdue(workflow.now(), state))

    async def _delete(self) -> None:
        """Ask the cloud until it says that the slice is gone: never give up, but say when it takes too long.

        Where no call can be made at all, none was made before: what was never created is not there.
        """
        alarm = asyncio.create_task(self._say_when_overdue())
        pause = policies.FIRST_PAUSE_SECONDS
        while self._lifecycle.state is SliceState.DELETING:
            self._seen_gone = False
            dismissed = await self._call(names.DELETE, DeleteResult, policies.DELETE)
            if dismissed.gone if dismissed is not None else not self._lifecycle.created:
                self._apply(DeletionConfirmed(workflow.now()))
                break
            await self._within(pause, lambda: self._seen_gone, "until the cloud is asked again whether it is gone")
            pause = min(2 * pause, policies.LONGEST_PAUSE_SECONDS)
        alarm.cancel()

    async def _say_when_overdue(self) -> None:
        await workflow.sleep(policies.DELETION_OVERDUE, summary="deletion is overdue after this")
        self._apply(DeletionOverdue(workflow.now()))

    async def _report(self) -> bool:
        """Whether the autoscaler could be told where the slice is."""
        told = report_of(self._lifecycle)
        cause = (self._lifecycle.cause or self._lifecycle.spec.cause)[:_LONGEST_CAUSE]
        workflow.upsert_search_attributes([_STATE.value_set(told.state), _CAUSE.value_set(cause)])
        autoscaler = workflow.get_external_workflow_handle(names.autoscaler_id(self._lifecycle.spec.cluster))
        self._resend_report = False
        self._in_flight_calls += 1
        try:
            await autoscaler.signal(names.SLICES_REPORTED, SliceReports(reports=(told,)))
        except FailureError:
            return False
        finally:
            self._in_flight_calls -= 1
        self._apply(Reported(workflow.now(), told.sequence))
        return True

    async def _call(
        self, name: str, kind: type[T], policy: dict[str, Any], *, wanted: Callable[[], bool] = lambda: True
    ) -> T | None:
        """The answer of an activity about this slice; None if it can never be had, or is not wanted any more."""
        spec = self._lifecycle.spec
        call: workflow.ActivityHandle[T] = workflow.start_activity(
            name, spec, result_type=kind, summary=f"{spec.group} in {spec.location}", **policy
        )
        self._in_flight_calls += 1
        try:
            await workflow.wait_condition(lambda: call.done() or not wanted())
            if not call.done():
                call.cancel()
            return await call
        except ActivityError as error:
            workflow.logger.warning("%s of %s has no answer: %s", name, spec.slice_id, error.cause)
            return None
        finally:
            self._in_flight_calls -= 1

    async def _within(self, seconds: float | None, holds: Callable[[], bool], summary: str) -> bool:
        """Whether something came to hold within the time."""
        if seconds is None:
            await workflow.wait_condition(holds)
            return True
        try:
            await workflow.wait_condition(holds, timeout=max(seconds, 0.001), timeout_summary=summary)
        except TimeoutError:
            return holds()
        return True

    # What they ask themselves.

    def _owes_a_report(self) -> bool:
        return self._resend_report or self._lifecycle.sequence > self._lifecycle.reported

    def _is_over(self) -> bool:
        """Gone, and the autoscaler knows; or nobody wants to wait until it can be told."""
        return self._lifecycle.state in ENDED and (self._stop_reporting or not self._owes_a_report())

    def _is_due_anew(self) -> bool:
        """Whether this run is long, or deaf to a cancel, and nothing is under way that the next would not take up where it is."""
        if self._in_flight_calls:
            return False
        if self._cancel_delivered and self._report_failed and self._lifecycle.state in ENDED:
            return True
        if not workflow.info().is_continue_as_new_suggested():
            return False
        return self._lifecycle.state not in _BEFORE_DELETING or deadline_seconds(self._lifecycle) is None

    def _apply(self, event: LifecycleEvent) -> None:
        before, self._lifecycle = self._lifecycle, advance(self._lifecycle, event)
        self._visit += (before.state, before.queued) != (self._lifecycle.state, self._lifecycle.queued)
        slice_telemetry.record(before, self._lifecycle)
        workflow.set_current_details(slice_timeline(self._lifecycle))

    def _cancel(self) -> None:
        self._cancel_delivered = True
        self._stop_reporting = self._lifecycle.state in ENDED
        self._apply(Cancelled(workflow.now()))


def _is_resumed(lifecycle: SliceLifecycle) -> bool:
    """Whether the lifecycle began before this workflow: its autoscaler may believe it elsewhere."""
    return lifecycle.created or lifecycle.state is not SliceState.REQUESTING


def _is_broken(loops: Sequence[asyncio.Task[None]]) -> bool:
    """Whether a loop ended by a mistake in the code: it is raised, so that the workflow waits for code that is mended."""
    return any(loop.done() and loop.exception() is not None for loop in loops)
