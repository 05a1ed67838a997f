"""What a page of slices says beside each: why it stays or goes in a few words, its age, its price."""

from collections.abc import Sequence

from penstock.contract.names import ordered_at
from penstock.contract.slice_answers import AboutSlice
from penstock.core.answers.snapshot import SnapshotWithIds
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.keeping import kept_of
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision, Kept
from penstock.model.slices import Slice


def about_slices(
    state: AutoscalerState, slices: Sequence[Slice], made: tuple[SnapshotWithIds, Decision] | None
) -> dict[str, AboutSlice]:
    """By slice id. `made` is a decision on the slices; without one, only what the state alone says."""
    ids = {piece.id for piece in slices}
    kept = {each.slice_id: each for each in kept_of(made[0].snapshot, made[1], ids)} if made is not None else {}
    going = {drain.slice_id: drain.cause for drain in made[1].drains} if made is not None else {}
    prices = {group.name: group.price_per_hour for group in state.config.groups} if state.config else {}
    return {piece.id: _about(piece, kept.get(piece.id), going.get(piece.id), prices) for piece in slices}


def _about(piece: Slice, kept: Kept | None, cause: str | None, prices: dict[str, float | None]) -> AboutSlice:
    cause = piece.drain.cause if piece.drain is not None else cause
    stays = kept is not None and not is_leaving(piece)
    left = piece.left.price_per_hour if piece.left is not None else None
    return AboutSlice(
        why=_brief(kept) if kept is not None and stays else f"goes: {cause}" if cause else "goes" if is_leaving(piece) else "",
        goes_at=kept.until if kept is not None and stays else None,
        ordered_at=ordered_at(piece.id) or piece.created_at,
        price_per_hour=prices.get(piece.group, left),
    )


def _brief(kept: Kept) -> str:
    first, *others = (reason.code.words for reason in kept.reasons)
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else first
