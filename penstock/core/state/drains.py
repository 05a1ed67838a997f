"""Drains: their orders, cancellation and confirmation, the deletion of a cluster, and the commands that slices receive."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any

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
from penstock.core.state.state import AutoscalerState, Changes
from penstock.model.cluster import DEFAULT_DRAIN_SECONDS
from penstock.model.decision import Drain
from penstock.model.slices import DrainTerms, Slice, SliceState, SliceUsage

CLOSING = "the cluster is deleted"
"""The cause of the drains of a cluster that is deleted."""
TO_CLOSE = DrainTerms(cause=CLOSING, force=True)


def commands_sent(state: AutoscalerState, event: CommandsSent) -> Changes:
    """Remove delivered commands. Others may have been added, or dropped with their slices, since they were sent."""
    left = list(state.outbox)
    for command in event.commands:
        if command in left:
            left.remove(command)
    return {"outbox": tuple(left)}


def carried_out(state: AutoscalerState, orders: Orders, at: datetime) -> Changes:
    """Begin and cancel the drains of a decision, and note since when slices on their way are not needed.

    A drain is dropped if its slice is not what the decision saw: it drains already, or was not idle all the time since.
    """
    wanted = {drain.slice_id: drain for drain in orders.drains}
    cancelled, unneeded = set(orders.cancelled_drains), set(orders.unneeded)
    slices, outbox, number = [], list(state.outbox), state.drains_ordered
    for piece in state.slices:
        drain = wanted.get(piece.id)
        if drain is not None and _is_still_due(piece, drain):
            number += 1
            deadline = drain_deadline(state, piece, at)
            terms = DrainTerms(cause=drain.cause, force=drain.force, number=number, deadline=deadline)
            piece = _draining(piece, terms)
            outbox.append(DrainCommand(slice_id=piece.id, terms=terms))
        elif piece.id in cancelled and piece.reclaimable:
            piece = returning(piece)
            outbox.append(CancelDrainCommand(slice_id=piece.id))
        since = (piece.unneeded_since or at) if piece.id in unneeded else None
        slices.append(piece if piece.unneeded_since == since else piece.changed(unneeded_since=since))
    return {"slices": tuple(slices), "outbox": tuple(outbox), "drains_ordered": number}


def _is_still_due(piece: Slice, drain: Drain) -> bool:
    return piece.drain is None and piece.state.serves and (drain.idle_since is None or drain.idle_since == piece.idle_since)


def drain_deadline(state: AutoscalerState, piece: Slice, at: datetime) -> datetime:
    """When a drain that begins now ends at the latest, by the configuration of this moment."""
    group = state.config.group(piece.group) if state.config else None
    seconds = DEFAULT_DRAIN_SECONDS if group is None else group.timeouts.drain_seconds
    return at + timedelta(seconds=seconds)


def _draining(piece: Slice, terms: DrainTerms) -> Slice:
    """The slice with a drain. Idle reports count from now on: one from before says nothing about work that came meanwhile."""
    return piece.changed(drain=terms, idle_since=None, confirmed_empty=False, returning=False)


def returning(piece: Slice) -> Slice:
    """The slice after its drain was cancelled: it serves as soon as it has heard so."""
    return piece.changed(drain=None, idle_since=None, returning=piece.state.was_ready)


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
    return {
        "slices": tuple(returning(piece) if piece.id == event.slice_id else piece for piece in state.slices),
        "outbox": (*state.outbox, CancelDrainCommand(slice_id=event.slice_id)),
    }


def drains_confirmed(state: AutoscalerState, event: DrainsConfirmed) -> Changes:
    """Draining slices that are empty receive the confirmation; their drains can no longer be cancelled."""
    draining = awaiting_confirmation(state)
    empty = {slice_id for slice_id in event.slice_ids if slice_id in draining}
    return confirmed(state, empty)


def confirmed(state: AutoscalerState, slice_ids: AbstractSet[str]) -> Changes:
    """The slices are empty: they are deleted."""
    return {
        "slices": tuple(p.changed(confirmed_empty=True) if p.id in slice_ids else p for p in state.slices),
        "outbox": (*state.outbox, *(ConfirmEmptyCommand(slice_id=slice_id) for slice_id in sorted(slice_ids))),
    }


def after_usage(state: AutoscalerState, changes: Changes, named: AbstractSet[str], at: datetime, *, anew: bool) -> bool:
    """Note since when each of the named slices is idle, and tell draining ones; returns whether any became idle.

    Any message of a source means again what the source said of every slice that it has named. `anew` if it was silent, restarted
    or lost some of it: idle time counts from now.
    """
    slices, outbox, found = [], list(changes.get("outbox", state.outbox)), False
    usage = changes.get("usage", state.usage)
    for piece in changes.get("slices", state.slices):
        since = piece.idle_since
        if piece.id in named:
            since = (None if anew else since) or at if _is_idle(piece, usage) else None
        if since != piece.idle_since:
            command = None if piece.idle_since and since else _on_idleness(piece, idle=since is not None)
            outbox += [] if command is None else [command]
            found = found or since is not None
            piece = piece.changed(idle_since=since, confirmed_empty=piece.confirmed_empty or _is_empty(command))
        slices.append(piece)
    changes["slices"], changes["outbox"] = tuple(slices), tuple(outbox)
    return found


def _is_idle(piece: Slice, usage: Mapping[str, SliceUsage]) -> bool:
    hosts = usage.get(piece.id)
    return bool(hosts) and piece.state.was_ready and all(host.idle for host in hosts or ())


def _is_empty(command: SliceCommand | None) -> bool:
    return isinstance(command, ConfirmEmptyCommand)


def _on_idleness(piece: Slice, *, idle: bool) -> SliceCommand | None:
    """What a draining slice must know of news about its hosts. A drain that ends with a deletion anyway ends now."""
    if not piece.drains or piece.confirmed_empty:
        return None
    if idle and piece.drain is not None and piece.drain.force:
        return ConfirmEmptyCommand(slice_id=piece.id)
    return IdleCommand(slice_id=piece.id, idle=idle)


def awaiting_confirmation(state: AutoscalerState) -> set[str]:
    """Slices that drain, or have been ordered to, and have not been confirmed empty."""
    leaving = (piece for piece in state.slices if piece.drains and piece.state is not SliceState.DELETING)
    return {piece.id for piece in leaving if not piece.confirmed_empty}


def to_close(slice_id: str, *, by_force: bool) -> SliceCommand:
    """The command to a slice of a cluster that is deleted."""
    if by_force:
        return DeleteCommand(slice_id=slice_id, cause=CLOSING)
    return DrainCommand(slice_id=slice_id, terms=TO_CLOSE)


def closed(state: AutoscalerState, event: Closed) -> Changes:
    """Drain every slice, or delete it at once if forced. Demand, usage and standing requests are dropped."""
    ids = [piece.id for piece in state.slices]
    return {
        "closing": True,
        "closing_by_force": event.force or state.closing_by_force,
        "paused": None,
        "slices": tuple(_draining(piece, TO_CLOSE) for piece in state.slices),
        "outbox": (*state.outbox, *(to_close(slice_id, by_force=event.force) for slice_id in ids)),
        "demand": {},
        "usage": {},
        "standing": {},
    }


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    CommandsSent: commands_sent,
    DrainOrdered: drain_ordered,
    DrainCancelled: drain_cancelled,
    DrainsConfirmed: drains_confirmed,
    Closed: closed,
}
