"""The way in for controllers and operators: tell a cluster what waits and runs, ask how it is, give it orders."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import WorkflowAlreadyStartedError

from penstock.client.calls import Calls, Refused
from penstock.contract import names
from penstock.contract.answers import TOO_LARGE, Accepted, ClusterStatus, DecisionSummary, Done, Explanation, SlicePage
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
from penstock.contract.sending import Outbox, Tasks, as_demand
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
"""Reports get no answer: so often at most a reporter asks by itself whether everything must be sent again."""
FIRST_START = "a new autoscaler knows no slices; whatever exists is found before anything is ordered"
_WANTS: TypeAdapter[tuple[StandingItem, ...]] = TypeAdapter(tuple[StandingItem, ...])


class AutoscalerClient:
    """One cluster's autoscaler. It numbers what it sends, sends differences, and sends everything again when told to.

    Calls wait until a worker answers; bound them with `asyncio.timeout`.
    """

    def __init__(self, client: Client, cluster: str, *, task_queue: str = names.TASK_QUEUE) -> None:
        self.cluster = cluster
        self._client = client
        self._calls = Calls(client, cluster)
        self._task_queue = task_queue
        self._epoch = int(time.time() * 1000)
        self._outboxes: dict[str, Outbox] = {}
        self._one_at_a_time = asyncio.Lock()
        self._checked = time.monotonic()

    async def start(self, config: ClusterConfig, *, exists_ok: bool = True) -> bool:
        """Start the cluster; False if it runs already. It then keeps the configuration it has."""
        if config.cluster != self.cluster:
            raise Refused(f"cluster: the configuration is of {config.cluster}, not of {self.cluster}")
        now = datetime.now(UTC)
        began = RecoveryBegan(at=now, id=f"start-{uuid4().hex}", reason=FIRST_START)
        attribute = SearchAttributePair(SearchAttributeKey.for_keyword(names.CLUSTER_ATTRIBUTE), self.cluster)
        try:
            await self._client.start_workflow(
                names.AUTOSCALER,
                replay([ConfigApplied(at=now, config=config), began]),
                id=names.autoscaler_id(self.cluster),
                task_queue=self._task_queue,
                search_attributes=TypedSearchAttributes([attribute]),
                static_summary=f"autoscaler of {self.cluster}",
            )
        except WorkflowAlreadyStartedError:
            if not exists_ok:
                raise Refused(f"cluster {self.cluster} runs already") from None
            return False
        return True

    # What a controller tells.

    async def submit_demand(self, tasks: Tasks, *, source: str = DEFAULT_SOURCE) -> Accepted:
        """Say what waits, all of it, most urgent first; answers with the revision that stands."""
        demand = as_demand(tasks)
        async with self._one_at_a_time:
            outbox = self._outbox(source)
            accepted = await self._submit(outbox, demand)
            if accepted.resync_needed or (accepted.epoch, accepted.revision) != outbox.stamp:
                outbox.begin_again(after=accepted.epoch)
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
        """Say what waits, what runs where and which drains are done, of one moment. What is not given stays as it was."""
        async with self._one_at_a_time:
            *first, last = _usage_parts(usage or {}) or [{}]
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
        """Say what runs where: per slice one word, or one usage per host."""
        for part in _usage_parts(usage):
            await self._calls.signal(names.USAGE, UsageMessage(usage=part))

    async def confirm_drain(self, *slice_ids: str) -> None:
        """Say that nothing runs on these slices any more."""
        await self._calls.signal(names.CONFIRM_DRAIN, ConfirmDrainMessage(slices=slice_ids))

    # What anyone may ask.

    async def status(self, since: int | None = None) -> ClusterStatus:
        """How the cluster is; with the version one has, a short answer if nothing changed."""
        sent = {source: outbox.stamp for source, outbox in self._outboxes.items() if outbox.is_delivered}
        status = await self._calls.query(names.STATUS, ClusterStatus, StatusRequest(since=since))
        self._note(status, sent)
        return status

    async def decision(self) -> DecisionSummary:
        """What would be decided now, and why. A large cluster is decided on here, by its dump."""
        try:
            return await self._calls.query(names.DECISION, DecisionSummary)
        except Refused as refused:
            if TOO_LARGE not in str(refused):
                raise
        return await asyncio.to_thread(_summary_of, await self.dump())

    async def explain(self, task_id: str) -> Explanation:
        """What becomes of one task, and why. A large cluster is decided on here, by its dump."""
        try:
            return await self._calls.query(names.EXPLAIN, Explanation, task_id)
        except Refused as refused:
            if TOO_LARGE not in str(refused):
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

    async def dump(self) -> AutoscalerState:
        """Everything the autoscaler knows."""
        return await self._calls.query(names.DUMP, AutoscalerState)

    # What an operator orders.

    async def apply_config(self, config: ClusterConfig | Mapping[str, Any]) -> Done:
        """A new configuration, in place of the one that stands."""
        return await self._order(names.APPLY_CONFIG, config)

    async def request_capacity(
        self, owner: str, wants: Sequence[StandingItem | Mapping[str, Any]], *, expires: datetime | None = None
    ) -> Done:
        """A floor of capacity for an owner, in place of the one it had."""
        items = _WANTS.validate_python(list(wants))
        return await self._order(names.REQUEST_CAPACITY, CapacityMessage(owner=owner, wants=items, expires=expires))

    async def release_capacity(self, owner: str) -> Done:
        """Withdraw an owner's floor."""
        return await self._order(names.REQUEST_CAPACITY, CapacityMessage(owner=owner))

    async def drain(self, slice_id: str, *, cause: str = "operator", force: bool = False) -> Done:
        """Empty a slice and give it back; with `force` also if work is left on it at the deadline."""
        return await self._order(names.DRAIN_SLICE, DrainMessage(slice_id=slice_id, cause=cause, force=force))

    async def cancel_drain(self, slice_id: str) -> Done:
        """Let a draining slice serve again."""
        return await self._order(names.CANCEL_DRAIN, CancelDrainMessage(slice_id=slice_id))

    async def clear_block(self, group: str | None = None) -> Done:
        """Ask the cloud again, for one group or for all."""
        return await self._order(names.CLEAR_BLOCK, ClearBlockMessage(group=group))

    async def pause(self, reason: str = "") -> Done:
        """Launch and drain nothing until resumed."""
        return await self._order(names.PAUSE, PauseMessage(reason=reason))

    async def resume(self) -> Done:
        """Let decisions go on."""
        return await self._order(names.RESUME, ResumeMessage())

    async def delete(self, *, force: bool = False) -> Done:
        """Give every slice back and end the autoscaler; with `force` without waiting until slices are empty."""
        return await self._order(names.CLOSE, CloseMessage(force=force))

    async def deleted(self) -> None:
        """Return once the cluster was deleted to its end."""
        await self._calls.end()

    # How.

    def _outbox(self, source: str) -> Outbox:
        return self._outboxes.setdefault(source, Outbox(source, self._epoch))

    async def _submit(self, outbox: Outbox, demand: Any) -> Accepted:
        accepted: Accepted | None = None
        for message in outbox.messages(demand):
            accepted = await self._calls.update(names.SUBMIT_DEMAND, message, Accepted)
        assert accepted is not None
        outbox.delivered(demand)
        return accepted

    async def _check(self, source: str) -> None:
        """Find out now and then whether what was sent by signal arrived as it was meant."""
        if source in self._outboxes and time.monotonic() - self._checked > CHECKED_AFTER_SECONDS:
            await self.status()

    def _note(self, status: ClusterStatus, sent: Mapping[str, tuple[int, int]]) -> None:
        """Send everything again where what stands is not what was sent: it was missed, reset, or someone else sent something.

        Nothing is known of what is sent while the answer was on its way.
        """
        if not status.changed:
            return
        self._checked = time.monotonic()
        for source, outbox in self._outboxes.items():
            stands = status.demand.get(source)
            if sent.get(source) != outbox.stamp:
                continue
            if stands is None or stands.resync_needed or (stands.epoch, stands.revision) != outbox.stamp:
                outbox.begin_again(after=stands.epoch if stands else -1)

    async def _order(self, name: str, message: Any) -> Done:
        return await self._calls.update(name, message, Done)


def _summary_of(state: AutoscalerState) -> DecisionSummary:
    view = snapshot_of(state)
    decision = decide(view.snapshot)
    return summarize(decision, view.demand, remedies_for(view.snapshot, decision))


def _usage_parts(usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Usage as plain JSON, in as many messages as it takes."""
    plain: dict[str, Any] = to_jsonable_python(dict(usage))
    if not plain:
        return []
    if len(plain) == 1 or size_of(UsageMessage(usage=plain)) <= LARGEST_MESSAGE // 2:
        return [plain]
    names_of = list(plain)
    halves = (names_of[: len(names_of) // 2], names_of[len(names_of) // 2 :])
    return [part for half in halves for part in _usage_parts({name: plain[name] for name in half})]
