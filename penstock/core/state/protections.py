"""Protections of slices: what operators ordered, kept beside the ledger so that it outlives a recovery of that."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from penstock.core.decision.protections import is_protected
from penstock.core.state.events import SliceCordoned, SliceKept
from penstock.core.state.state import AutoscalerState, Changes
from penstock.model.protection import Protection
from penstock.model.slices import Slice
from penstock.model.units import Moment

MOST_PROTECTED = 500
"""Slices that may be kept or cordoned at a time: 60 kB of the carried state."""


def slice_kept(state: AutoscalerState, event: SliceKept) -> Changes:
    """Keep the slice until the moment, or no longer."""
    before = state.protections.get(event.slice_id, Protection())
    return _protected(state, event.slice_id, before.model_copy(update={"kept_until": event.until}), event.at)


def slice_cordoned(state: AutoscalerState, event: SliceCordoned) -> Changes:
    """Take the slice out of placing, or put it back."""
    before = state.protections.get(event.slice_id, Protection())
    return _protected(state, event.slice_id, before.model_copy(update={"cordoned": event.cordoned}), event.at)


def _protected(state: AutoscalerState, slice_id: str, wanted: Protection, at: Moment) -> Changes:
    """All protections in force, with this one replaced. Nothing changes for a slice that is gone, or beyond the limit."""
    if slice_id not in state.by_id or (wanted.holds(at) and not has_room_for(state, slice_id, at)):
        return {"matters": False}
    found = {**state.protections, slice_id: wanted}
    return {"protections": {name: protection for name, protection in found.items() if protection.holds(at)}}


def has_room_for(state: AutoscalerState, slice_id: str, at: Moment) -> bool:
    """Whether one more slice may be protected, or this one is already."""
    held = {name for name, protection in state.protections.items() if protection.holds(at)}
    return slice_id in held or len(held) < MOST_PROTECTED


def slices_with_protections(state: AutoscalerState) -> tuple[Slice, ...]:
    """The ledger, with what operators ordered for its slices."""
    if not state.protections:
        return state.slices
    return tuple(with_protection(state, piece) for piece in state.slices)


def with_protection(state: AutoscalerState, piece: Slice) -> Slice:
    """The slice with what an operator ordered for it."""
    found = state.protections.get(piece.id)
    if found is None or not found.holds(state.now):
        return piece
    return piece.changed(kept_until=found.kept_until, cordoned=found.cordoned)


def protected_now(state: AutoscalerState, piece: Slice, at: Moment) -> bool:
    """Whether a drain that was decided before may no longer begin: the slice was protected meanwhile."""
    return is_protected(with_protection(state, piece), state.usage.get(piece.id, ()), at)


def of_known(protections: Mapping[str, Protection], known: AbstractSet[str]) -> dict[str, Protection]:
    """The protections of slices that exist."""
    return {name: protection for name, protection in protections.items() if name in known}


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    SliceKept: slice_kept,
    SliceCordoned: slice_cordoned,
}
