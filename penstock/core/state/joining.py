"""Whether READY slices join their controller: a source names them, or keeps reporting usage without them."""

from collections.abc import Collection
from datetime import datetime, timedelta

from penstock.contract.answers import RecentFailure
from penstock.core.state.blocks import after_failure, after_joined
from penstock.core.state.drains import returning, to_cancel
from penstock.core.state.ledger import KEPT_FAILURES
from penstock.core.state.state import AutoscalerState, Block, Changes, UsageSource
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import DrainCause, Slice, SliceState

_NOT_JOINED = Failure(kind=FailureKind.UNCLAIMED, message="READY, and the controller reports usage without naming it")


def name_slices(state: AutoscalerState, changes: Changes, source: str, named: Collection[str]) -> None:
    """Note that a source named slices: they joined, also if they counted as unclaimed, and even if they drain for that."""
    joined = [state.by_id[name] for name in named if name in state.by_id]
    _remember_groups(changes, source, joined)
    news = {piece.id: piece for piece in joined if not piece.joined or piece.unclaimed is not None}
    if not news:
        return
    kept = {piece.id for piece in news.values() if _drains_unclaimed(piece)}
    changes["slices"] = tuple(_joined(piece, kept) if piece.id in news else piece for piece in state.slices)
    changes["outbox"] += tuple(to_cancel(state.by_id[slice_id]) for slice_id in sorted(kept))
    blocks = state.blocks
    for piece in news.values() if blocks else ():
        blocks = after_joined(blocks, piece)
    changes["blocks"] = blocks


def _joined(piece: Slice, kept: Collection[str]) -> Slice:
    joined = piece.changed(joined=True, unnamed=None, unclaimed=None)
    return returning(joined) if piece.id in kept else joined


def _remember_groups(changes: Changes, source: str, joined: Collection[Slice]) -> None:
    known = changes["usage_sources"].get(source, UsageSource())
    new = {piece.group for piece in joined} - set(known.groups)
    if new:
        groups = tuple(sorted({*known.groups, *new}))
        changes["usage_sources"] = {**changes["usage_sources"], source: known.model_copy(update={"groups": groups})}


def _drains_unclaimed(piece: Slice) -> bool:
    return piece.drain is not None and piece.drain.cause == DrainCause.UNCLAIMED and piece.state is not SliceState.DELETING


def find_unclaimed(state: AutoscalerState, changes: Changes, name: str) -> bool:
    """Mark the slices that the source should have named by now; returns whether any. Each counts once as a failure of its group.

    The time counts from the first report without the slice: before, as while no worker ran, nobody could know of it.
    """
    config, source = state.config, changes["usage_sources"].get(name)
    if config is None or source is None or not source.has_reported or source.resync_needed or state.recovery is not None:
        return False
    slices = changes.get("slices", state.slices)
    unnamed = [piece for piece in slices if piece.id not in changes["usage"] and _should_be_named(piece, name, source)]
    grace = timedelta(seconds=config.ready_grace_seconds)
    marks = {piece.id: _marked(piece, source, grace) for piece in unnamed}
    if not any(marks.values()):
        return False
    changes["slices"] = tuple(marks.get(piece.id) or piece for piece in slices)
    found = [piece for piece in unnamed if (after := marks[piece.id]) is not None and after.unclaimed is not None]
    changes["recent_failures"] = (
        *state.recent_failures,
        *(RecentFailure(at=source.at, group=piece.group, slice_id=piece.id, failure=_NOT_JOINED) for piece in found),
    )[-KEPT_FAILURES:]
    for piece in found:
        changes["blocks"] = _blocked(state, changes, config, piece, source.at)
    return bool(found)


def _should_be_named(piece: Slice, name: str, source: UsageSource) -> bool:
    """Whether the slice waits for its first report, and the source knows slices like it."""
    waits = piece.state is SliceState.READY and not (piece.joined or piece.drains or piece.unclaimed)
    return waits and (piece.source == name or piece.group in source.groups)


def _marked(piece: Slice, source: UsageSource, grace: timedelta) -> Slice | None:
    """The slice after a report without it; None if that changes nothing."""
    if piece.unnamed is None:
        return piece.changed(unnamed=source.at)
    since = max(piece.unnamed, source.began or source.at)
    return piece.changed(unclaimed=source.at) if source.at - since > grace else None


def _blocked(state: AutoscalerState, changes: Changes, config: ClusterConfig, piece: Slice, at: datetime) -> tuple[Block, ...]:
    """The blocks after the failure; the group of the slice may be configured no longer."""
    blocks, group = changes.get("blocks", state.blocks), config.group(piece.group)
    if group is None:
        return blocks
    since = piece.since or at
    return after_failure(blocks, _NOT_JOINED, group, at=at, ordered_at=since, age=at - since, backoff=config.backoff)
