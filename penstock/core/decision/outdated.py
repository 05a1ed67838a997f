"""Why a slice is to be replaced: the cloud gives notice, a host is degraded, it is too old, or its group changed since."""

from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.core.decision.heads import made_at
from penstock.model.cluster import ScaleGroup
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.model.units import format_seconds


class Reason(NamedTuple):
    """Why a slice is to be replaced; `deadline` is set by a notice."""

    cause: DrainCause
    detail: str = ""
    deadline: datetime | None = None


class Outdated(NamedTuple):
    """Why a slice is to be replaced now, if it is, and when time alone makes it so."""

    reason: Reason | None
    moments: tuple[datetime, ...] = ()


def notice_of(piece: Slice, now: datetime) -> Reason | None:
    """The cloud's notice, unless the slice leaves for it already, is deleted at its deadline anyway, or is known to be empty."""
    if piece.notice is None or not piece.state.live or piece.confirmed_empty or _follows(piece, piece.notice.until, now):
        return None
    what = piece.notice.kind.replace("_", " ")
    return Reason(DrainCause.NOTICE, f"{what} at {piece.notice.until:%Y-%m-%d %H:%M:%S}Z", piece.notice.until)


def _follows(piece: Slice, until: datetime, now: datetime) -> bool:
    """Whether the drain of a slice needs no other deadline. A notice that was moved gives it one; of past ones only the first."""
    if piece.drain is None:
        return False
    ends = piece.drain.deadline
    if piece.drain.known_cause is not DrainCause.NOTICE:
        return piece.drain.force
    return ends == until or (until <= now and ends is not None and ends <= now)


def outdated(now: datetime, group: ScaleGroup, piece: Slice, fingerprint: str) -> Outdated:
    """Whether a READY slice that does not drain is degraded, too old or drifted: the first of them that holds.

    `fingerprint` is what its group makes slices with now; empty if slices that drifted stay.
    """
    if piece.state is not SliceState.READY or piece.drain is not None or piece.returning:
        return Outdated(None)
    moments = []
    for found, end in (_degraded(group, piece), _expired(group, piece)):
        if found is not None and end is not None and end <= now:
            return Outdated(found)
        moments += [] if end is None else [end]
    if fingerprint and piece.fingerprint not in ("", fingerprint):
        detail = f"made with {piece.fingerprint}, its group has {fingerprint}"
        return Outdated(Reason(DrainCause.DRIFT, detail), tuple(moments))
    return Outdated(None, tuple(moments))


def _degraded(group: ScaleGroup, piece: Slice) -> tuple[Reason | None, datetime | None]:
    if piece.degraded_since is None:
        return None, None
    detail = f"since {piece.degraded_since:%Y-%m-%d %H:%M:%S}Z"
    return Reason(DrainCause.DEGRADED, detail), piece.degraded_since + timedelta(seconds=group.degraded_after_seconds)


def _expired(group: ScaleGroup, piece: Slice) -> tuple[Reason | None, datetime | None]:
    made = made_at(piece)
    if group.max_age_seconds is None or made is None:
        return None, None
    detail = f"older than {format_seconds(group.max_age_seconds)}"
    return Reason(DrainCause.EXPIRY, detail), made + timedelta(seconds=group.max_age_seconds)
