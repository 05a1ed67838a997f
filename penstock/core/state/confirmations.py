"""Confirmations of drains: whether one comes too late for its drain, or too early for what the ledger knows."""

from penstock.contract.messages import Confirmation
from penstock.contract.problems import LONGEST_NAME, shortened
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import SliceState


def lateness(state: AutoscalerState, one: Confirmation) -> str | None:
    """What is wrong with a confirmation of a drain that is over; None if it is not."""
    piece = state.by_id.get(one.slice_id)
    if piece is None or one.number is None or piece.state is SliceState.DELETING or is_not_known_yet(state, one):
        return None
    drain, slice_id = f"drain {one.number}", repr(shortened(one.slice_id, LONGEST_NAME))
    if piece.drain is None:
        return None if piece.drains else f"{drain} of {slice_id} is over, and the slice serves again"
    if one.number == piece.drain.number:
        return None
    if one.number < piece.drain.number:
        return f"{drain} of {slice_id} is over, and drain {piece.drain.number} is under way; confirm that one once it is empty"
    return f"there is no {drain} of {slice_id} yet; the status lists the drains under way"


def is_not_known_yet(state: AutoscalerState, one: Confirmation) -> bool:
    """Whether a recovery may still find the drain, or the slice."""
    if state.recovery is None:
        return False
    piece = state.by_id.get(one.slice_id)
    known = -1 if piece is None or piece.drain is None else piece.drain.number
    return piece is None or (one.number is not None and one.number > known)
