"""`AutoscalerClient`: report demand and usage to one cluster, query it, and operate it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from penstock.client.calls import Calls
from penstock.client.demand_messages import Tasks
from penstock.client.errors import NoSuchCluster, NoSuchSlice, Refused
from penstock.client.last_run import last_run, last_state
from penstock.client.reporter import DEFAULT_LEASE_SECONDS, Reporter
from penstock.client.usage_messages import EmptiedSlice
from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, DecisionSummary, Done, Explanation, SlicePage
from penstock.contract.effects import Effects
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import (
    DEFAULT_SOURCE,
    CancelDrainMessage,
    CapacityMessage,
    ClearBlockMessage,
    CloseMessage,
    CordonMessage,
    DrainMessage,
    ExplainRequest,
    ExplainSliceRequest,
    ForgetSourceMessage,
    PauseMessage,
    ResumeMessage,
    SlicesRequest,
)
from penstock.contract.problems import describe_errors
from penstock.contract.slice_answers import SliceExplanation
from penstock.contract.slices import SliceLifecycle
from penstock.core.answers.explain import explain
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.held import held_because
from penstock.core.answers.preview import preview
from penstock.core.answers.remedy import remedies_for
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.summary import summarize
from penstock.core.decision.decide import decide
from penstock.core.decision.keeping import kept_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, RecoveryBegan, TimePassed
from penstock.core.state.recovery import without_ledger
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.pressure import PressureReport
from penstock.model.slices import Slice, StandingItem

FIRST_START = "a new autoscaler has an empty ledger: existing slices are found before anything is launched"
RESTORED = "the last autoscaler ended; its slices are found before anything is launched"
_WANTS: TypeAdapter[tuple[StandingItem, ...]] = TypeAdapter(tuple[StandingItem, ...])


class AutoscalerClient:
    """One cluster's autoscaler.

    Controllers report demand and usage: `submit_demand` or `report`, `usage`, `pressure`, `confirm_drain`. The client numbers
    each message with an epoch and a revision, sends deltas, and sends a snapshot when the autoscaler needs a resync. Queries:
    `status`, `decision`, `explain`, `explain_slice`, `slices`, `lifecycle`, `dump`. Operations: `apply_config`, `drain`, `pause`
    and the others.

    Calls raise `ClientError` with a `code`: `NoSuchCluster` if the autoscaler does not run, `Refused` if it refuses a request,
    `NoSuchSlice`, `NotSent` if demand may not have reached the server. They wait until a worker answers; bound them with
    `asyncio.timeout`. Only reports do not wait: while no worker reads them they are kept, coalesced and sent later.

    Demand has a lease, which every message of its source renews; once it lapses, the demand buys nothing new. While the client
    exists and its event loop runs, it sends heartbeats. With `lease_seconds=None` demand stands until it is replaced.
    """

    def __init__(
        self,
        client: Client,
        cluster: str,
        *,
        task_queue: str = names.TASK_QUEUE,
        lease_seconds: float | None = DEFAULT_LEASE_SECONDS,
    ) -> None:
        self.cluster = cluster
        self.client = client
        self._calls = Calls(client, cluster)
        self._task_queue = task_queue
        self._reporter = Reporter(self._calls, lease_seconds=lease_seconds)

    async def start(self, config: ClusterConfig, *, exists_ok: bool = True) -> bool:
        """Start the cluster. If it runs already it keeps its configuration: False, or `Refused` without `exists_ok`."""
        if config.cluster != self.cluster:
            raise Refused(f"cluster: the configuration is for {config.cluster}, not for {self.cluster}", ErrorCode.BAD_INPUT)
        now = datetime.now(UTC)
        began = RecoveryBegan(at=now, id=f"start-{uuid4().hex}", reason=FIRST_START)
        try:
            await self._start(replay([ConfigApplied(at=now, config=config), began]))
        except WorkflowAlreadyStartedError:
            if not exists_ok:
                raise Refused(f"cluster {self.cluster} runs already", ErrorCode.ALREADY_RUNNING) from None
            return False
        return True

    async def restore(self) -> AutoscalerState:
        """Start a cluster whose autoscaler was terminated, cancelled or failed, with its last state; returns that state.

        Its configuration, pause, standing requests, blocks and demand are those of its last run, read from its history. The
        slices are found again before anything is launched. Raises `Refused` if the cluster runs or was deleted, and
        `NoSuchCluster` if Temporal has no history of it.
        """
        run = await last_run(self.client, self.cluster)
        if run is None:
            raise NoSuchCluster(self.cluster)
        if run.status is WorkflowExecutionStatus.COMPLETED:
            raise Refused(f"cluster {self.cluster} was deleted; start it anew with its configuration", ErrorCode.NO_SUCH_CLUSTER)
        if run.status is WorkflowExecutionStatus.RUNNING:
            raise Refused(f"cluster {self.cluster} runs already", ErrorCode.ALREADY_RUNNING)
        last = await last_state(self.client, self.cluster, run.run_id)
        began = RecoveryBegan(at=datetime.now(UTC), id=f"restore-{uuid4().hex}", reason=f"{RESTORED}: {run.reason}".rstrip(": "))
        state = apply(without_ledger(last), began)
        try:
            # A cluster that was deleted meanwhile stays deleted.
            await self._start(state, reuse=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
        except WorkflowAlreadyStartedError:
            raise Refused(f"cluster {self.cluster} runs already", ErrorCode.ALREADY_RUNNING) from None
        return state

    async def _start(
        self, state: AutoscalerState, *, reuse: WorkflowIDReusePolicy = WorkflowIDReusePolicy.ALLOW_DUPLICATE
    ) -> None:
        """Start the autoscaler with a state; raises `WorkflowAlreadyStartedError`."""
        attribute = SearchAttributePair(SearchAttributeKey.for_keyword(names.CLUSTER_ATTRIBUTE), self.cluster)
        await self.client.start_workflow(
            names.AUTOSCALER,
            state,
            id=names.autoscaler_id(self.cluster),
            id_reuse_policy=reuse,
            task_queue=self._task_queue,
            search_attributes=TypedSearchAttributes([attribute]),
            static_summary=f"autoscaler of {self.cluster}",
        )

    # Reports of a controller.

    async def submit_demand(self, tasks: Tasks, *, source: str = DEFAULT_SOURCE) -> Accepted:
        """Replace the demand of a source with these pending tasks, most urgent first. Returns the accepted revision.

        Raises `Refused` if a task is invalid, and sends nothing then; and if the demand is not applied, as when another client
        of the source submitted a newer one meanwhile. Raises `NotSent` if the server does not answer.
        """
        return await self._reporter.submit_demand(tasks, source)

    async def report(
        self,
        tasks: Tasks | None = None,
        *,
        usage: Mapping[str, Any] | None = None,
        confirmed: Iterable[EmptiedSlice] = (),
        source: str = DEFAULT_SOURCE,
    ) -> None:
        """Report pending tasks, usage and confirmed drains of one moment, without an answer. Omitted parts stay unchanged.

        `confirmed` are drains from the status whose slices are empty, as for `confirm_drain`.

        Only differences are sent, and a heartbeat. If nobody reads what was sent, because no worker runs, reports are kept
        and coalesced, and are sent once a worker answers.
        """
        await self._reporter.report(tasks, usage or {}, confirmed, source)

    async def usage(self, usage: Mapping[str, Any], *, source: str = DEFAULT_SOURCE) -> None:
        """Report usage by slice id: a state such as `idle` or `busy`, or one usage per host."""
        await self.report(usage=usage, source=source)

    async def pressure(
        self, group: str, *, queued: int, running: int, capacity: int, slices: int, source: str = DEFAULT_SOURCE
    ) -> None:
        """Report how many tasks wait and run on a group with `drive: pressure`, and how many can run on how many slices.

        Raises `Refused` for what is no number; other mistakes appear under rejected messages in the status. Report whenever a
        number changes: what does not change is not sent, except for heartbeats.
        """
        numbers = {"queued": queued, "running": running, "capacity": capacity, "slices": slices}
        try:
            report = PressureReport.model_validate(numbers)
        except ValidationError as error:
            problem = describe_errors(error.errors(include_url=False), PressureReport)
            raise Refused(f"pressure.{group}.{problem}", ErrorCode.BAD_INPUT) from None
        await self._reporter.pressure(group, report, source)

    async def confirm_drain(self, *drains: EmptiedSlice, source: str = DEFAULT_SOURCE) -> None:
        """Confirm that nothing runs on these slices any more, so that their drains can complete.

        Give the drains as `status().drains` lists them: a confirmation that comes too late for its drain is then refused. A plain
        slice id counts for whichever drain is under way when it is read, also for one that began after the slice was looked at.
        """
        await self.report(confirmed=drains, source=source)

    async def forget_source(self, source: str) -> Done:
        """End a source that is gone: its demand, and what it reported about slices. Raises `Refused` if there is none."""
        self._reporter.forget(source)
        return await self._order(names.FORGET_SOURCE, ForgetSourceMessage(source=source))

    # Queries.

    async def status(self, since: int | None = None) -> ClusterStatus:
        """The cluster's status. If `since` is still the current version, only the version, with `changed=False`."""
        return await self._reporter.status(since)

    async def decision(self) -> DecisionSummary:
        """The decision on the current state, with reasons. For a large cluster it is computed here, from the dump."""
        try:
            return await self._calls.query(names.DECISION, DecisionSummary)
        except Refused as refused:
            if refused.code is not ErrorCode.CLUSTER_TOO_LARGE:
                raise
        return await asyncio.to_thread(_summary_of, await self.dump())

    async def explain(self, task_id: str) -> Explanation:
        """Where a task, a gang, or all tasks whose ids begin with the text are placed, or why they are not.

        For a large cluster it is computed here, from the dump.
        """
        try:
            return await self._calls.query(names.EXPLAIN, Explanation, ExplainRequest(task_id=task_id))
        except Refused as refused:
            if refused.code is not ErrorCode.CLUSTER_TOO_LARGE:
                raise
        return await asyncio.to_thread(_explanation_of, await self.dump(), task_id)

    async def explain_slice(self, slice_id: str) -> SliceExplanation:
        """Why a slice is kept and when it goes if nothing changes, or why it is going. For a large cluster from the dump."""
        try:
            return await self._calls.query(names.EXPLAIN_SLICE, SliceExplanation, ExplainSliceRequest(slice_id=slice_id))
        except Refused as refused:
            if refused.code is not ErrorCode.CLUSTER_TOO_LARGE:
                raise
        return await asyncio.to_thread(_slice_explanation_of, await self.dump(), slice_id)

    async def slices(
        self, *, group: str | None = None, state: str | None = None, page: int = 1, page_size: int = 200, about: bool = False
    ) -> SlicePage:
        """One page of the slices in the ledger; with `about` also why each stays or goes, its age and its price."""
        request = SlicesRequest(group=group, state=state, page=page, page_size=page_size, about=about)
        return await self._calls.query(names.SLICES, SlicePage, request)

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

    async def preview(self, config: ClusterConfig) -> Effects:
        """What applying a configuration would launch, drain, call off, cancel or block now; computed here, from the dump."""
        state = _at_present(await self.dump())
        return await asyncio.to_thread(preview, state, config, state.now)

    # Operations.

    async def apply_config(self, config: ClusterConfig | Mapping[str, Any]) -> Done:
        """Replace the configuration."""
        return await self._order(names.APPLY_CONFIG, config)

    async def request_capacity(
        self,
        owner: str,
        wants: Sequence[StandingItem | Mapping[str, Any]],
        *,
        expires: datetime | None = None,
        config_revision: int | None = None,
    ) -> Done:
        """Set the standing request of an owner: capacity that exists whether used or not. Replaces the owner's last one.

        With `config_revision`, the revision of the configuration that it was made for, one for an older revision is taken once
        and refused from then on; the answer has the newest.
        """
        items = _WANTS.validate_python(list(wants))
        message = CapacityMessage(owner=owner, wants=items, expires=expires, config_revision=config_revision)
        return await self._order(names.REQUEST_CAPACITY, message)

    async def release_capacity(self, owner: str) -> Done:
        """Withdraw the standing request of an owner."""
        return await self._order(names.REQUEST_CAPACITY, CapacityMessage(owner=owner))

    async def drain(self, slice_id: str, *, cause: str = "operator", force: bool = False) -> Done:
        """Drain a slice: no new work, then delete it. With `force` it is deleted at the deadline even if it is not empty."""
        return await self._order(names.DRAIN_SLICE, DrainMessage(slice_id=slice_id, cause=cause, force=force))

    async def cancel_drain(self, slice_id: str) -> Done:
        """Return a draining slice to READY."""
        return await self._order(names.CANCEL_DRAIN, CancelDrainMessage(slice_id=slice_id))

    async def keep_slice(self, slice_id: str, seconds: float | None) -> Done:
        """Protect a slice from voluntary drains for so many seconds; None ends that."""
        how = {"off": True} if seconds is None else {"for": seconds}
        return await self._order(names.KEEP_SLICE, {"slice_id": slice_id, **how})

    async def cordon_slice(self, slice_id: str) -> Done:
        """Place nothing more on a slice. What runs there goes on, and the slice is not drained for it."""
        return await self._order(names.CORDON_SLICE, CordonMessage(slice_id=slice_id))

    async def uncordon_slice(self, slice_id: str) -> Done:
        """Place work on a cordoned slice again."""
        return await self._order(names.CORDON_SLICE, CordonMessage(slice_id=slice_id, cordoned=False))

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

    async def _order(self, name: str, message: Any) -> Done:
        return await self._calls.update(name, message, Done)


def _summary_of(state: AutoscalerState) -> DecisionSummary:
    state = _at_present(state)
    view = snapshot_of(state)
    decision = decide(view.snapshot)
    held = held_because(state, state.now)
    kept = kept_of(view.snapshot, decision)
    return summarize(decision, view.demand, remedies_for(view.snapshot, decision), kept=kept, held=held)


def _explanation_of(state: AutoscalerState, task_id: str) -> Explanation:
    return explain(_at_present(state), task_id)


def _slice_explanation_of(state: AutoscalerState, slice_id: str) -> SliceExplanation:
    return explain_slice(_at_present(state), slice_id)


def _at_present(state: AutoscalerState) -> AutoscalerState:
    """The state at this moment; a dump has the time of the workflow's last event."""
    return apply(state, TimePassed(at=max(state.now, datetime.now(UTC))))
