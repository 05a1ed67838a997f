"""`AutoscalerClient`: report demand and usage to one cluster, query it, and operate it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from penstock.client.calls import Calls
from penstock.client.demand_messages import DemandMessages, Tasks, as_demand, usage_parts
from penstock.client.errors import NoSuchSlice, Refused
from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, DecisionSummary, Done, Explanation, SlicePage
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import (
    DEFAULT_SOURCE,
    LARGEST_MESSAGE,
    CancelDrainMessage,
    CapacityMessage,
    ClearBlockMessage,
    CloseMessage,
    ConfirmDrainMessage,
    DrainMessage,
    PauseMessage,
    ReportMessage,
    ResumeMessage,
    SlicesRequest,
    StatusRequest,
    UsageMessage,
    size_of,
)
from penstock.contract.slices import SliceLifecycle
from penstock.core.answers.explain import explain
from penstock.core.answers.remedy import remedies_for
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.summary import summarize
from penstock.core.decision.decide import decide
from penstock.core.state.apply import replay
from penstock.core.state.events import ConfigApplied, RecoveryBegan
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice, StandingItem

CHECKED_AFTER_SECONDS = 10.0
"""Reports are signals, which are not answered: the client queries at most this often whether a resync is needed."""
FIRST_START = "a new autoscaler has an empty ledger: existing slices are found before anything is launched"
_WANTS: TypeAdapter[tuple[StandingItem, ...]] = TypeAdapter(tuple[StandingItem, ...])


class AutoscalerClient:
    """One cluster's autoscaler.

    Controllers report demand and usage: `submit_demand` or `report`, `usage`, `confirm_drain`. The client numbers each message
    with an epoch and a revision, sends deltas, and sends a snapshot when the autoscaler needs a resync. Queries: `status`,
    `decision`, `explain`, `slices`, `lifecycle`, `dump`. Operations: `apply_config`, `drain`, `pause` and the others.

    Calls raise `ClientError` with a `code`: `NoSuchCluster` if the autoscaler does not run, `Refused` if it refuses a request,
    `NoSuchSlice`. They wait until a worker answers; bound them with `asyncio.timeout`.
    """

    def __init__(self, client: Client, cluster: str, *, task_queue: str = names.TASK_QUEUE) -> None:
        self.cluster = cluster
        self.client = client
        self._calls = Calls(client, cluster)
        self._task_queue = task_queue
        self._epoch = int(time.time() * 1000)
        self._outboxes: dict[str, DemandMessages] = {}
        self._one_at_a_time = asyncio.Lock()
        self._checked = time.monotonic()

    async def start(self, config: ClusterConfig, *, exists_ok: bool = True) -> bool:
        """Start the cluster. If it runs already it keeps its configuration: False, or `Refused` without `exists_ok`."""
        if config.cluster != self.cluster:
            raise Refused(f"cluster: the configuration is for {config.cluster}, not for {self.cluster}", ErrorCode.BAD_INPUT)
        now = datetime.now(UTC)
        began = RecoveryBegan(at=now, id=f"start-{uuid4().hex}", reason=FIRST_START)
        attribute = SearchAttributePair(SearchAttributeKey.for_keyword(names.CLUSTER_ATTRIBUTE), self.cluster)
        try:
            await self.client.start_workflow(
                names.AUTOSCALER,
                replay([ConfigApplied(at=now, config=config), began]),
                id=names.autoscaler_id(self.cluster),
                task_queue=self._task_queue,
                search_attributes=TypedSearchAttributes([attribute]),
                static_summary=f"autoscaler of {self.cluster}",
            )
        except WorkflowAlreadyStartedError:
            if not exists_ok:
                raise Refused(f"cluster {self.cluster} runs already", ErrorCode.ALREADY_RUNNING) from None
            return False
        return True

    # Reports of a controller.

    async def submit_demand(self, tasks: Tasks, *, source: str = DEFAULT_SOURCE) -> Accepted:
        """Replace the demand of a source with these pending tasks, most urgent first. Returns the accepted revision."""
        demand = as_demand(tasks)
        async with self._one_at_a_time:
            outbox = self._outbox(source)
            accepted = await self._submit(outbox, demand)
            if accepted.resync_needed or (accepted.epoch, accepted.revision) != outbox.stamp:
                outbox.start_new_epoch(after=accepted.epoch)
                accepted = await self._submit(outbox, demand)
            return accepted

    async def report(
        self,
        tasks: Tasks | None = None,
        *,
        usage: Mapping[str, Any] | None = None,
        confirmed: Iterable[str] = (),
        source: str = DEFAULT_SOURCE,
    ) -> None:
        """Report pending tasks, usage and confirmed drains of one moment, without an answer. Omitted parts stay unchanged."""
        async with self._one_at_a_time:
            *first, last = usage_parts(usage or {}) or [{}]
            for part in first:
                await self._calls.signal(names.USAGE, UsageMessage(usage=part))
            rest = ReportMessage(usage=last or None, confirmed=tuple(confirmed))
            if tasks is None:
                await self._calls.signal(names.REPORT, rest)
                return
            await self._check(source)
            demand, outbox = as_demand(tasks), self._outbox(source)
            messages = () if outbox.holds(demand) else outbox.messages(demand)
            for message in messages[:-1]:
                await self._calls.signal(names.DEMAND, message)
            last_message = messages[-1] if messages else None
            whole = rest.model_copy(update={"demand": last_message})
            if last_message is not None and size_of(whole) > LARGEST_MESSAGE:
                await self._calls.signal(names.DEMAND, last_message)
                whole = rest
            await self._calls.signal(names.REPORT, whole)
            outbox.delivered(demand)

    async def usage(self, usage: Mapping[str, Any]) -> None:
        """Report usage by slice id: a state such as `idle` or `busy`, or one usage per host."""
        for part in usage_parts(usage):
            await self._calls.signal(names.USAGE, UsageMessage(usage=part))

    async def confirm_drain(self, *slice_ids: str) -> None:
        """Confirm that nothing runs on these slices any more, so that their drains can complete."""
        await self._calls.signal(names.CONFIRM_DRAIN, ConfirmDrainMessage(slices=slice_ids))

    # Queries.

    async def status(self, since: int | None = None) -> ClusterStatus:
        """The cluster's status. If `since` is still the current version, only the version, with `changed=False`."""
        sent = {source: outbox.stamp for source, outbox in self._outboxes.items() if outbox.is_delivered}
        status = await self._calls.query(names.STATUS, ClusterStatus, StatusRequest(since=since))
        self._note(status, sent)
        return status

    async def decision(self) -> DecisionSummary:
        """The decision on the current state, with reasons. For a large cluster it is computed here, from the dump."""
        try:
            return await self._calls.query(names.DECISION, DecisionSummary)
        except Refused as refused:
            if refused.code is not ErrorCode.CLUSTER_TOO_LARGE:
                raise
        return await asyncio.to_thread(_summary_of, await self.dump())

    async def explain(self, task_id: str) -> Explanation:
        """Where one task is placed, or why it is not. For a large cluster it is computed here, from the dump."""
        try:
            return await self._calls.query(names.EXPLAIN, Explanation, task_id)
        except Refused as refused:
            if refused.code is not ErrorCode.CLUSTER_TOO_LARGE:
                raise
        return await asyncio.to_thread(explain, await self.dump(), task_id)

    async def slices(
        self, *, group: str | None = None, state: str | None = None, page: int = 1, page_size: int = 200
    ) -> SlicePage:
        """One page of the slices in the ledger."""
        return await self._calls.query(
            names.SLICES, SlicePage, SlicesRequest(group=group, state=state, page=page, page_size=page_size)
        )

    async def all_slices(self, *, group: str | None = None, state: str | None = None) -> AsyncIterator[Slice]:
        """Every slice in the ledger, page by page."""
        page, pages = 0, 1
        while page < pages:
            found = await self.slices(group=group, state=state, page=page + 1)
            for piece in found.slices:
                yield piece
            page, pages = found.page, found.pages

    async def lifecycle(self, slice_id: str, *, group: str | None = None) -> SliceLifecycle:
        """The state and the transitions of one slice, from its own workflow, also after it ended; raises `NoSuchSlice`.

        Without `group` it is taken from the id.
        """
        group = group or names.group_named_in(slice_id)
        if group is None:
            raise NoSuchSlice(slice_id)
        handle = self.client.get_workflow_handle(names.slice_workflow_id(self.cluster, group, slice_id))
        try:
            found: SliceLifecycle = await handle.query(names.LIFECYCLE, result_type=SliceLifecycle)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NoSuchSlice(slice_id) from None
            raise
        return found

    async def dump(self) -> AutoscalerState:
        """The autoscaler's whole state."""
        return await self._calls.query(names.DUMP, AutoscalerState)

    # Operations.

    async def apply_config(self, config: ClusterConfig | Mapping[str, Any]) -> Done:
        """Replace the configuration."""
        return await self._order(names.APPLY_CONFIG, config)

    async def request_capacity(
        self, owner: str, wants: Sequence[StandingItem | Mapping[str, Any]], *, expires: datetime | None = None
    ) -> Done:
        """Set the standing request of an owner: capacity that exists whether used or not. Replaces the owner's last one."""
        items = _WANTS.validate_python(list(wants))
        return await self._order(names.REQUEST_CAPACITY, CapacityMessage(owner=owner, wants=items, expires=expires))

    async def release_capacity(self, owner: str) -> Done:
        """Withdraw the standing request of an owner."""
        return await self._order(names.REQUEST_CAPACITY, CapacityMessage(owner=owner))

    async def drain(self, slice_id: str, *, cause: str = "operator", force: bool = False) -> Done:
        """Drain a slice: no new work, then delete it. With `force` it is deleted at the deadline even if it is not empty."""
        return await self._order(names.DRAIN_SLICE, DrainMessage(slice_id=slice_id, cause=cause, force=force))

    async def cancel_drain(self, slice_id: str) -> Done:
        """Return a draining slice to READY."""
        return await self._order(names.CANCEL_DRAIN, CancelDrainMessage(slice_id=slice_id))

    async def clear_block(self, group: str | None = None) -> Done:
        """Clear the blocks of one group, or of all groups, so that launches are tried again."""
        return await self._order(names.CLEAR_BLOCK, ClearBlockMessage(group=group))

    async def pause(self, reason: str = "") -> Done:
        """Stop launching and draining until `resume`."""
        return await self._order(names.PAUSE, PauseMessage(reason=reason))

    async def resume(self) -> Done:
        """Launch and drain again."""
        return await self._order(names.RESUME, ResumeMessage())

    async def delete(self, *, force: bool = False) -> Done:
        """Drain and delete every slice, then end the autoscaler. With `force`, delete slices without draining them."""
        return await self._order(names.CLOSE, CloseMessage(force=force))

    async def deleted(self) -> None:
        """Return once a deleted cluster's autoscaler has ended."""
        await self._calls.end()

    def _outbox(self, source: str) -> DemandMessages:
        return self._outboxes.setdefault(source, DemandMessages(source, self._epoch))

    async def _submit(self, outbox: DemandMessages, demand: Any) -> Accepted:
        accepted: Accepted | None = None
        for message in outbox.messages(demand):
            accepted = await self._calls.update(names.SUBMIT_DEMAND, message, Accepted)
        assert accepted is not None
        outbox.delivered(demand)
        return accepted

    async def _check(self, source: str) -> None:
        """Query from time to time whether demand sent by signal was applied."""
        if source in self._outboxes and time.monotonic() - self._checked > CHECKED_AFTER_SECONDS:
            await self.status()

    def _note(self, status: ClusterStatus, sent: Mapping[str, tuple[int, int]]) -> None:
        """Schedule a snapshot for each source whose applied revision is not the one sent: lost, reset, or sent by another client.

        Sources that sent something while the query was in flight are skipped.
        """
        if not status.changed:
            return
        self._checked = time.monotonic()
        for source, outbox in self._outboxes.items():
            applied = status.demand.get(source)
            if sent.get(source) != outbox.stamp:
                continue
            if applied is None or applied.resync_needed or (applied.epoch, applied.revision) != outbox.stamp:
                outbox.start_new_epoch(after=applied.epoch if applied else -1)

    async def _order(self, name: str, message: Any) -> Done:
        return await self._calls.update(name, message, Done)


def _summary_of(state: AutoscalerState) -> DecisionSummary:
    view = snapshot_of(state)
    decision = decide(view.snapshot)
    return summarize(decision, view.demand, remedies_for(view.snapshot, decision))
