"""Errands of the autoscaler beside its loop: collect reports, start inventories, wait for a recovery, until overtaken."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

from penstock.contract import names
from penstock.contract.answers import ProblemKind
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import CollectReportsRequest, CollectReportsResult, KeepInventoriesRequest, KeepInventoriesResult
from penstock.core.state.events import LocationsUnwatched, RecoveryWaited, ReportsCollected
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.wording import counted
from workflows import policies
from workflows.state_cell import StateCell

T = TypeVar("T")


class Errands:
    """The errands of one run. One that is slow or fails holds up neither the loop nor another errand."""

    def __init__(self, cluster: str, cell: StateCell) -> None:
        self._cluster = cluster
        self._cell = cell
        self._kept: tuple[int, str | None] | None = None
        """The configuration revision and the recovery for which this run last started inventories."""
        self._keeping: asyncio.Task[None] | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._patience: asyncio.Task[None] | None = None
        self._patient_with = ""
        """The recovery that `_patience` waits for."""

    @property
    def are_due(self) -> bool:
        """Whether an errand is to be begun: one under way is not begun again."""
        recovery = self._state.recovery
        awaited = recovery.id if recovery is not None and not recovery.closing and not recovery.goes_on else ""
        reports = self._is_unreported() and _is_over(self._collecting)
        return reports or (self._lacks_inventories() and _is_over(self._keeping)) or awaited != self._patient_with

    def begin(self) -> None:
        """Begin the errands that are due."""
        if self._is_unreported() and _is_over(self._collecting):
            self._collecting = asyncio.create_task(self._collect_reports())
        if self._lacks_inventories() and _is_over(self._keeping):
            self._keeping = asyncio.create_task(self._keep_inventories())
        recovery = self._state.recovery
        awaited = recovery.id if recovery is not None and not recovery.closing and not recovery.goes_on else ""
        if awaited != self._patient_with:
            if self._patience is not None:
                self._patience.cancel()
            self._patient_with = awaited
            self._patience = asyncio.create_task(self._wait_for_recovery(awaited)) if awaited else None

    async def _collect_reports(self) -> None:
        """During a recovery, collect the reports of all running slices; again after a pause if some do not answer."""
        recovery = self._state.recovery
        assert recovery is not None
        collecting: workflow.ActivityHandle[CollectReportsResult] = workflow.start_activity(
            names.COLLECT_REPORTS,
            CollectReportsRequest(cluster=self._cluster, recovery=recovery.id),
            result_type=CollectReportsResult,
            summary=f"collect reports of all slices: {recovery.reason}"[:200],
            **policies.COLLECT_REPORTS,
        )

        def is_overtaken() -> bool:
            return self._state.recovery is None or self._state.recovery.id != recovery.id

        try:
            result = await unless(is_overtaken, collecting)
        except ActivityError as error:
            workflow.logger.warning("reports could not be collected and will be again: %s", error.cause)
            await _pause(is_overtaken, policies.ERRAND_AGAIN)
            return
        if result is not None:
            self._cell.apply_event(ReportsCollected(at=workflow.now(), id=recovery.id, silent=result.silent))
            if result.silent:
                await _pause(is_overtaken, policies.ERRAND_AGAIN)

    async def _wait_for_recovery(self, recovery: str) -> None:
        """After a while, a recovery goes on without the locations and slices that have not reported."""
        await workflow.sleep(policies.RECOVERY_PATIENCE, summary="until the recovery goes on without what has not reported")

        def is_asked() -> bool:
            state = self._state
            return state.recovery is None or state.recovery.id != recovery or state.recovery.asked

        await workflow.wait_condition(is_asked)
        self._cell.apply_event(RecoveryWaited(at=workflow.now(), id=recovery))

    async def _keep_inventories(self) -> None:
        """Start missing inventories, and have every location audited during a recovery.

        Those that cannot be started are shown in the status, and are tried again at growing intervals until a newer configuration
        or recovery asks for others.
        """
        assert self._state.config is not None
        wanted = revision, recovery = self._wanted_inventories()
        locations, pause = locations_of(self._state.config), policies.ERRAND_AGAIN
        if not locations:
            self._kept = wanted
        while locations:
            failed = await self._start_inventories(locations, revision, recovery)
            if failed is None:
                return
            self._kept = wanted
            if failed or any(one.kind is ProblemKind.NOT_WATCHED for one in self._state.location_problems.values()):
                self._cell.apply_event(LocationsUnwatched(at=workflow.now(), failed=failed))
            locations = tuple(location for location in locations if location.key in failed)
            if locations and await _pause(lambda: self._wanted_inventories() != wanted, pause):
                return
            pause = min(2 * pause, policies.LONGEST_ERRAND_PAUSE)

    async def _start_inventories(
        self, locations: tuple[WatchedLocation, ...], revision: int, recovery: str | None
    ) -> dict[str, str] | None:
        """Start inventories; returns the errors by location, or None if a newer configuration or recovery asks for others."""
        audited = " and audit them now" if recovery else ""
        starting: workflow.ActivityHandle[KeepInventoriesResult] = workflow.start_activity(
            names.KEEP_INVENTORIES,
            KeepInventoriesRequest(locations=locations, recovery=recovery),
            result_type=KeepInventoriesResult,
            summary=f"watch {counted(len(locations), 'location')}{audited}",
            **policies.KEEP_INVENTORIES,
        )
        try:
            result = await unless(lambda: self._wanted_inventories() != (revision, recovery), starting)
        except ActivityError as error:
            return {location.key: f"no worker could start its inventory: {error.cause}" for location in locations}
        return None if result is None else result.failed

    def _is_unreported(self) -> bool:
        recovery = self._state.recovery
        return recovery is not None and not recovery.reports_collected

    def _lacks_inventories(self) -> bool:
        """Whether this run still has to start inventories, or to ask them for an audit."""
        state, kept = self._state, self._kept
        if state.config is None:
            return False
        revision, recovery = self._wanted_inventories()
        return kept is None or kept[0] != revision or recovery not in (None, kept[1])

    def _wanted_inventories(self) -> tuple[int, str | None]:
        """The configuration whose locations are to be watched, and the recovery that they are audited for."""
        state = self._state
        return state.config_revision, state.recovery.id if state.recovery is not None else None

    @property
    def _state(self) -> AutoscalerState:
        return self._cell.state


async def unless(is_overtaken: Callable[[], bool], activity: "workflow.ActivityHandle[T]") -> T | None:
    """The result of the activity; None, and the activity is cancelled, once something newer has overtaken it."""
    await workflow.wait_condition(lambda: activity.done() or is_overtaken())
    if activity.done():
        return await activity
    activity.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # What it did meanwhile is done again.
    activity.cancel()
    return None


async def _pause(is_overtaken: Callable[[], bool], length: timedelta) -> bool:
    """Wait; whether something newer ended the pause."""
    try:
        await workflow.wait_condition(is_overtaken, timeout=length, timeout_summary="until it is tried again")
    except TimeoutError:
        return False
    return True


def _is_over(task: "asyncio.Task[None] | None") -> bool:
    return task is None or task.done()
