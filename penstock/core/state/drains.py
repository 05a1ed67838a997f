"""How slices are told to go: drains, their ends, the closing of a cluster, and the commands that say so."""

from collections.abc import Callable
from typing import Any

from penstock.contract.slices import CancelDrainCommand, ConfirmEmptyCommand, DeleteCommand, DrainCommand, SliceCommand
from penstock.core.state.events import Closed, CommandsSent, DrainCancelled, DrainOrdered, DrainsConfirmed
from penstock.core.state.state import AutoscalerState, Changes, without
from penstock.model.slices import DrainTerms, SliceState

CLOSING = "the cluster is deleted"
"""Why slices drain when a cluster is given up."""
TO_CLOSE = DrainTerms(cause=CLOSING, force=True)


def commands_sent(state: AutoscalerState, event: CommandsSent) -> Changes:
    """Delivered commands are gone; others may have been written, or dropped with their slices, in the meantime."""
    left = list(state.outbox)
    for command in event.commands:
        if command in left:
            left.remove(command)
    return {"outbox": tuple(left)}


def drain_ordered(state: AutoscalerState, event: DrainOrdered) -> Changes:
    """The slice is no capacity from now on; it is told. A drain by force stays one until it is cancelled."""
    if all(piece.id != event.slice_id for piece in state.slices):
        return {"matters": False}
    before = state.drains.get(event.slice_id)
    terms = before if before is not None and before.force else event.terms
    return {
        "drains": {**state.drains, event.slice_id: terms},
        "outbox": (*state.outbox, DrainCommand(slice_id=event.slice_id, terms=terms)),
    }


def drain_cancelled(state: AutoscalerState, event: DrainCancelled) -> Changes:
    """The slice is told to serve again; it is capacity once it says so."""
    return {
        "drains": without(state.drains, {event.slice_id}),
        "outbox": (*state.outbox, CancelDrainCommand(slice_id=event.slice_id)),
    }


def drains_confirmed(state: AutoscalerState, event: DrainsConfirmed) -> Changes:
    """Draining slices that are empty are told so."""
    draining = awaiting_confirmation(state)
    told = tuple(ConfirmEmptyCommand(slice_id=slice_id) for slice_id in dict.fromkeys(event.slice_ids) if slice_id in draining)
    return {"outbox": (*state.outbox, *told)}


def awaiting_confirmation(state: AutoscalerState) -> set[str]:
    """Slices that drain, or have been ordered to, and are not told yet that they are empty."""
    told = confirmed_empty(state)
    leaving = (piece for piece in state.slices if piece.id in state.drains or piece.state is SliceState.DRAINING)
    return {piece.id for piece in leaving if piece.state is not SliceState.DELETING and piece.id not in told}


def confirmed_empty(state: AutoscalerState) -> set[str]:
    """Slices to which a command is on its way that says so: nothing calls them back."""
    return {command.slice_id for command in state.outbox if isinstance(command, ConfirmEmptyCommand)}


def closed(state: AutoscalerState, event: Closed) -> Changes:
    """Everything goes: emptied first, or at once if forced. What was wanted and what ran is not carried on."""
    ids = [piece.id for piece in state.slices]
    commands: list[SliceCommand] = [DrainCommand(slice_id=slice_id, terms=TO_CLOSE) for slice_id in ids]
    if event.force:
        commands = [DeleteCommand(slice_id=slice_id, cause=CLOSING) for slice_id in ids]
    drains = dict.fromkeys(ids, TO_CLOSE)
    return {
        "closing": True,
        "paused": None,
        "drains": drains,
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
