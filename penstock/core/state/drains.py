"""Drains: their orders, cancellation and confirmation, the deletion of a cluster, and the commands that slices receive."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.contract.slices import CancelDrainCommand, ConfirmEmptyCommand, DeleteCommand, DrainCommand, SliceCommand
from penstock.core.state.events import Closed, CommandsSent, DrainCancelled, DrainOrdered, DrainsConfirmed
from penstock.core.state.state import AutoscalerState, Changes
from penstock.model.slices import DrainTerms, Slice, SliceState

CLOSING = "the cluster is deleted"
"""The cause of the drains of a cluster that is deleted."""
TO_CLOSE = DrainTerms(cause=CLOSING, force=True)


def with_drains(slices: Iterable[Slice], drains: Mapping[str, DrainTerms | None]) -> tuple[Slice, ...]:
    """The slices with the drain terms in `drains`, by slice id; None ends a drain."""
    return tuple(p.changed(drain=drains[p.id]) if p.id in drains else p for p in slices)


def commands_sent(state: AutoscalerState, event: CommandsSent) -> Changes:
    """Remove delivered commands. Others may have been added, or dropped with their slices, since they were sent."""
    left = list(state.outbox)
    for command in event.commands:
        if command in left:
            left.remove(command)
    return {"outbox": tuple(left)}


def drain_ordered(state: AutoscalerState, event: DrainOrdered) -> Changes:
    """The slice stops counting as capacity and receives the command. A forced drain stays forced until it is cancelled."""
    piece = state.by_id.get(event.slice_id)
    if piece is None:
        return {"matters": False}
    terms = piece.drain if piece.drain is not None and piece.drain.force else event.terms
    return {
        "slices": with_drains(state.slices, {piece.id: terms}),
        "outbox": (*state.outbox, DrainCommand(slice_id=piece.id, terms=terms)),
    }


def drain_cancelled(state: AutoscalerState, event: DrainCancelled) -> Changes:
    """The slice receives the command to serve again; it is capacity once it reports READY."""
    return {
        "slices": with_drains(state.slices, {event.slice_id: None}),
        "outbox": (*state.outbox, CancelDrainCommand(slice_id=event.slice_id)),
    }


def drains_confirmed(state: AutoscalerState, event: DrainsConfirmed) -> Changes:
    """Draining slices that are empty receive the confirmation."""
    draining = awaiting_confirmation(state)
    empty = [slice_id for slice_id in dict.fromkeys(event.slice_ids) if slice_id in draining]
    return {"outbox": (*state.outbox, *(ConfirmEmptyCommand(slice_id=slice_id) for slice_id in empty))}


def awaiting_confirmation(state: AutoscalerState) -> set[str]:
    """Slices that drain, or have been ordered to, and have not been confirmed empty."""
    confirmed = confirmed_empty(state)
    leaving = (piece for piece in state.slices if piece.drains and piece.state is not SliceState.DELETING)
    return {piece.id for piece in leaving if piece.id not in confirmed}


def confirmed_empty(state: AutoscalerState) -> set[str]:
    """Slices with an undelivered confirmation: their drains can no longer be cancelled."""
    return {command.slice_id for command in state.outbox if isinstance(command, ConfirmEmptyCommand)}


def closed(state: AutoscalerState, event: Closed) -> Changes:
    """Drain every slice, or delete it at once if forced. Demand, usage and standing requests are dropped."""
    ids = [piece.id for piece in state.slices]
    commands: list[SliceCommand] = [DrainCommand(slice_id=slice_id, terms=TO_CLOSE) for slice_id in ids]
    if event.force:
        commands = [DeleteCommand(slice_id=slice_id, cause=CLOSING) for slice_id in ids]
    return {
        "closing": True,
        "paused": None,
        "slices": with_drains(state.slices, dict.fromkeys(ids, TO_CLOSE)),
        "outbox": (*state.outbox, *commands),
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
