"""Drains: their orders, cancellation and confirmation, the deletion of a cluster, and the commands that slices receive."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any

from penstock.contract.messages import Confirmation
from penstock.contract.orders import Orders
from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    DeleteCommand,
    DrainCommand,
    IdleCommand,
    SliceCommand,
)
from penstock.core.state.events import Closed, CommandsSent, DrainCancelled, DrainOrdered, DrainsConfirmed
from penstock.core.state.notices import follows_notice
from penstock.core.state.protections import protected_now
from penstock.core.state.replacements import REPLACED_FIRST, has_place_to_go
from penstock.core.state.spending import idle_in
from penstock.core.state.state import AutoscalerState, Changes, drains_after_loss
from penstock.model.cluster import DEFAULT_DRAIN_SECONDS, ClusterConfig
from penstock.model.decision import Drain
from penstock.model.slices import DrainCause, DrainTerms, HostState, Slice, SliceState, SliceUsage

CLOSING = "the cluster is deleted"
"""The cause of the drains of a cluster that is deleted."""


def commands_sent(state: AutoscalerState, event: CommandsSent) -> Changes:
    """Remove delivered commands. Others may have been added, or dropped with their slices, since they were sent."""
    left = list(state.outbox)
    for command in event.commands:
        if command in left:
            left.remove(command)
    return {"outbox": tuple(left)}


def carried_out(state: AutoscalerState, orders: Orders, at: datetime) -> Changes:
    """Begin and cancel the drains of a decision, and note since when slices on their way are not needed.

    A drain is dropped if its slice is not what the decision saw (`_is_still_due`), or was protected since. A notice of the cloud
    brings its own deadline, which protections do not hold up. Slices that receive the work of another are not emptied themselves
    for a while, which counts from the order: until then the work is on its way.
    """
    due = _still_due(state, orders.drains, at)
    receivers = {slice_id for drain in due.values() for slice_id in drain.receivers}
    cancelled, unneeded = set(orders.cancelled_drains), set(orders.unneeded)
    slices, outbox, number = [], list(state.outbox), state.drains_ordered
    for piece in state.slices:
        drain = due.get(piece.id)
        if drain is not None:
            number += 1
            deadline = drain_deadline(state, piece, at) if drain.deadline is None else max(at, drain.deadline)
            terms = DrainTerms(cause=drain.cause, detail=drain.detail, force=drain.force, number=number, deadline=deadline)
            piece = _draining(piece, terms)
            outbox.append(DrainCommand(slice_id=piece.id, terms=terms))
        elif piece.id in cancelled and (piece.reclaimable or piece.notice_withdrawn):
            outbox.append(to_cancel(piece))
            piece = returning(piece)
        if piece.id in receivers:
            piece = piece.changed(received_at=at)
        since = (piece.unneeded_since or at) if piece.id in unneeded and piece.state.in_flight else None
        slices.append(piece if piece.unneeded_since == since else piece.changed(unneeded_since=since))
    return {"slices": tuple(slices), "outbox": tuple(outbox), "drains_ordered": number}


def _still_due(state: AutoscalerState, ordered: Sequence[Drain], at: datetime) -> dict[str, Drain]:
    """The drains that begin now, by slice id."""
    known = ((state.by_id[drain.slice_id], drain) for drain in ordered if drain.slice_id in state.by_id)
    return {piece.id: drain for piece, drain in known if _may_begin(state, piece, drain, at)}


def _may_begin(state: AutoscalerState, piece: Slice, drain: Drain, at: datetime) -> bool:
    if drain.cause == DrainCause.NOTICE:
        return follows_notice(piece, drain, at)
    usage = state.usage.get(piece.id, ())
    if drain.cause in REPLACED_FIRST and not has_place_to_go(state, piece, usage):
        return False
    return _is_still_due(piece, drain, usage) and not protected_now(state, piece, at)


def _is_still_due(piece: Slice, drain: Drain, usage: SliceUsage) -> bool:
    """Whether the slice is still what the decision saw: as idle, as unclaimed or as far on its way as the order depends on.

    To save money, nothing is moved that cannot be named.
    """
    if piece.drain is not None or not piece.state.serves:
        return False
    if drain.idle_since is not None:
        return drain.idle_since == piece.idle_since
    match drain.cause:
        case DrainCause.UNCLAIMED:
            return piece.is_unclaimed
        case DrainCause.NOT_NEEDED:
            return piece.state.in_flight
        case DrainCause.ABOVE_MAXIMUM:
            return piece.state.in_flight or piece.is_unclaimed or piece.idle_since is not None
        case DrainCause.CONSOLIDATION:
            return piece.state is SliceState.READY and all(host.movable for host in usage)
    return True


def drain_deadline(state: AutoscalerState, piece: Slice, at: datetime) -> datetime:
    """When a drain that begins now ends at the latest, by the configuration of this moment."""
    group = state.config.group(piece.group) if state.config else None
    seconds = DEFAULT_DRAIN_SECONDS if group is None else group.timeouts.drain_seconds
    return at + timedelta(seconds=seconds)


def _draining(piece: Slice, terms: DrainTerms) -> Slice:
    """The slice with a drain. Idle reports count from now on: one from before says nothing about work that came meanwhile."""
    return piece.changed(drain=terms, idle_since=None, confirmed_empty=False, returning=False)


def to_cancel(piece: Slice) -> CancelDrainCommand:
    """The command that ends the drain of a slice."""
    return CancelDrainCommand(slice_id=piece.id, number=number_of(piece))


def number_of(piece: Slice) -> int | None:
    """The number of the slice's drain; None if it is not known."""
    return None if piece.drain is None else piece.drain.number


def returning(piece: Slice) -> Slice:
    """The slice after its drain was cancelled: it serves as soon as it has heard so.

    One that was on its way home stays: what needed it would need it again.
    """
    home = "" if piece.drain is not None and piece.drain.known_cause is DrainCause.RETURN_HOME else piece.home
    return piece.changed(drain=None, idle_since=None, returning=piece.state.was_ready, home=home)


def after_config(state: AutoscalerState, slices: Sequence[Slice], config: ClusterConfig) -> Changes:
    """The slices under a new configuration: those of a group that returned serve again, unless they are empty or deleted."""
    back = {piece.id for piece in slices if _drains_for_removal(piece) and config.group(piece.group) is not None}
    if not back:
        return {"slices": tuple(slices)}
    return {
        "slices": tuple(returning(piece) if piece.id in back else piece for piece in slices),
        "outbox": (*state.outbox, *(to_cancel(piece) for piece in slices if piece.id in back)),
    }


def _drains_for_removal(piece: Slice) -> bool:
    if piece.drain is None or piece.drain.cause != DrainCause.GROUP_REMOVED:
        return False
    return piece.state.live and not piece.confirmed_empty


def drain_ordered(state: AutoscalerState, event: DrainOrdered) -> Changes:
    """The slice stops counting as capacity and receives the command. A forced drain stays forced until it is cancelled."""
    piece = state.by_id.get(event.slice_id)
    if piece is None:
        return {"matters": False}
    if piece.drain is not None and piece.drain.force:
        return {"outbox": (*state.outbox, DrainCommand(slice_id=piece.id, terms=piece.drain))}
    number = state.drains_ordered + 1
    terms = event.terms.model_copy(update={"number": number, "deadline": drain_deadline(state, piece, event.at)})
    return {
        "slices": tuple(_draining(p, terms) if p.id == piece.id else p for p in state.slices),
        "outbox": (*state.outbox, DrainCommand(slice_id=piece.id, terms=terms)),
        "drains_ordered": number,
    }


def drain_cancelled(state: AutoscalerState, event: DrainCancelled) -> Changes:
    """The slice receives the command to serve again, and counts as capacity from now on."""
    drained = state.by_id.get(event.slice_id)
    if drained is None:
        return {"matters": False}
    return {
        "slices": tuple(returning(piece) if piece is drained else piece for piece in state.slices),
        "outbox": (*state.outbox, to_cancel(drained)),
    }


def drains_confirmed(state: AutoscalerState, event: DrainsConfirmed) -> Changes:
    """Draining slices that are empty receive the confirmation; their drains can no longer be cancelled.

    A confirmation counts for the drain that it numbers, and without a number for whichever is under way.
    """
    empty = {one.slice_id for one in event.confirmed if _is_confirmed_by(state.by_id.get(one.slice_id), one)}
    return {
        "slices": tuple(p.changed(confirmed_empty=True) if p.id in empty else p for p in state.slices),
        "outbox": (*state.outbox, *(_to_confirm(state.by_id[slice_id]) for slice_id in sorted(empty))),
    }


def _is_confirmed_by(piece: Slice | None, one: Confirmation) -> bool:
    if piece is None or not awaits_confirmation(piece):
        return False
    return piece.drain is None or one.number in (None, piece.drain.number)


def after_reset(state: AutoscalerState, at: datetime) -> Changes:
    """The drains of a run that was reset: some may be forgotten, and what draining slices were told of their hosts may be old."""
    draining = {piece.id: piece for piece in state.slices if awaits_confirmation(piece)}
    return {
        "slices": tuple(piece.changed(idle_since=None) if piece.id in draining else piece for piece in state.slices),
        "outbox": (*state.outbox, *map(to_count_anew, draining.values())),
        "drains_ordered": drains_after_loss(state, at),
    }


def to_count_anew(piece: Slice) -> IdleCommand:
    """The command to a draining slice whose autoscaler does not know what it was told: only idle news from now on count."""
    return IdleCommand(slice_id=piece.id, idle=False, number=number_of(piece))


def awaits_confirmation(piece: Slice) -> bool:
    """Whether it drains, or has been ordered to, and has not been confirmed empty."""
    return piece.drains and piece.state is not SliceState.DELETING and not piece.confirmed_empty


def _to_confirm(piece: Slice) -> ConfirmEmptyCommand:
    return ConfirmEmptyCommand(slice_id=piece.id, number=number_of(piece))


def after_usage(
    state: AutoscalerState, changes: Changes, named: AbstractSet[str], at: datetime, *, anew: AbstractSet[str]
) -> bool:
    """Note since when each of the named slices is idle, and tell draining ones; returns whether any became idle.

    Any message of a source means again what the source said of every slice that it has named. Idle time of slices in `anew`
    counts from now: the source was silent, lost some of what it said, or names them for the first time since it restarted.
    """
    slices, usage = changes.get("slices", state.slices), changes.get("usage", state.usage)
    said = {slice_id: usage[slice_id] for slice_id in usage.keys() & named}
    idle = idle_in(said)
    outbox, after, found = list(changes.get("outbox", state.outbox)), dict[str, Slice](), False
    for piece in slices:
        since = was = piece.idle_since
        if piece.id in idle and piece.state.was_ready:
            since = (None if piece.id in anew else was) or at
        elif was is not None and piece.id in named:
            since = None
        if since != was:
            command = None if was and since else _on_idleness(piece, idle=since is not None)
            outbox += [] if command is None else [command]
            empty = piece.confirmed_empty or isinstance(command, ConfirmEmptyCommand)
            after[piece.id] = piece.changed(idle_since=since, confirmed_empty=empty)
            found = found or since is not None
        if piece.id in said:
            known = after.get(piece.id, piece)
            judged = _degraded(known, usage, at)
            if judged is not known:
                after[piece.id] = judged
    if after:
        changes["slices"], changes["outbox"] = tuple(after.get(piece.id, piece) for piece in slices), tuple(outbox)
    return found


def after_withdrawal(slices: Sequence[Slice], usage: Mapping[str, SliceUsage], at: datetime) -> tuple[Slice, ...]:
    """The slices after a source is gone: none is degraded of which no other says so, nor idle if no other has named it."""
    found = (_degraded(piece, usage, at) for piece in slices)
    return tuple(piece if piece.id in usage or piece.idle_since is None else piece.changed(idle_since=None) for piece in found)


def _degraded(piece: Slice, usage: Mapping[str, SliceUsage], at: datetime) -> Slice:
    """The slice with the time since which one of its hosts is degraded."""
    is_degraded = any(host.state is HostState.DEGRADED for host in usage.get(piece.id, ()))
    if is_degraded is (piece.degraded_since is not None):
        return piece
    return piece.changed(degraded_since=at if is_degraded else None)


def _on_idleness(piece: Slice, *, idle: bool) -> SliceCommand | None:
    """What a draining slice must know of news about its hosts. A drain that ends with a deletion anyway ends now."""
    if not piece.drains or piece.confirmed_empty:
        return None
    if idle and piece.drain is not None and piece.drain.force:
        return _to_confirm(piece)
    return IdleCommand(slice_id=piece.id, idle=idle, number=number_of(piece))


def closing_terms(state: AutoscalerState, piece: Slice, number: int, at: datetime) -> DrainTerms:
    """The drain of a slice of a cluster that is deleted: the one under way, if it is for that, else one with this number."""
    if piece.drain is not None and piece.drain.force and piece.drain.cause == CLOSING:
        return piece.drain
    return DrainTerms(cause=CLOSING, force=True, number=number, deadline=drain_deadline(state, piece, at))


def to_close(slice_id: str, terms: DrainTerms, *, by_force: bool) -> SliceCommand:
    """The command to a slice of a cluster that is deleted."""
    return DeleteCommand(slice_id=slice_id, cause=CLOSING) if by_force else DrainCommand(slice_id=slice_id, terms=terms)


def closed(state: AutoscalerState, event: Closed) -> Changes:
    """Drain every slice, or delete it at once if forced. Demand, usage and standing requests are dropped.

    Sources are known for the stamps of their messages, and no longer for the slices that they had named: their words are gone.
    """
    first, at = state.drains_ordered + 1, event.at
    terms = [closing_terms(state, piece, number, at) for number, piece in enumerate(state.slices, first)]
    drained = list(zip(state.slices, terms, strict=True))
    return {
        "closing": True,
        "closing_by_force": event.force or state.closing_by_force,
        "paused": None,
        "slices": tuple(piece if piece.drain is each else _draining(piece, each) for piece, each in drained),
        "outbox": (*state.outbox, *(to_close(piece.id, each, by_force=event.force) for piece, each in drained)),
        "drains_ordered": state.drains_ordered + len(drained),
        "demand": {},
        "usage": {},
        "usage_sources": {name: source.without(set(source.named)) for name, source in state.usage_sources.items()},
        "standing": {},
        "pressure": {},
    }


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    CommandsSent: commands_sent,
    DrainOrdered: drain_ordered,
    DrainCancelled: drain_cancelled,
    DrainsConfirmed: drains_confirmed,
    Closed: closed,
}
