"""`apply`: a state and an event give the next state. Whoever has the events has the state."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.contract.answers import Rejection
from penstock.contract.problems import LONGEST_NAME, shortened
from penstock.contract.slices import ConfirmEmptyCommand
from penstock.core.decision.limits import MINUTE
from penstock.core.state import drains, ledger
from penstock.core.state.drains import awaiting_confirmation
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
    HealthChanged,
    LocationReported,
    MessageRejected,
    Paused,
    RecoveryBegan,
    Resumed,
    SliceGone,
    SliceMoved,
    SlicesOrdered,
    SlicesReported,
    SlicesStarted,
    TimePassed,
    UsageReported,
)
from penstock.core.state.health import after_config, cleared
from penstock.core.state.ledger import launched, recovery_after_config
from penstock.core.state.revisions import apply_delta, apply_refused, apply_snapshot
from penstock.core.state.specs import group_location_key, settings_put_back
from penstock.core.state.state import AutoscalerState, Changes, SourceDemand
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.slices import Availability, Slice, SliceUsage

KEPT_REJECTIONS = 20
"""Messages that could not be used, shown in the status; all of them are counted."""
KEPT_EMPTY_SOURCES = 100
"""Sources of which nothing waits whose revision is remembered; one that is forgotten begins anew with a snapshot."""


def apply(state: AutoscalerState, event: AnyEvent) -> AutoscalerState:
    """The state after the event. Never fails: what does not fit is recorded as such.

    Time passes by the server's clock, which stamps every event but reports of locations: those have their worker's.
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
        changes["usage"] = _of_known(changes.get("usage", state.usage), changes.get("slices", state.slices))
    happened = len(event.reports) if isinstance(event, SlicesReported) else 1
    counts = {"version": state.version + happened, "input_version": state.input_version + int(matters)}
    return state.model_copy(update={"now": now, "launched": recent, **counts, **changes})


def replay(events: Iterable[AnyEvent], state: AutoscalerState | None = None) -> AutoscalerState:
    """The state after all events."""
    current = AutoscalerState() if state is None else state
    for event in events:
        current = apply(current, event)
    return current


def _config_applied(state: AutoscalerState, event: ConfigApplied) -> Changes:
    """What disabled a group no longer stands once its configuration changed; slices of a group that is gone keep their charge."""
    before = {group.name: group for group in state.config.groups} if state.config else {}
    names = {group.name for group in event.config.groups}
    changed = {group.name for group in event.config.groups if before.get(group.name) not in (None, group)}
    mended = {n for n, health in state.health.items() if n in changed and health.availability is Availability.DISABLED}
    health = {name: health for name, health in state.health.items() if name not in mended}
    slices = tuple(_charged(piece, before) for piece in state.slices) if before.keys() - names else state.slices
    slices = _left_behind(slices, before, event.config)
    return {
        "adopted": settings_put_back(state.adopted, state.config, event.config),
        "config": event.config,
        "config_revision": state.config_revision + 1,
        "health": health,
        "blocks": after_config(state.blocks, state.config, event.config),
        "slices": slices,
    } | recovery_after_config(state, event.config)


def _charged(piece: Slice, groups: Mapping[str, ScaleGroup]) -> Slice:
    """The slice with what its group charges to a pool."""
    group = groups.get(piece.group)
    if group is None or group.pool is None:
        return piece
    return piece.model_copy(update={"pool": group.pool, "chips": group.chips_per_slice})


def _left_behind(slices: tuple[Slice, ...], before: Mapping[str, ScaleGroup], after: ClusterConfig) -> tuple[Slice, ...]:
    """The slices, those of groups that are gone or have moved with the location where they are."""
    now = {group.name: group_location_key(group) for group in after.groups}
    left = {name: group_location_key(group) for name, group in before.items() if now.get(name) != group_location_key(group)}
    if not left:
        return slices
    return tuple(
        piece.model_copy(update={"location": left[piece.group]}) if piece.location is None and piece.group in left else piece
        for piece in slices
    )


def _demand_snapshot(state: AutoscalerState, event: DemandSnapshot) -> Changes:
    source = state.demand.get(event.source, SourceDemand())
    return {"demand": _with_source(state, event.source, apply_snapshot(source, event))}


def _demand_delta(state: AutoscalerState, event: DemandDelta) -> Changes:
    source = state.demand.get(event.source, SourceDemand())
    return {"demand": _with_source(state, event.source, apply_delta(source, event))}


def _demand_refused(state: AutoscalerState, event: DemandRefused) -> Changes:
    source = state.demand.get(event.source, SourceDemand())
    return {"demand": _with_source(state, event.source, apply_refused(source, event)), **_message_rejected(state, event)}


def _with_source(state: AutoscalerState, name: str, source: SourceDemand) -> dict[str, SourceDemand]:
    """Every source, with this one as it is now, the last to be forgotten of those that want nothing."""
    others = {other: known for other, known in state.demand.items() if other != name}
    empty = [other for other, known in others.items() if not known.demand.task_ids and known.partial is None]
    forgotten = set(empty[: max(0, len(empty) - KEPT_EMPTY_SOURCES + 1)])
    return {other: known for other, known in others.items() if other not in forgotten} | {name: source}


def _usage_reported(state: AutoscalerState, event: UsageReported) -> Changes:
    """Usage of slices nobody knows is dropped: it would otherwise stay for ever. A draining slice seen idle is told so.

    While the ledger is incomplete, slices may turn up of which somebody has spoken already: until it is not.
    """
    told = _of_known(event.usage, state.slices) if state.recovery is None else event.usage
    idle = [name for name in sorted(awaiting_confirmation(state)) if name in told and all(host.idle for host in told[name])]
    return {
        "usage": {**state.usage, **told},
        "outbox": (*state.outbox, *(ConfirmEmptyCommand(slice_id=name) for name in idle)),
    }


def _of_known(usage: Mapping[str, SliceUsage], slices: Iterable[Slice]) -> dict[str, SliceUsage]:
    known = {piece.id for piece in slices}
    return {name: hosts for name, hosts in usage.items() if name in known}


def _slices_ordered(state: AutoscalerState, event: SlicesOrdered) -> Changes:
    known = {piece.id for piece in state.slices}
    fresh = list({piece.id: piece for piece in event.slices if piece.id not in known}.values())
    return {"slices": (*state.slices, *fresh), "launched": (*state.launched, *launched(fresh, event.at))}


def _slice_moved(state: AutoscalerState, event: SliceMoved) -> Changes:
    """A slice that is in the same state still is since when it was; only `queued` may differ."""

    def moved(piece: Slice) -> Slice:
        since = piece.since if piece.state is event.state else event.at
        return piece.model_copy(update={"state": event.state, "queued": event.queued, "since": since})

    return {"slices": tuple(moved(piece) if piece.id == event.slice_id else piece for piece in state.slices)}


def _slice_gone(state: AutoscalerState, event: SliceGone) -> Changes:
    return {
        "slices": tuple(piece for piece in state.slices if piece.id != event.slice_id),
        "usage": {name: usage for name, usage in state.usage.items() if name != event.slice_id},
    }


def _health_changed(state: AutoscalerState, event: HealthChanged) -> Changes:
    others = {name: health for name, health in state.health.items() if name != event.group}
    blocked = event.health.availability is not Availability.AVAILABLE
    return {"health": others | {event.group: event.health} if blocked else others}


def _capacity_requested(state: AutoscalerState, event: CapacityRequested) -> Changes:
    return {"standing": {**state.standing, event.request.owner: event.request}}


def _capacity_released(state: AutoscalerState, event: CapacityReleased) -> Changes:
    return {"standing": {owner: request for owner, request in state.standing.items() if owner != event.owner}}


def _block_cleared(state: AutoscalerState, event: BlockCleared) -> Changes:
    """What was set for the group goes too."""
    group = None if event.group is None or state.config is None else state.config.group(event.group)
    health = {} if event.group is None else {name: one for name, one in state.health.items() if name != event.group}
    return {"health": health, "blocks": cleared(state.blocks, group)}


def _message_rejected(state: AutoscalerState, event: MessageRejected | DemandRefused) -> Changes:
    rejection = Rejection(at=event.at, message=shortened(event.message, LONGEST_NAME), problem=shortened(event.problem))
    return {"rejected": (*state.rejected, rejection)[-KEPT_REJECTIONS:], "rejected_in_all": state.rejected_in_all + 1}


_NEVER_MATTER = (TimePassed, MessageRejected, Decided, SlicesStarted, CommandsSent, DrainsConfirmed, RecoveryBegan, Paused)
"""Events after which the same decision would be made, or none."""

_APPLY: dict[type, Callable[[AutoscalerState, Any], Changes]] = (
    ledger.HANDLERS
    | drains.HANDLERS
    | {
        ConfigApplied: _config_applied,
        DemandSnapshot: _demand_snapshot,
        DemandDelta: _demand_delta,
        DemandRefused: _demand_refused,
        UsageReported: _usage_reported,
        SlicesOrdered: _slices_ordered,
        SliceMoved: _slice_moved,
        SliceGone: _slice_gone,
        HealthChanged: _health_changed,
        CapacityRequested: _capacity_requested,
        CapacityReleased: _capacity_released,
        BlockCleared: _block_cleared,
        Paused: lambda _state, event: {"paused": event.reason},
        Resumed: lambda _state, _event: {"paused": None},
        MessageRejected: _message_rejected,
        TimePassed: lambda _state, _event: {},
    }
)
