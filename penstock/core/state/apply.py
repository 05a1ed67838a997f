"""`apply`: a state and an event give the next state, so the events alone determine the state."""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.contract.answers import Rejection, Undecided
from penstock.contract.problems import LONGEST_NAME, shortened
from penstock.core.decision.limits import MINUTE
from penstock.core.state import drains, handshake, ledger, pressure, protections, recovery, spending, unlisted, usage
from penstock.core.state.blocks import after_config, cleared
from penstock.core.state.events import (
    AnyEvent,
    BlockCleared,
    CapacityReleased,
    CapacityRequested,
    CommandsSent,
    ConfigApplied,
    Decided,
    DemandDelta,
    DemandRefused,
    DemandSnapshot,
    DrainsConfirmed,
    EvaluationFailed,
    LocationReported,
    MessageRejected,
    Paused,
    RecoveryBegan,
    Resumed,
    SlicesReported,
    SlicesStarted,
    TimePassed,
)
from penstock.core.state.recovery import recovery_after_config
from penstock.core.state.revisions import apply_delta, apply_refused, apply_snapshot
from penstock.core.state.sources import DemandEvent, after_demand
from penstock.core.state.state import AutoscalerState, Changes, SourceDemand
from penstock.model.cluster import ScaleGroup
from penstock.model.left_behind import LeftBehind
from penstock.model.slices import Slice, SliceChanges

KEPT_REJECTIONS = 20
"""Rejected messages shown in the status; all of them are counted."""
KEPT_EMPTY_SOURCES = 100
"""Sources without demand whose revisions are kept. A forgotten source begins again with a snapshot."""


def apply(state: AutoscalerState, event: AnyEvent) -> AutoscalerState:
    """The state after the event. Never fails: an event that does not fit is recorded as rejected, or ignored.

    Time advances by the server's clock, which stamps every event except reports of locations: those carry the worker's clock.
    """
    changes = _APPLY[type(event)](state, event)
    matters = changes.pop("matters", type(event) not in _NEVER_MATTER)
    now = state.now if isinstance(event, LocationReported) else max(state.now, event.at)
    ordered = changes.pop("launched", state.launched)
    recent = tuple(item for item in ordered if item.at + MINUTE > now)
    standing = changes.get("standing", state.standing)
    live = {owner: request for owner, request in standing.items() if request.expires is None or request.expires > now}
    if len(live) < len(standing):
        changes["standing"] = live
    if state.recovery is not None and changes.get("recovery", state.recovery) is None:
        changes |= usage.of_ledger(state, changes)
    happened = len(event.reports) if isinstance(event, SlicesReported) else 1
    counts = {"version": state.version + happened, "input_version": state.input_version + int(matters)}
    if now > state.now:
        changes["idle_cost"] = spending.accrued(state.idle_cost, state.idle_rate, state.now, now)
    return state.model_copy(update={"now": now, "launched": recent, **counts, **changes})


def replay(events: Iterable[AnyEvent], state: AutoscalerState | None = None) -> AutoscalerState:
    """The state after all events."""
    current = AutoscalerState() if state is None else state
    for event in events:
        current = apply(current, event)
    return current


def _config_applied(state: AutoscalerState, event: ConfigApplied) -> Changes:
    """The new configuration. Slices of a removed group keep what they still go by, those of a moved group their location.

    Slices that drain because their group was removed serve again if it is back.
    """
    before = {group.name: group for group in state.config.groups} if state.config else {}
    after = {group.name: group for group in event.config.groups}
    slices = tuple(_left_behind(piece, before.get(piece.group), after.get(piece.group)) for piece in state.slices)
    return {
        "config": event.config,
        "config_revision": state.config_revision + 1,
        "blocks": after_config(state.blocks, state.config, event.config),
        "stockouts": {name: at for name, at in state.stockouts.items() if name in after},
        "setbacks": {name: each for name, each in state.setbacks.items() if name in after and event.config.return_home},
        "location_problems": unlisted.after_config(state.location_problems, event.config),
        "pressure": pressure.after_config(state.pressure, event.config),
        "used_old_config": (),
        **drains.after_config(state, slices, event.config),
    } | recovery_after_config(state, event.config)


def _left_behind(piece: Slice, before: ScaleGroup | None, after: ScaleGroup | None) -> Slice:
    """The slice with its own copy of the facts of its group that the new configuration no longer has."""
    facts: SliceChanges = {}
    left = _left_of(piece.left, before, after)
    if left != piece.left:
        facts["left"] = left
    if before is not None and piece.location is None and (after is None or after.location.key != before.location.key):
        facts["location"] = before.location
    return piece.changed(**facts) if facts else piece


def _left_of(left: LeftBehind | None, before: ScaleGroup | None, after: ScaleGroup | None) -> LeftBehind | None:
    """What a slice keeps of its group: all of a removed one, and of any other only the idle timeout that it was made under.

    Nothing is kept of a group that is configured with that timeout, so nothing at all in the common case.
    """
    known = before.idle_timeout_seconds if before is not None else None
    made_under = known if left is None else left.idle_timeout_seconds
    if after is not None and (made_under is None or made_under == after.idle_timeout_seconds):
        return None
    if before is None or made_under is None:
        return left
    return LeftBehind.of(before).model_copy(update={"idle_timeout_seconds": made_under})


def _demand_snapshot(state: AutoscalerState, event: DemandSnapshot) -> Changes:
    return _with_source(state, event, apply_snapshot(state.demand.get(event.source, SourceDemand()), event))


def _demand_delta(state: AutoscalerState, event: DemandDelta) -> Changes:
    return _with_source(state, event, apply_delta(state.demand.get(event.source, SourceDemand()), event))


def _demand_refused(state: AutoscalerState, event: DemandRefused) -> Changes:
    refused = apply_refused(state.demand.get(event.source, SourceDemand()), event)
    return _with_source(state, event, refused) | _message_rejected(state, event)


def _with_source(state: AutoscalerState, event: DemandEvent, source: SourceDemand) -> Changes:
    """All sources with this one replaced. Of sources without demand, the least recently used are forgotten first."""
    name = event.source
    source, reporters = after_demand(state, event, source)
    others = {other: known for other, known in state.demand.items() if other != name}
    empty = [other for other, known in others.items() if not known.tasks and known.partial is None]
    forgotten = set(empty[: max(0, len(empty) - KEPT_EMPTY_SOURCES + 1)])
    demand = {other: known for other, known in others.items() if other not in forgotten} | {name: source}
    return {"demand": demand, "usage_sources": reporters}


def _capacity_requested(state: AutoscalerState, event: CapacityRequested) -> Changes:
    owner = event.request.owner
    changes: Changes = {"standing": {**state.standing, owner: event.request}}
    if event.from_old_config:
        changes["used_old_config"] = handshake.remembered(state, handshake.requesting(owner))
    return changes


def _capacity_released(state: AutoscalerState, event: CapacityReleased) -> Changes:
    return {"standing": {owner: request for owner, request in state.standing.items() if owner != event.owner}}


def _block_cleared(state: AutoscalerState, event: BlockCleared) -> Changes:
    group = None if event.group is None or state.config is None else state.config.group(event.group)
    return {"blocks": cleared(state.blocks, group)}


def _message_rejected(state: AutoscalerState, event: MessageRejected | DemandRefused) -> Changes:
    rejection = Rejection(at=event.at, message=shortened(event.message, LONGEST_NAME), problem=shortened(event.problem))
    return {"rejected": (*state.rejected, rejection)[-KEPT_REJECTIONS:], "rejected_in_all": state.rejected_in_all + 1}


def _evaluation_failed(state: AutoscalerState, event: EvaluationFailed) -> Changes:
    before = state.undecided
    undecided = Undecided(
        since=before.since if before else event.at,
        problem=shortened(event.problem),
        failures=before.failures + 1 if before else 1,
        again_at=event.again_at,
    )
    return {"undecided": undecided}


_NEVER_MATTER = (
    TimePassed,
    EvaluationFailed,
    MessageRejected,
    Decided,
    SlicesStarted,
    CommandsSent,
    DrainsConfirmed,
    RecoveryBegan,
    Paused,
)
"""Events that cannot change a decision."""

_APPLY: dict[type, Callable[[AutoscalerState, Any], Changes]] = (
    ledger.HANDLERS
    | recovery.HANDLERS
    | drains.HANDLERS
    | usage.HANDLERS
    | protections.HANDLERS
    | pressure.HANDLERS
    | {
        ConfigApplied: _config_applied,
        DemandSnapshot: _demand_snapshot,
        DemandDelta: _demand_delta,
        DemandRefused: _demand_refused,
        CapacityRequested: _capacity_requested,
        CapacityReleased: _capacity_released,
        BlockCleared: _block_cleared,
        Paused: lambda _state, event: {"paused": event.reason},
        Resumed: lambda _state, _event: {"paused": None},
        MessageRejected: _message_rejected,
        EvaluationFailed: _evaluation_failed,
        TimePassed: lambda _state, _event: {},
    }
)
