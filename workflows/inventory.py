"""The workflow that watches one location of a cluster, as long as the cluster may have resources there."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError

from penstock.contract import names
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import AuditRequest, WatchRequest, WatchResult
from workflows import policies


@workflow.defn(name=names.INVENTORY)
class InventoryWorkflow:
    """Watch in rounds; beside it, audit for every recovery that requests it.

    Each round receives what the slices were last notified of, so that they are notified of changes only.
    """

    @workflow.init
    def __init__(self, location: WatchedLocation, known: str = "") -> None:
        self._location = location
        self._known = known
        self._watched: WatchResult | None = None
        self._asked: list[str] = []
        """Recoveries that wait for an audit; the first is in progress."""

    @workflow.run
    async def run(self, location: WatchedLocation, known: str = "") -> None:  # noqa: ARG002 - __init__ takes them, because handlers may run before this
        """Run until nothing is left to watch, or until the history is long."""
        self._show_details()
        audits = asyncio.create_task(self._audit_when_asked())
        while not self._is_over() and not self._should_continue_as_new():
            self._watched = await self._watch()
            self._known = self._watched.known
            self._location = self._watched.location or self._location
            self._show_details()
        audits.cancel()
        if not self._is_over():
            workflow.continue_as_new(args=[self._location, self._known])

    @workflow.signal(name=names.AUDIT_NOW)
    def audit_now(self, recovery: str) -> None:
        """Request an audit of this location for a recovery."""
        if recovery not in self._asked:
            self._asked.append(recovery)

    @workflow.query(name=names.LOCATION)
    def location(self) -> WatchedLocation:
        """The watched location, as last configured."""
        return self._location

    def _is_over(self) -> bool:
        return self._watched is not None and self._watched.done and not self._asked

    def _should_continue_as_new(self) -> bool:
        """Never while an audit is in progress."""
        return workflow.info().is_continue_as_new_suggested() and not self._asked

    async def _watch(self) -> WatchResult:
        watched: WatchResult = await workflow.execute_activity(
            names.WATCH,
            WatchRequest(location=self._location, seconds=policies.WATCH_ROUND.total_seconds(), known=self._known),
            result_type=WatchResult,
            task_queue=names.watches_queue(workflow.info().task_queue),
            summary=f"watch {self._location.key}",
            **policies.WATCH,
        )
        return watched

    async def _audit_when_asked(self) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self._asked))
            try:
                await workflow.execute_activity(
                    names.AUDIT,
                    AuditRequest(location=self._location, recovery=self._asked[0]),
                    result_type=bool,
                    task_queue=names.watches_queue(workflow.info().task_queue),
                    summary=f"audit {self._location.key} for a recovery",
                    **policies.AUDIT,
                )
            except ActivityError as error:
                workflow.logger.warning("the audit of %s failed and will be repeated: %s", self._location.key, error.cause)
                await workflow.sleep(policies.AUDIT_AGAIN, summary="until the audit is repeated")
                continue
            del self._asked[0]

    def _show_details(self) -> None:
        """Write the details that the Temporal UI shows."""
        watched = self._watched
        seen = "not listed yet"
        if watched is not None:
            seen = f"{watched.resources} resources" + ("" if watched.complete else ", the last listing was incomplete")
        rules = self._location.rules
        workflow.set_current_details(
            f"**{self._location.account}** in **{self._location.name}**, for cluster {self._location.cluster}\n\n"
            f"- last round: {seen}\n"
            f"- lists it every {rules.look_seconds:g} s while slices start or leave, else every {rules.rest_seconds:g} s\n"
            f"- audits cloud, ledger and slice workflows every {rules.audit_seconds:g} s\n"
        )
