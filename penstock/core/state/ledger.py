"""How the ledger follows its slices: orders, reports, audits, recovery."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from penstock.contract.answers import RecentFailure
from penstock.contract.inventories import Orphan
from penstock.contract.slices import DrainCommand, SliceReport
from penstock.core.state.drains import TO_CLOSE
from penstock.core.state.events import (
    Decided,
    LaunchesDropped,
    LocationReported,
    RecoveryBegan,
    ReportsCollected,
    SlicesReported,
    SlicesStarted,
)
from penstock.core.state.health import after_deletion, after_failure, after_look, after_ready, after_refused_look
from penstock.core.state.specs import group_location_key, locations_of, settings_left_out
from penstock.core.state.state import AutoscalerState, Block, Changes, Recovery, without
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Phase
from penstock.model.location import location_key
from penstock.model.slices import ENDED, IN_FLIGHT, DrainTerms, Launched, Slice, SliceState

KEPT_FAILURES = 20
"""Failures shown in the status: enough to see a pattern, few enough to read."""

_STATE_OF_PHASE = {
    Phase.QUEUED: SliceState.REQUESTING,
    Phase.CREATING: SliceState.REQUESTING,
    Phase.BOOTING: SliceState.BOOTING,
    Phase.RUNNING: SliceState.INITIALIZING,
    Phase.PREEMPTED: SliceState.DELETING,
    Phase.FAILED: SliceState.DELETING,
}
"""Where the lifecycle of a slice goes on that was found in the cloud; what is being deleted needs nobody."""


def decided(state: AutoscalerState, event: Decided) -> Changes:
    """Launches enter the ledger and drains begin, unless what they were decided on no longer holds."""
    orders = event.orders
    kept: Changes = {"orders": orders.model_copy(update={"launches": ()}), "evaluations": state.evaluations + 1}
    stale = orders.config_revision != state.config_revision
    if stale or orders.recover or state.paused is not None or state.closing or state.recovery is not None:
        return kept
    known = {piece.id for piece in state.slices}
    fresh = [launch for launch in orders.launches if launch.slice_id not in known]
    slices = tuple(Slice(id=launch.slice_id, group=launch.group, state=SliceState.REQUESTING, since=event.at) for launch in fresh)
    drains = [drain for drain in orders.drains if drain.slice_id in known and drain.slice_id not in state.drains]
    terms = {drain.slice_id: DrainTerms(cause=drain.cause) for drain in drains}
    return kept | {
        "drains": {**state.drains, **terms},
        "outbox": (*state.outbox, *(DrainCommand(slice_id=slice_id, terms=one) for slice_id, one in terms.items())),
        "slices": (*state.slices, *slices),
        "launched": (*state.launched, *launched(slices, event.at)),
        "starting": (*state.starting, *(launch.slice_id for launch in fresh)),
        "launch_causes": {**state.launch_causes, **{launch.slice_id: launch.cause for launch in fresh}},
    }


def launched(slices: Sequence[Slice], at: datetime) -> list[Launched]:
    """Slices as launch limits count them: per group."""
    counts: dict[str, int] = {}
    for piece in slices:
        counts[piece.group] = counts.get(piece.group, 0) + 1
    return [Launched(group, count, at) for group, count in counts.items()]


def slices_started(state: AutoscalerState, event: SlicesStarted) -> Changes:
    """Their workflows run: from now on they speak for themselves."""
    ids = set(event.slice_ids)
    return {
        "starting": tuple(slice_id for slice_id in state.starting if slice_id not in ids),
        "adopted": {slice_id: found for slice_id, found in state.adopted.items() if slice_id not in ids},
        "launch_causes": {slice_id: cause for slice_id, cause in state.launch_causes.items() if slice_id not in ids},
    }


def slices_reported(state: AutoscalerState, event: SlicesReported) -> Changes:
    """Newer reports replace what was known; ended slices leave; a failure counts once."""
    reading = _LedgerUpdate(state, event.at)
    for report in event.reports:
        reading.take(report)
    return reading.changes()


class _LedgerUpdate:
    """The ledger while several reports are taken into it."""

    def __init__(self, state: AutoscalerState, at: datetime) -> None:
        self._state, self._at = state, at
        self._ledger = {piece.id: piece for piece in state.slices}
        self._blocks: tuple[Block, ...] = state.blocks
        self._recent_failures: list[RecentFailure] = []
        self._gone: set[str] = set()
        self._drains: dict[str, DrainTerms] = dict(state.drains)
        self._orders: list[DrainCommand] = []
        self._matters = 0

    def take(self, report: SliceReport) -> None:
        """One report, unless something newer is known."""
        before = self._ledger.get(report.slice_id)
        if before is None and report.state in ENDED:
            return
        if before is not None and before.sequence >= report.sequence:
            return
        self._judge(before, report)
        if report.state in ENDED:
            del self._ledger[report.slice_id]
            self._drains.pop(report.slice_id, None)
            self._gone.add(report.slice_id)
        else:
            self._ledger[report.slice_id] = self._moved(before, report)
            self._note_drain(before, report)
        self._matters += _matters(before, report)

    def _moved(self, before: Slice | None, report: SliceReport) -> Slice:
        reported: dict[str, Any] = {
            "state": report.state,
            "since": report.since,
            "queued": report.queued,
            "sequence": report.sequence,
        }
        if before is not None:
            return before.model_copy(update=reported)
        group = self._state.config.group(report.group) if self._state.config else None
        location = None if group is not None and group_location_key(group) == report.location else report.location
        return Slice.model_construct(id=report.slice_id, group=report.group, location=location, **reported)

    def _note_drain(self, before: Slice | None, report: SliceReport) -> None:
        """Whether a slice that stays drains, by its own account; an order that it has not read yet stands."""
        slice_id = report.slice_id
        if report.state is SliceState.READY and before is not None and before.state not in IN_FLIGHT:
            self._drains.pop(slice_id, None)
        elif report.state is SliceState.DRAINING and report.drain is not None:
            self._drains.setdefault(slice_id, report.drain)
        if before is None and self._state.closing and report.state is not SliceState.DELETING:
            self._drains[slice_id] = TO_CLOSE
            self._orders.append(DrainCommand(slice_id=slice_id, terms=TO_CLOSE))

    def _judge(self, before: Slice | None, report: SliceReport) -> None:
        """What the report says of its group's health."""
        config = self._state.config
        group = config.group(report.group) if config else None
        if config is None or group is None:
            return
        if report.state is SliceState.READY and (before is None or before.state in IN_FLIGHT):
            self._blocks = after_ready(self._blocks, group, ordered_at=report.ordered_at)
        elif report.state in ENDED:
            self._blocks = after_deletion(self._blocks, group, failure=report.failure)
        if report.failure is None or before is None or before.state is SliceState.DELETING:
            return
        came: datetime = report.born_at or report.ordered_at
        self._blocks = after_failure(
            self._blocks,
            report.failure,
            group,
            at=self._at,
            ordered_at=report.ordered_at,
            age=self._at - came,
            backoff=config.backoff,
        )
        self._recent_failures.append(
            RecentFailure(at=self._at, group=group.name, slice_id=report.slice_id, failure=report.failure)
        )

    def changes(self) -> Changes:
        """What differs from the state the reports came to."""
        state = self._state
        left = (command for command in (*state.outbox, *self._orders) if command.slice_id not in self._gone)
        return {
            "matters": self._matters,
            "slices": tuple(self._ledger.values()),
            "usage": without(state.usage, self._gone),
            "drains": self._drains,
            "outbox": tuple(left),
            "blocks": self._blocks,
            "recent_failures": (*state.recent_failures, *self._recent_failures)[-KEPT_FAILURES:],
        }


def _matters(before: Slice | None, report: SliceReport) -> bool:
    """Whether a decision could differ: boot steps alone change nothing."""
    if before is None or report.failure is not None or before.queued != report.queued:
        return True
    return not (before.state in IN_FLIGHT and report.state in IN_FLIGHT)


def location_reported(state: AutoscalerState, event: LocationReported) -> Changes:
    """What nobody looks after is adopted or doomed; what is nowhere leaves the ledger."""
    report = event.report
    changes = _recovered(state, location_key(report.account, report.location)) if _is_awaited(state, event) else {}
    blocks = _looked_at(state, event)
    blocked_otherwise = [block.health for block in blocks] != [block.health for block in state.blocks]
    changes |= {} if blocks == state.blocks else {"blocks": blocks}
    ledger = {piece.id: piece for piece in state.slices}
    missing = {slice_id for slice_id in report.missing if slice_id in ledger and slice_id not in state.starting}
    found = {one.slice_id: one for one in report.orphans if one.slice_id not in state.starting and _wanted(state, one, event.at)}
    if not missing and not found:
        return changes | {"matters": blocked_otherwise or ("recovery" in changes and changes["recovery"] is None)}
    for slice_id in missing:
        del ledger[slice_id]
    for slice_id, one in found.items():
        if slice_id not in ledger:
            ledger[slice_id] = _adopted(state, one, event.at)
    adopted = settings_left_out(found, state.config) if state.config else {}
    return changes | {
        "matters": True,
        "slices": tuple(ledger.values()),
        "usage": without(state.usage, missing),
        "drains": without(state.drains, missing),
        "outbox": tuple(command for command in state.outbox if command.slice_id not in missing),
        "starting": (*state.starting, *found),
        "adopted": {**state.adopted, **adopted},
        "verified": False,
    }


def _looked_at(state: AutoscalerState, event: LocationReported) -> tuple[Block, ...]:
    """The blocks now that a location could be looked at, or could not."""
    config, report = state.config, event.report
    location = (report.account, report.location)
    groups = [group for group in config.groups if (group.provider.account, group.location) == location] if config else []
    if report.failure is None or config is None:
        return after_look(state.blocks, groups)
    return after_refused_look(
        state.blocks, report.failure, groups, at=event.at, backoff=config.backoff, orders_too=report.orders_too
    )


def _is_awaited(state: AutoscalerState, event: LocationReported) -> bool:
    return state.recovery is not None and event.report.complete and event.report.asked == state.recovery.id


def _recovered(state: AutoscalerState, location: str) -> Changes:
    assert state.recovery is not None
    left = tuple(other for other in state.recovery.waiting if other != location)
    return _recovering(state, state.recovery.model_copy(update={"waiting": left}))


def _recovering(state: AutoscalerState, recovery: Recovery) -> Changes:
    """How far a recovery is. One that closes the cluster is the last if nothing turned up meanwhile."""
    if not recovery.reports_collected or recovery.waiting:
        return {"recovery": recovery}
    return {"recovery": None, "verified": recovery.closing and not state.slices}


def _wanted(state: AutoscalerState, one: Orphan, at: datetime) -> bool:
    """Whether something is to be done about a resource without an owner now."""
    if one.phase not in _STATE_OF_PHASE:
        return False
    config = state.config
    if config is None:
        return False
    if config.group(one.group) is not None and not state.closing:
        return True
    if state.recovery is not None and state.recovery.closing:
        return True
    grace = timedelta(seconds=config.inventory.orphan_grace_seconds)
    return any(piece.id == one.slice_id for piece in state.slices) or one.created_at is None or one.created_at + grace <= at


def _adopted(state: AutoscalerState, one: Orphan, at: datetime) -> Slice:
    assert state.config is not None
    group = state.config.group(one.group)
    where = SliceState.DELETING if group is None or state.closing else _STATE_OF_PHASE[one.phase]
    here = location_key(one.account, one.location) if one.account else None
    location = None if group is not None and group_location_key(group) == here else here
    return Slice(id=one.slice_id, group=one.group, state=where, since=at, queued=one.phase is Phase.QUEUED, location=location)


def recovery_began(state: AutoscalerState, event: RecoveryBegan) -> Changes:
    """Nothing is ordered until everyone has been heard."""
    waiting = tuple(location.key for location in locations_of(state.config)) if state.config else ()
    recovery = Recovery(id=event.id, reason=event.reason, since=event.at, waiting=waiting, closing=event.closing)
    return {"recovery": recovery, "recovered_in": event.run_id or state.recovered_in}


def recovery_after_config(state: AutoscalerState, config: ClusterConfig) -> Changes:
    """A recovery waits for the locations that are configured now, those that are new included."""
    if state.recovery is None:
        return {}
    before = {location.key for location in locations_of(state.config)} if state.config else set()
    kept = {*state.recovery.waiting} | ({location.key for location in locations_of(config)} - before)
    waiting = tuple(location.key for location in locations_of(config) if location.key in kept)
    return _recovering(state, state.recovery.model_copy(update={"waiting": waiting}))


def reports_collected(state: AutoscalerState, event: ReportsCollected) -> Changes:
    """Every running slice has been asked."""
    if state.recovery is None or state.recovery.id != event.id:
        return {"matters": False}
    return _recovering(state, state.recovery.model_copy(update={"reports_collected": True}))


def launches_dropped(state: AutoscalerState, event: LaunchesDropped) -> Changes:
    """Slices that were ordered and never started leave the ledger: nothing of them exists."""
    ids = set(event.slice_ids)
    return {
        **slices_started(state, SlicesStarted(at=event.at, slice_ids=event.slice_ids)),
        "slices": tuple(piece for piece in state.slices if piece.id not in ids),
        "drains": without(state.drains, ids),
        "outbox": tuple(command for command in state.outbox if command.slice_id not in ids),
    }


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    Decided: decided,
    SlicesStarted: slices_started,
    SlicesReported: slices_reported,
    LocationReported: location_reported,
    RecoveryBegan: recovery_began,
    ReportsCollected: reports_collected,
    LaunchesDropped: launches_dropped,
}
