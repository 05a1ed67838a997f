"""Who holds the chips of an exhausted pool, and which of its slices would free some."""

from collections.abc import Sequence

from penstock.core.decision.fleet import Fleet, is_leaving
from penstock.core.decision.headroom import Headroom
from penstock.model.cluster import Pool, ScaleGroup
from penstock.model.slices import Slice, SliceState
from penstock.wording import counted, listed

_NAMED = 3
"""Holders named in the sentence, the largest first."""


def pool_holders(fleet: Fleet, group: ScaleGroup, headroom: Headroom, idle: Sequence[Slice]) -> str:
    """A clause such as `pool p of 16 chips: system 4, a 8 (2 slices), 4 on order; idle slice a-1 would free 4`."""
    pool = next(pool for pool in fleet.snapshot.config.pools if pool.name == group.pool)
    held = _held(fleet, pool)
    ordered = headroom.ordered(pool.name)
    largest = sorted(held, key=lambda name: (-held[name][0], name))
    names = [f"{name} {held[name][0]} ({counted(held[name][1], 'slice')})" for name in largest]
    parts = ([f"system {pool.system}"] if pool.system else []) + ([f"{ordered} ordered by this decision"] if ordered else [])
    holders = ", ".join([*parts, *([listed(names, _NAMED)] if names else [])]) or "nobody"
    return f"pool {pool.name} of {counted(pool.chips, 'chip')}: {holders}{_freeing(fleet, pool, idle, largest)}"


def _held(fleet: Fleet, pool: Pool) -> dict[str, tuple[int, int]]:
    """Chips and slices of the pool by group, removed groups included."""
    held: dict[str, tuple[int, int]] = {}
    for piece in fleet.snapshot.slices:
        chips = _chips(fleet, pool, piece)
        if chips:
            before = held.get(piece.group, (0, 0))
            held[piece.group] = (before[0] + chips, before[1] + 1)
    return held


def _chips(fleet: Fleet, pool: Pool, piece: Slice) -> int:
    """Chips of the pool that the slice is charged for."""
    g = fleet.number.get(piece.group)
    if g is None:
        return piece.left.chips if piece.left is not None and piece.left.pool == pool.name else 0
    return fleet.groups[g].chips_per_slice if fleet.groups[g].pool == pool.name else 0


def _freeing(fleet: Fleet, pool: Pool, idle: Sequence[Slice], largest: Sequence[str]) -> str:
    """The slice that would free chips: one that is leaving, else an idle one, else the oldest READY one of the largest holder."""
    leaving = [piece for piece in fleet.snapshot.slices if is_leaving(piece) and _chips(fleet, pool, piece)]
    if leaving:
        return f"; slice {leaving[0].id} is leaving and frees {_chips(fleet, pool, leaving[0])}"
    unused = [piece for piece in idle if _chips(fleet, pool, piece)]
    if unused:
        return f"; idle slice {unused[0].id} would free {_chips(fleet, pool, unused[0])}"
    running = [piece for piece in fleet.snapshot.slices if piece.group in largest[:1] and piece.state is SliceState.READY]
    known = [piece for piece in running if piece.since is not None]
    oldest = min(known, key=lambda piece: (piece.since, piece.id), default=None)
    return f"; none is idle, {largest[0]} holds most, longest {oldest.id}" if oldest is not None else ""
