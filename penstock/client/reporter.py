"""`Reporter`: the reports of controllers to one cluster: numbered, as differences, and kept while no worker reads them."""

import asyncio
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from penstock.client.calls import Calls
from penstock.client.demand_messages import DemandMessages, Tasks, usage_parts
from penstock.client.errors import ClientError, NotSent, Refused
from penstock.client.task_reader import TaskReader
from penstock.client.turns import Turns
from penstock.client.usage_messages import EmptiedSlice, UsageMessages
from penstock.contract import names
from penstock.contract.answers import Accepted, ClusterStatus, SourceStatus, UsageStatus
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import LARGEST_MESSAGE, ReportMessage, StatusRequest, UsageMessage, size_of
from penstock.model.demand import Demand
from penstock.model.pressure import PressureReport

CHECKED_AFTER_SECONDS = 10.0
"""Reports are signals, which are not answered: the client queries at most this often whether a resync is needed."""
ANSWER_SECONDS = 2.0
"""How long a worker may take to answer before reports are kept instead of sent."""
MOST_UNREAD_BYTES = 1_000_000
"""Bytes sent without an answer of a worker; beyond them reports are kept and coalesced. A run's history may hold 50 MB."""


LEAST_PAUSE_SECONDS = 1.0
"""Between two looks whether a heartbeat is due."""
DEFAULT_LEASE_SECONDS = 600.0
"""Longer than a controller takes to restart, and short enough that one that is gone for good buys little."""
FIRST_HEARTBEAT_SECONDS = 60.0
"""Interval of heartbeats until the status has told how long the word of a silent source counts as fresh."""
HEARTBEATS = 3
"""Heartbeats in the time after which silence counts: two of them may be lost."""


class Reporter:
    """Sends demand, usage, pressure and confirmed drains, each source's messages numbered with an epoch and a revision.

    Only differences are sent, and a snapshot when the autoscaler needs a resync. While no worker reads what was sent, reports are
    kept, coalesced and sent later. A source that has nothing to say sends heartbeats. Its demand and its usage have one epoch.
    """

    def __init__(self, calls: Calls, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> None:
        self._calls = calls
        self._lease_seconds = lease_seconds
        self._stale_after: float | None = None
        """How long the word of a silent source counts as fresh, once the status has told."""
        self._epoch = int(time.time() * 1000)
        self._readers: dict[str, TaskReader] = {}
        self._outboxes: dict[str, DemandMessages] = {}
        self._usages: dict[str, UsageMessages] = {}
        self._wanted: dict[str, Demand] = {}
        """The demand that `report` was last given, by source."""
        self._sent_again: dict[str, tuple[Demand, str]] = {}
        """Demand that was sent again, and why, until it is applied."""
        self._refused: dict[str, tuple[Demand, str]] = {}
        """Demand that was refused for the same reason when it was sent again, as for its size: it is not sent any more."""
        self._unread_bytes = 0
        """Bytes sent since a worker last answered."""
        self._has_sent = False
        self._retry: asyncio.Task[None] | None = None
        """Waits for a worker, with reports that were kept."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._submitted = asyncio.Event()
        """Set once demand was submitted: reports of its source were kept meanwhile."""
        self._turns = Turns()
        self._one_at_a_time = asyncio.Lock()
        """Held while reports are sent, which waits for no worker."""
        self._checked = time.monotonic()

    async def submit_demand(self, tasks: Tasks, source: str) -> Accepted:
        """Replace the demand of a source.

        Raises `Refused` if a task is invalid or the demand is not applied, and `NotSent` if the server does not answer.
        """
        demand = self._reader(source).read(tasks)
        self._wanted.pop(source, None)
        try:
            async with self._turns.turn(source):
                return await self._submit(source, demand)
        except RPCError as error:
            if error.status is not RPCStatusCode.UNAVAILABLE:
                raise
            raise NotSent(source, error.message) from None
        except TimeoutError:
            raise NotSent(source, "deadline exceeded") from None
        finally:
            self._submitted.set()

    async def report(self, tasks: Tasks | None, usage: Mapping[str, Any], confirmed: Iterable[EmptiedSlice], source: str) -> None:
        """Report pending tasks, usage and confirmed drains of one moment, without an answer.

        While demand of the source is being submitted they are kept, and sent after it.
        """
        if tasks is not None:
            self._wanted[source] = self._reader(source).read(tasks)
        self._usage_of(source).add(usage, confirmed)
        await self._send_now(source)

    async def pressure(self, group: str, report: PressureReport, source: str) -> None:
        """Report the queue lengths of a group that is driven by them, without an answer."""
        self._usage_of(source).add_pressure(group, report)
        await self._send_now(source)

    async def _send_now(self, source: str) -> None:
        """Send what is due; raises `Refused` if the demand of the source was refused again."""
        async with self._one_at_a_time:
            self._begin_heartbeats()
            await self._send_reports()
            refused = self._refused.get(source)
        if refused is not None and refused[0] == self._wanted.get(source):
            raise Refused(f"the demand of source {source} was refused: {refused[1]}", ErrorCode.BAD_INPUT)

    async def status(self, since: int | None = None) -> ClusterStatus:
        """The cluster's status. It also shows which messages were lost, so that they are sent again."""
        sent = {source: outbox.stamp for source, outbox in self._outboxes.items() if outbox.is_delivered}
        said = {source: usage.stamp for source, usage in self._usages.items()}
        status = await self._calls.query(names.STATUS, ClusterStatus, StatusRequest(since=since))
        self._note(status, sent, said)
        return status

    def forget(self, source: str) -> None:
        """Send nothing more of a source unless it is reported again."""
        self._outboxes.pop(source, None)
        self._usages.pop(source, None)
        self._wanted.pop(source, None)
        self._readers.pop(source, None)
        self._sent_again.pop(source, None)
        self._refused.pop(source, None)

    @property
    def heartbeat_seconds(self) -> float:
        """How often a source without news sends a message: well within its lease, and within the time of a fresh word."""
        fresh = FIRST_HEARTBEAT_SECONDS if self._stale_after is None else self._stale_after / HEARTBEATS
        return fresh if self._lease_seconds is None else min(fresh, self._lease_seconds / HEARTBEATS)

    def _begin_heartbeats(self) -> None:
        """Send heartbeats in the background, for as long as this reporter exists and its event loop runs."""
        if self._heartbeats is None or self._heartbeats.done():
            self._submitted = asyncio.Event()
            self._heartbeats = asyncio.create_task(_send_heartbeats(weakref.ref(self), self._submitted))

    async def send_due(self) -> float:
        """Send what is due, if the server answers; returns the seconds until something is due again."""
        async with self._one_at_a_time:
            try:
                await self._send_reports()
            except RPCError:
                return self.heartbeat_seconds / HEARTBEATS
        now = time.monotonic()
        due = [self._due_in(source, now) for source in self._usages]
        return max(LEAST_PAUSE_SECONDS, min([*due, self.heartbeat_seconds]))

    def _due_in(self, source: str, now: float) -> float:
        """Seconds until a message of the source is due. One that only submitted demand, and has none now, sends no heartbeat."""
        usage, outbox = self._usages[source], self._outboxes.get(source)
        if not usage.was_reported and not (outbox is not None and outbox.has_demand):
            return self.heartbeat_seconds
        return usage.due_in(now, heartbeat=self.heartbeat_seconds)

    def _reader(self, source: str) -> TaskReader:
        return self._readers.setdefault(source, TaskReader())

    def _outbox(self, source: str) -> DemandMessages:
        if source not in self._outboxes:
            epoch = self._usages[source].epoch if source in self._usages else self._epoch
            self._outboxes[source] = DemandMessages(source, epoch, self._lease_seconds)
        return self._outboxes[source]

    def _usage_of(self, source: str) -> UsageMessages:
        if source not in self._usages:
            self._usages[source] = UsageMessages(self._outboxes[source].epoch if source in self._outboxes else self._epoch)
        return self._usages[source]

    def _start_new_epoch(self, source: str, after: int) -> None:
        """Send all demand and usage of a source again, in an epoch newer than `after`: what is known of it has gaps."""
        self._outbox(source).start_new_epoch(after=after)
        self._usage_of(source).start_again(after=after)

    async def _submit(self, source: str, demand: Demand) -> Accepted:
        """Submit the demand; once more as a snapshot, in a newer epoch, if it is not applied."""
        accepted = await self._update(source, demand)
        if not accepted.applied:
            self._start_new_epoch(source, after=accepted.epoch)
            accepted = await self._update(source, demand)
        if not accepted.applied:
            raise Refused(f"the demand of source {source} was not applied: {accepted.problem}")
        self._usage_of(source).heard(time.monotonic())
        if self._lease_seconds is not None:
            self._begin_heartbeats()
        return accepted

    async def _update(self, source: str, demand: Demand) -> Accepted:
        outbox = self._outbox(source)
        accepted: Accepted | None = None
        for message in outbox.messages(demand):
            accepted = await self._calls.update(names.SUBMIT_DEMAND, message, Accepted)
        assert accepted is not None
        if accepted.applied:
            outbox.delivered(demand)
        return accepted

    async def _send_reports(self) -> None:
        """Send what is due of every source, unless too much of what was sent is unread."""
        if self._retry is not None and not self._retry.done():
            return
        overdue = self._has_sent and time.monotonic() - self._checked > CHECKED_AFTER_SECONDS
        full = self._unread_bytes > MOST_UNREAD_BYTES
        if (overdue or full) and not await self._is_answered():
            if full:
                self._retry = asyncio.create_task(self._send_once_answered())
                self._retry.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # The next report raises it.
                return
            self._checked = time.monotonic()
        await self._send_each()

    async def _send_each(self) -> None:
        """Send what is due of every source, except of those whose demand is being submitted.

        What cannot be sent of one is raised once all others are sent.
        """
        errors: list[Exception] = []
        for source in list(self._usages):
            if self._turns.is_taken(source):
                continue
            try:
                async with self._turns.turn(source):
                    await self._send_report(source)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _send_report(self, source: str) -> None:
        """Send the reports of one source: demand, usage, pressure and confirmations of one moment in one message if they fit."""
        outbox, usage, demand = self._outbox(source), self._usage_of(source), self._wanted.get(source)
        is_refused = source in self._refused and self._refused[source][0] == demand
        messages = () if demand is None or is_refused or outbox.holds(demand) else outbox.messages(demand)
        if not messages and self._due_in(source, time.monotonic()) > 0:
            return
        *first, last = usage_parts(usage.waiting) or [{}]
        confirmed, pressure = tuple(usage.confirmed), dict(usage.pressure)
        for part in first:
            await self._signal(names.USAGE, UsageMessage(source=source, **usage.next_stamp(), usage=part))
            usage.sent(part, (), time.monotonic())
        for message in messages[:-1]:
            await self._signal(names.DEMAND, message)
        words = {"usage": last or None, "pressure": pressure or None, "confirmed": confirmed}
        rest = ReportMessage(source=source, **usage.next_stamp(), **words)
        whole = rest.model_copy(update={"demand": messages[-1] if messages else None})
        if messages and size_of(whole) > LARGEST_MESSAGE:
            await self._signal(names.DEMAND, messages[-1])
            whole = rest
        await self._signal(names.REPORT, whole)
        usage.sent(last, confirmed, time.monotonic())
        usage.sent_pressure(pressure)
        if demand is not None and messages:
            outbox.delivered(demand)

    async def _signal(self, name: str, message: Any) -> None:
        self._unread_bytes += size_of(message)
        self._has_sent = True
        await self._calls.signal(name, message)

    async def _is_answered(self) -> bool:
        """Whether a worker answers, and has read what was sent."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status = await self.status()
        except (TimeoutError, RPCError):
            return False
        return not status.unread

    async def _send_once_answered(self) -> None:
        """Wait until a worker answers, then send what was kept meanwhile."""
        while not await self._is_answered():
            await asyncio.sleep(ANSWER_SECONDS)
        async with self._one_at_a_time:
            await self._send_each()

    def _note(self, status: ClusterStatus, sent: Mapping[str, tuple[int, int]], said: Mapping[str, tuple[int, int]]) -> None:
        """Begin a new epoch of each source whose applied messages are not those sent: lost, reset, or sent by another client.

        Sources that sent something while the query was in flight, or are sending, are skipped. What is unread is not known to
        be lost.
        """
        if not status.changed or status.unread:
            return
        self._checked = time.monotonic()
        self._unread_bytes = 0
        self._stale_after = status.usage_stale_after_seconds or None
        unreported = [group.name for group in status.groups if group.driven is not None and group.driven.at is None]
        for source in {**self._usages, **self._outboxes}:
            if self._turns.is_taken(source):
                continue
            heard, applied = status.usage.get(source), status.demand.get(source)
            demand_lost = self._is_demand_lost(source, applied, sent)
            if demand_lost and applied is not None:
                self._note_refusal(source, applied.resync_needed)
            elif applied is not None and applied.resync_needed is None:
                self._sent_again.pop(source, None)
            if self._is_usage_lost(source, heard, said) or demand_lost:
                after = max(heard.epoch if heard else -1, applied.epoch if applied else -1)
                self._start_new_epoch(source, after=after)
            elif source in self._usages and said.get(source) == self._usages[source].stamp:
                self._usages[source].send_pressure_again(unreported)

    def _note_refusal(self, source: str, why: str | None) -> None:
        """Note demand that is lost. If it was sent again for the same reason before, sending it once more would not help."""
        demand = self._wanted.get(source)
        if demand is None or why is None:
            return
        if self._sent_again.get(source) == (demand, why):
            self._refused[source] = (demand, why)
        self._sent_again[source] = (demand, why)

    def _is_usage_lost(self, source: str, heard: UsageStatus | None, said: Mapping[str, tuple[int, int]]) -> bool:
        usage = self._usages.get(source)
        if usage is None or not usage.revision or said.get(source) != usage.stamp:
            return False
        return heard is None or heard.resync_needed is not None or (heard.epoch, heard.revision) != usage.stamp

    def _is_demand_lost(self, source: str, applied: SourceStatus | None, sent: Mapping[str, tuple[int, int]]) -> bool:
        outbox = self._outboxes.get(source)
        if outbox is None or sent.get(source) != outbox.stamp:
            return False
        return applied is None or applied.resync_needed is not None or (applied.epoch, applied.revision) != outbox.stamp


async def _send_heartbeats(reporter: "weakref.ref[Reporter]", submitted: asyncio.Event) -> None:
    """Send what is due, from time to time and once demand was submitted, until the reporter is gone."""
    pause = FIRST_HEARTBEAT_SECONDS / HEARTBEATS
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await submitted.wait()
        submitted.clear()
        alive = reporter()
        if alive is None:
            return
        try:
            pause = await alive.send_due()
        except ClientError:
            pause = alive.heartbeat_seconds  # The autoscaler is gone, or ended and about to come back; the next report says so.
        del alive
