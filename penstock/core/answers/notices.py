"""What clouds announce for the slices of a cluster, for the status."""

from typing import Any

from penstock.contract.slice_answers import NoticeStatus
from penstock.core.state.state import AutoscalerState

MOST_NOTICES = 200
"""Notices that the status lists: 30 kB. A cloud may announce maintenance for a whole zone at once."""


def notices_of(state: AutoscalerState) -> dict[str, Any]:
    """The first notices of slices that are not deleted yet, the soonest first, and how many there are."""
    found = [
        NoticeStatus(slice_id=piece.id, group=piece.group, kind=piece.notice.kind, until=piece.notice.until)
        for piece in state.slices
        if piece.notice is not None and piece.state.live
    ]
    found.sort(key=lambda notice: (notice.until, notice.slice_id))
    return {"notices": tuple(found[:MOST_NOTICES]), "notices_in_all": len(found)}
