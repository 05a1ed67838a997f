"""Silent sources of usage, and the idle slices that stay only because nothing drains on a stale word."""

from datetime import datetime, timedelta
from itertools import chain

from penstock.contract.cost import Use
from penstock.core.decision.protections import held_after_stockout, is_protected
from penstock.core.state.protections import with_protection
from penstock.core.state.sources import stale_since
from penstock.core.state.spending import use_of
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleDown
from penstock.model.elasticity import Drive
from penstock.model.slices import Slice
from penstock.model.snapshot import Snapshot


def kept_by_silence(state: AutoscalerState, now: datetime) -> dict[str, tuple[Slice, ...]]:
    """By stale source, the slices that would have gone by now if it were heard of and repeated its word.

    These are idle by the last word on them, and their groups have more than the last decision wanted. Among them are slices that
    drained before the source was stale, and serve again because nobody confirmed that they are empty.
    """
    config = state.config
    stale = [name for name in sorted(state.usage_sources) if stale_since(state, name, now) is not None]
    if not stale or config is None or config.scale_down is ScaleDown.OBSERVE:
        return {}
    named = frozenset(chain.from_iterable(state.usage_sources[name].named for name in stale))
    idle: dict[str, list[Slice]] = {}
    for piece in state.slices:
        if piece.id in named and _is_idle(state, piece) and not _is_kept(state, config, piece, now):
            idle.setdefault(piece.group, []).append(piece)
    due = {piece.id: piece for name, pieces in idle.items() for piece in pieces[: _spare(state, config, name)]}
    return {name: tuple(due[slice_id] for slice_id in state.usage_sources[name].named if slice_id in due) for name in stale}


def _is_idle(state: AutoscalerState, piece: Slice) -> bool:
    return use_of(piece, state.usage, state.idle_slices) is Use.IDLE


def _is_kept(state: AutoscalerState, config: ClusterConfig, piece: Slice, now: datetime) -> bool:
    """Whether something else keeps the slice: its timeout, an operator, its controller, a stockout of its group."""
    group = config.group(piece.group)
    if group is not None and group.drive is Drive.PRESSURE:
        return True  # Its drains do not depend on usage.
    facts = group or piece.left
    if facts and piece.idle_since and piece.idle_since + timedelta(seconds=facts.idle_timeout_seconds) > now:
        return True
    if is_protected(with_protection(state, piece), state.usage.get(piece.id, ()), now):
        return True
    snapshot = Snapshot.model_construct(config=config, now=now, stockouts=state.stockouts)
    return group is not None and held_after_stockout(snapshot, group) is not None


def _spare(state: AutoscalerState, config: ClusterConfig, name: str) -> int | None:
    """How many slices a group can spare; of a removed group, all."""
    if config.group(name) is None:
        return None
    figures = state.orders.figures.get(name) if state.orders else None
    return figures.spare if figures else 0
