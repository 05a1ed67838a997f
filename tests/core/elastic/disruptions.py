"""What must hold of drains that replace or empty slices, whenever a decision begins them."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from penstock.core.decision.heads import made_at
from penstock.core.decision.protections import is_protected
from penstock.core.state.events import Decided
from penstock.core.state.protections import with_protection
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.decision import Drain
from penstock.model.elasticity import Drive, Window, share_of
from penstock.model.slices import DrainCause, Slice, SliceState

REPLACING = (DrainCause.NOTICE, DrainCause.DEGRADED, DrainCause.EXPIRY, DrainCause.DRIFT, DrainCause.RETURN_HOME)
"""Causes of drains for which a group may launch in the same decision."""

EVERYWHERE = ""
"""Stands for the cluster among the names of groups."""


def is_due(state: AutoscalerState, piece: Slice, group: ScaleGroup, at: datetime, cause: DrainCause) -> bool:
    """Whether a cause to replace a slice holds of it."""
    assert state.config is not None
    match cause:
        case DrainCause.NOTICE:
            return piece.notice is not None
        case DrainCause.DEGRADED:
            return piece.degraded_since is not None and piece.degraded_since + _seconds(group.degraded_after_seconds) <= at
        case DrainCause.EXPIRY:
            made = made_at(piece)
            return group.max_age_seconds is not None and made is not None and made + _seconds(group.max_age_seconds) <= at
        case DrainCause.DRIFT:
            return state.config.replace_drifted and piece.fingerprint not in ("", group.fingerprint)
    return True


def is_disrupted(piece: Slice) -> bool:
    """Whether a drain is under way that counts in the disruption budget."""
    cause = None if piece.drain is None else piece.drain.known_cause
    return cause is not None and cause.voluntary and piece.state.was_ready


def replacements_of(state: AutoscalerState, slice_id: str) -> list[Slice]:
    """The slices that are there to take the place of another."""
    return [each for each in state.slices if each.replaces == slice_id and each.state.serves and each.drain is None]


def judge_disruption(
    decided_on: AutoscalerState, before: AutoscalerState, after: AutoscalerState, drain: Drain, at: datetime
) -> Iterator[str]:
    """What is wrong with a drain that replaces or empties a slice, decided at a moment on one state and begun on another."""
    piece, config = before.by_id[drain.slice_id], before.config
    assert config is not None
    group, cause = config.group(piece.group), DrainCause(drain.cause)
    seen = decided_on.by_id.get(piece.id, piece)
    if cause is DrainCause.NOTICE:
        if piece.notice is None:
            yield "although the cloud announces nothing"
        return
    if group is None:
        yield "although its group is not configured"
        return
    if not is_due(decided_on, seen, group, at, cause):
        yield "although that does not hold of it"
    if is_protected(with_protection(before, piece), before.usage.get(piece.id, ()), at):
        yield "although it is protected"
    if not _are_open(config, group, at):
        yield "outside the window"
    if cause is DrainCause.CONSOLIDATION:
        if config.consolidation is None:
            yield "although nothing is consolidated"
        return
    if cause is DrainCause.RETURN_HOME and config.return_home is None:
        yield "although nothing returns"
    there = (
        before if group.drive is Drive.PRESSURE else after
    )  # If less is desired, replacements drain together with the replaced.
    if not _is_idle(before, piece) and not any(one.state is SliceState.READY for one in replacements_of(there, piece.id)):
        yield "with work on it, and no replacement is READY"


def judge_budget(decided_on: AutoscalerState, before: AutoscalerState, after: AutoscalerState) -> Iterator[str]:
    """Scopes with more disruptions than their budget allows, if a decision began any that waits for it there."""
    config = after.config
    assert config is not None
    begun = [piece for piece in after.slices if _began(before, piece)]
    groups = {group.name: group.max_unavailable for group in config.groups}
    for name, share in {EVERYWHERE: config.max_unavailable, **groups}.items():
        if not any(name in (EVERYWHERE, piece.group) for piece in begun):
            continue
        most = share_of(share, sum(piece.state.was_ready for piece in decided_on.slices if name in (EVERYWHERE, piece.group)))
        found = [piece for piece in after.slices if name in (EVERYWHERE, piece.group) and is_disrupted(piece)]
        returning = sum(piece.drain is not None and piece.drain.known_cause is DrainCause.RETURN_HOME for piece in found)
        if len(found) - max(0, returning - 1) > most:  # One slice returns at a time, or one gang, which counts once.
            causes = dict(Counter(piece.drain.cause for piece in found if piece.drain))
            yield f"{name or 'the cluster'} has {len(found)} disruptions, its budget is {most}: {causes}"


def judge_replacements(before: AutoscalerState, after: AutoscalerState, event: Decided) -> Iterator[str]:
    """Slices that a decision replaces a second time."""
    for launch in event.orders.launches:
        if launch.replaces and launch.slice_id not in before.by_id and launch.slice_id in after.by_id:
            others = [one for one in replacements_of(after, launch.replaces) if not one.is_unclaimed]
            if len(others) > 1:
                yield f"{launch.replaces} is replaced by {', '.join(one.id for one in others)}"


def left_to_replace(state: AutoscalerState) -> Iterator[str]:
    """Idle or busy slices that ought to have been replaced for an hour and still serve."""
    config = state.config
    assert config is not None
    hour_ago = state.now - timedelta(hours=1)
    for piece in state.slices:
        group = config.group(piece.group)
        if group is None or piece.state is not SliceState.READY or piece.drain is not None:
            continue
        causes = [cause for cause in REPLACING if is_due(state, piece, group, hour_ago, cause)]
        if DrainCause.RETURN_HOME in causes:
            causes.remove(DrainCause.RETURN_HOME)
        if not causes or is_protected(with_protection(state, piece), state.usage.get(piece.id, ()), hour_ago):
            continue
        if not (_are_open(config, group, state.now) and _are_open(config, group, hour_ago)):
            continue
        if not share_of(config.max_unavailable, len(state.slices)) or not share_of(group.max_unavailable, 1):
            continue
        if _is_idle(state, piece) and not group.protect_first:
            yield f"{piece.id} is left to be replaced ({causes[0]})"
        elif _has_headroom(state, group):
            yield f"{piece.id} is left to be replaced ({causes[0]}), and its group has headroom"


def _has_headroom(state: AutoscalerState, group: ScaleGroup) -> bool:
    config = state.config
    assert config is not None
    if sum(piece.group == group.name for piece in state.slices) >= group.max_slices:
        return False
    if config.max_slices is not None and len(state.slices) >= config.max_slices:
        return False
    for pool in config.pools:
        chips = {each.name: each.chips_per_slice for each in config.groups if each.pool == pool.name}
        used = sum(chips.get(piece.group, 0) for piece in state.slices)
        if group.pool == pool.name and used + group.chips_per_slice > pool.chips - pool.system:
            return False
    return True


def _is_idle(state: AutoscalerState, piece: Slice) -> bool:
    """Whether the last word on the slice is that nothing runs there."""
    usage = state.usage.get(piece.id)
    return bool(usage) and all(host.idle for host in usage or ())


def _began(before: AutoscalerState, piece: Slice) -> bool:
    """Whether a drain began that waits for the budget."""
    known = before.by_id.get(piece.id)
    cause = None if piece.drain is None else piece.drain.known_cause
    return known is not None and known.drain is None and cause is not None and cause.waits_for_budget


def _are_open(config: ClusterConfig, group: ScaleGroup, at: datetime) -> bool:
    windows: tuple[Window | None, ...] = (config.window, group.window)
    return all(window is None or window.is_open(at) for window in windows)


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
