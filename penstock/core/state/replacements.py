"""Drains of slices that are replaced: whether their work still has a place to go when the order is carried out."""

from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainCause, Slice, SliceState, SliceUsage

REPLACED_FIRST = (DrainCause.DEGRADED, DrainCause.EXPIRY, DrainCause.DRIFT, DrainCause.RETURN_HOME)
"""Causes of drains that wait for a replacement, unless the slice is idle."""


def has_place_to_go(state: AutoscalerState, piece: Slice, usage: SliceUsage) -> bool:
    """Whether nothing runs on a slice, or its replacement is READY: that may have been lost since the decision."""
    if usage and all(host.idle for host in usage):
        return True
    return any(each.replaces == piece.id and each.state is SliceState.READY and each.drain is None for each in state.slices)
