"""Event handlers of the ledger: record orders and started workflows, apply slice reports, remove ended slices."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from penstock.contract.answers import RecentFailure
from penstock.contract.slices import DrainEnding, SliceCommand, SliceReport
from penstock.core.state import drains, pressure
from penstock.core.state.blocks import after_deletion, after_failure, after_ready
from penstock.core.state.drains import closing_terms, number_of, to_close, to_count_anew
from penstock.core.state.events import Decided, LaunchesDropped, SlicesReported, SlicesStarted
from penstock.core.state.state import AutoscalerState, Block, Changes, drains_after_loss, forget, kept_addresses
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.decision import Cause
from penstock.model.elasticity import after_setback
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import DrainCause, DrainTerms, RecentLaunch, Slice, SliceChanges, SliceState

KEPT_FAILURES = 20
"""Failures shown in the status: enough to see a pattern, few enough to read."""
_DEGRADED = Failure(kind=FailureKind.DEGRADED, message="one of its hosts was degraded for too long")


def decided(state: AutoscalerState, event: Decided) -> Changes:
    """Add launches and begin drains; neither if the cluster was reconfigured, paused or deleted meanwhile, or recovers."""
    orders = event.orders
    kept: Changes = {
        "orders": orders.model_copy(update={"launches": ()}),
        "evaluations": state.evaluations + 1,
        "undecided": None,
    }
    stale = orders.config_revision != state.config_revision
    if stale or orders.recover or state.paused is not None or state.closing or state.is_held:
        return kept
    ordered_in = {launch.group for launch in orders.launches}
    groups = (group for group in state.config.groups if group.name in ordered_in) if state.config else ()
    fingerprints = {group.name: group.fingerprint for group in groups}
    fresh = [
        Slice(
            id=launch.slice_id,
            group=launch.group,
            state=SliceState.REQUESTING,
            since=event.at,
            cause=launch.cause,
            source=launch.source,
            fingerprint=fingerprints.get(launch.group, ""),
            replaces=launch.replaces,
            home=launch.home,
            started=False,
        )
        for launch in orders.launches
        if launch.slice_id not in state.by_id
    ]
    given_back = drains.carried_out(state, orders, event.at)
    slices, ordered = (*given_back["slices"], *fresh), (*state.launched, *launched(fresh, event.at))
    driven = pressure.decided(state, orders.desired, event.at)
    blocks = _after_degraded(state, given_back["slices"], event.at)
    return kept | given_back | {"slices": slices, "launched": ordered, "pressure": driven, "blocks": blocks}


def _after_degraded(state: AutoscalerState, slices: Sequence[Slice], at: datetime) -> tuple[Block, ...]:
    """The blocks once degraded slices drain: they count as failures of their groups, so that replacements back off."""
    blocks, config = state.blocks, state.config
    for piece in slices:
        begins = piece.drain is not None and piece.drain.cause == DrainCause.DEGRADED and state.by_id[piece.id].drain is None
        group = config.group(piece.group) if begins and config else None
        if config is not None and group is not None:
            since = piece.since or at
            blocks = after_failure(blocks, _DEGRADED, group, at=at, ordered_at=since, age=at - since, backoff=config.backoff)
    return blocks


def launched(slices: Sequence[Slice], at: datetime) -> list[RecentLaunch]:
    """Slices as launch limits count them: per group."""
    counts: dict[str, int] = {}
    for piece in slices:
        counts[piece.group] = counts.get(piece.group, 0) + 1
    return [RecentLaunch(group, count, at) for group, count in counts.items()]


def slices_started(state: AutoscalerState, event: SlicesStarted) -> Changes:
    """The workflows run: from now on they report their slices."""
    ids = set(event.slice_ids)
    return {"slices": tuple(p.changed(started=True) if p.id in ids else p for p in state.slices)}


def launches_dropped(state: AutoscalerState, event: LaunchesDropped) -> Changes:
    """Launches whose workflows were never started leave the ledger: no resource of them exists."""
    return forget(state, set(event.slice_ids))


def slices_reported(state: AutoscalerState, event: SlicesReported) -> Changes:
    """Newer reports replace older ones; ended slices leave; a failure counts once."""
    update = _LedgerUpdate(state, event.at)
    for report in event.reports:
        update.take(report)
    return update.changes()


class _LedgerUpdate:
    """The ledger while a batch of reports is applied to it."""

    def __init__(self, state: AutoscalerState, at: datetime) -> None:
        self._state, self._at = state, at
        self._ledger = dict(state.by_id)
        self._addresses = sum(len(piece.hosts) for piece in state.slices)
        self._blocks = state.blocks
        self._stockouts = dict(state.stockouts)
        self._setbacks = dict(state.setbacks)
        self._recent_failures: list[RecentFailure] = []
        self._gone: set[str] = set()
        self._commands: list[SliceCommand] = []
        self._drains_ordered = state.drains_ordered
        self._matters = 0

    def take(self, report: SliceReport) -> None:
        """Apply one report, unless a newer one was applied before.

        Reports do not arrive in order: that of a deletion may follow that of its end, and must not bring the slice back.
        """
        before = self._ledger.get(report.slice_id)
        leaving = report.state.ended or (report.state is SliceState.DELETING and self._state.recovery is None)
        if before is None and leaving:
            return
        if before is not None and before.sequence >= report.sequence:
            return
        self._judge(before, report)
        self._note_drain(before, report)
        self._addresses -= len(before.hosts) if before else 0
        if report.state.ended:
            del self._ledger[report.slice_id]
            self._gone.add(report.slice_id)
        else:
            after = self._ledger[report.slice_id] = self._moved(before, report)
            if report.drain is not None and (before is None or number_of(before) != number_of(after)):
                self._commands.append(to_count_anew(after))
            self._addresses += len(after.hosts)
            self._matters += before is not None and before.drain != after.drain
        self._matters += _matters(before, report)

    def _moved(self, before: Slice | None, report: SliceReport) -> Slice:
        """The ledger's entry after the report."""
        reported: SliceChanges = {
            "state": report.state,
            "since": report.since,
            "queued": report.queued,
            "sequence": report.sequence,
            "hosts": kept_addresses(report.hosts, self._addresses),
            "notice": report.notice,
        }
        if before is not None:
            recovering = self._state.recovery is not None
            return before.changed(**(reported | _after_report(before, report, recovering=recovering)))
        group = self._group(report)
        configured = group is not None and report.location is not None and group.location.key == report.location.key
        known = Slice(
            id=report.slice_id,
            group=report.group,
            state=report.state,
            cause=report.launched_for,
            source=report.source,
            fingerprint=report.fingerprint,
            replaces=report.replaces,
            home=report.home,
            location=None if configured else report.location,
            drain=report.drain,
        ).changed(**reported)
        return self._closing(known) if self._state.closing else known

    def _closing(self, piece: Slice) -> Slice:
        """A slice that turned up while the cluster is deleted: it drains, or is deleted, like the others."""
        if piece.state is SliceState.DELETING:
            return piece
        terms = closing_terms(self._state, piece, self._drains_ordered + 1, self._at)
        self._drains_ordered = max(self._drains_ordered, terms.number)
        self._commands.append(to_close(piece.id, terms, by_force=self._state.closing_by_force))
        return piece.changed(drain=terms)

    def _note_drain(self, before: Slice | None, report: SliceReport) -> None:
        """Number later drains higher than this one; and than any of an autoscaler that nobody remembers, if this is its slice."""
        if before is None and self._state.recovery is not None:
            self._drains_ordered = max(self._drains_ordered, drains_after_loss(self._state, self._at))
        if report.drain is not None:
            self._drains_ordered = max(self._drains_ordered, report.drain.number)

    def _group(self, report: SliceReport) -> ScaleGroup | None:
        return self._state.config.group(report.group) if self._state.config else None

    def _judge(self, before: Slice | None, report: SliceReport) -> None:
        """Apply the report to the blocks of its group."""
        config, group = self._state.config, self._group(report)
        if config is None or group is None:
            return
        if report.state is SliceState.READY and (before is None or before.state.in_flight):
            self._blocks = after_ready(self._blocks, group, ordered_at=report.ordered_at)
        elif report.state.ended:
            self._blocks = after_deletion(self._blocks, group, failure=report.failure)
        if before is not None and before.state is not SliceState.DELETING:
            self._count_failure(config, group, before, report)

    def _count_failure(self, config: ClusterConfig, group: ScaleGroup, before: Slice, report: SliceReport) -> None:
        if report.failure is None:
            return
        if config.return_home is not None:
            last, returned = self._setbacks.get(group.name), before.cause == Cause.RETURN_HOME
            self._setbacks[group.name] = after_setback(last, config.return_home, self._at, returned=returned)
        came: datetime = report.created_at or report.ordered_at
        self._blocks = after_failure(
            self._blocks,
            report.failure,
            group,
            at=self._at,
            ordered_at=report.ordered_at,
            age=self._at - came,
            backoff=config.backoff,
        )
        if report.failure.kind is FailureKind.STOCKOUT:
            self._stockouts[group.name] = self._at
        failure = RecentFailure(at=self._at, group=group.name, slice_id=report.slice_id, failure=report.failure)
        self._recent_failures.append(failure)

    def changes(self) -> Changes:
        """The changes of all reports together."""
        state, left = self._state, forget(self._state, self._gone) if self._gone else Changes()
        commands = (command for command in self._commands if command.slice_id not in self._gone)
        return left | {
            "matters": self._matters,
            "slices": tuple(self._ledger.values()),
            "outbox": (*left.get("outbox", state.outbox), *commands),
            "blocks": self._blocks,
            "drains_ordered": self._drains_ordered,
            "stockouts": self._stockouts,
            "setbacks": self._setbacks,
            "recent_failures": (*state.recent_failures, *self._recent_failures)[-KEPT_FAILURES:],
        }


def _after_report(before: Slice, report: SliceReport, *, recovering: bool) -> SliceChanges:
    """What a report changes beside what it says. Idle time counts anew for a slice that became READY.

    A drain that was cancelled does not come back with a report from before. In a recovery the word of the slice counts: what the
    ledger knows of its drain may be older.
    """
    moved = (before.state, before.since) != (report.state, report.since)
    drain = _drain_after(before, report)
    anew: SliceChanges = {"idle_since": None, "confirmed_empty": False}
    unclaimed: SliceChanges = {"unnamed": None, "unclaimed": None} if moved else {}
    if report.state is SliceState.READY:
        if not moved and drain is before.drain:
            return {}
        serves: SliceChanges = {"drain": drain, "returning": False, "unneeded_since": None}
        if drain is None and before.drain is not None and _has_expired(report):
            serves["unconfirmed_at"] = report.since
        return unclaimed | serves | ({} if drain is not None and before.state.was_ready else anew)
    if before.returning and report.state.live and not recovering:
        return unclaimed
    drains: SliceChanges = {"drain": drain, "returning": False}
    return unclaimed | drains | ({} if drain is before.drain else anew)


def _has_expired(report: SliceReport) -> bool:
    """Whether its last drain ended at the deadline."""
    return report.ended_drain is not None and report.ended_drain.how is DrainEnding.EXPIRED


def _drain_after(before: Slice, report: SliceReport) -> DrainTerms | None:
    """The drain of a slice after its report: the newest that was ordered or that it tells of, unless it is over.

    One that the slice has not received yet is kept; but one for a slice on its way only is over once it is READY.
    """
    known, told = before.drain, report.drain
    if report.state is not SliceState.READY:
        return told if known is None or (told is not None and told.number > known.number) else known
    if known is None:
        return None
    if before.state.in_flight:
        return None if known.cause == DrainCause.NOT_NEEDED else known
    if report.ended_drain is None:  # It is told by an earlier version, or the slice has never drained.
        return known if before.since == report.since and before.state is report.state else None
    return None if report.ended_drain.number >= known.number else known


def _matters(before: Slice | None, report: SliceReport) -> bool:
    """Whether a decision could differ: boot steps and new addresses alone change nothing."""
    if before is None or report.failure is not None or (before.queued, before.notice) != (report.queued, report.notice):
        return True
    unmoved = (before.state, before.since) == (report.state, report.since)
    return not (unmoved or (before.state.in_flight and report.state.in_flight))


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    Decided: decided,
    SlicesStarted: slices_started,
    SlicesReported: slices_reported,
    LaunchesDropped: launches_dropped,
}
