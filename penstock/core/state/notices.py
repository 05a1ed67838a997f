"""Drains for notices of the cloud: which orders for them are carried out."""

from datetime import datetime

from penstock.model.decision import Drain
from penstock.model.slices import DrainCause, DrainTerms, Slice


def follows_notice(piece: Slice, drain: Drain, at: datetime) -> bool:
    """Whether a drain for a notice begins: the notice still stands, and the slice neither drains by force nor is known empty.

    One that drains for it already follows a notice that was moved.
    """
    if piece.notice is None or piece.confirmed_empty:
        return False
    if piece.drain is None:
        return piece.state.serves
    if not piece.state.live:
        return False
    return _moves(piece.drain, drain, at) if piece.drain.known_cause is DrainCause.NOTICE else not piece.drain.force


def _moves(terms: DrainTerms, drain: Drain, at: datetime) -> bool:
    """Whether the order gives a drain another deadline. Of moments that have passed, only the first counts."""
    if drain.deadline is None or drain.deadline == terms.deadline:
        return False
    return drain.deadline > at or terms.deadline is None or terms.deadline > at
