"""Laws of the reasons to keep slices: they are told of every slice that stays, and they are true."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.give_back import MOST_DRAINS
from penstock.core.decision.keeping import kept_of
from penstock.model.cluster import ScaleDown
from penstock.model.decision import Kept, KeptCode
from penstock.model.demand import Workload
from penstock.model.slices import HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import NOW, PATIENCE
from tests.core.decision.test_give_back_laws import used_snapshots
from tests.core.decision.test_laws import law

LONG_AGO = NOW - timedelta(seconds=100 * PATIENCE)
FLOORS: dict[KeptCode, dict[str, Any]] = {
    KeptCode.MINIMUM: {"min_slices": 0},
    KeptCode.WARM: {"warm_slices": 0},
    KeptCode.WATERMARK: {"watermark": None},
    KeptCode.HEAD: {"protect_first": False},
    KeptCode.QUEUED: {"keep_queued": False},
}
NEEDED = (KeptCode.DEMAND, KeptCode.UNTRIED, KeptCode.GANG, KeptCode.LAUNCHING, KeptCode.QUEUED)
"""Reasons that end with the demand and the standing requests."""


def without(snapshot: Snapshot, kept: Kept) -> Snapshot:
    """The snapshot without the reasons that keep a slice."""
    for reason in kept.reasons:
        snapshot = _without(snapshot, kept, reason.code)
    return snapshot


def _without(snapshot: Snapshot, kept: Kept, code: KeptCode) -> Snapshot:
    changes: dict[str, object] = {}
    if code in NEEDED:
        changes |= {"workload": Workload(), "standing": ()} if code is not KeptCode.DEMAND else {"workload": Workload()}
    if code in (KeptCode.STANDING, KeptCode.UNTRIED):
        changes |= {"standing": (), "standing_in_doubt": ()}
    if code is KeptCode.RESYNC:
        changes["sources"] = {}
    if code in FLOORS:
        config = snapshot.config
        groups = [each.model_copy(update=FLOORS[code]) if each.name == kept.group else each for each in config.groups]
        changes["config"] = config.model_copy(update={"groups": tuple(groups)})
    if code is KeptCode.LAUNCHING and not snapshot.workload.runs and not snapshot.standing:  # For a floor of its group.
        for floor in (KeptCode.MINIMUM, KeptCode.WARM, KeptCode.WATERMARK):
            changes["config"] = _without(snapshot.model_copy(update=changes), kept, floor).config
    if code in (KeptCode.STALE, KeptCode.BUSY, KeptCode.NEVER_REPORTED):
        changes["stale_at"] = {name: at for name, at in snapshot.stale_at.items() if name != kept.slice_id}
    if code in (KeptCode.BUSY, KeptCode.NEVER_REPORTED, KeptCode.DO_NOT_DISRUPT):
        config_group = snapshot.config.group(kept.group)
        idle = (HostUsage(state=HostState.IDLE),) * (config_group.hosts_per_slice if config_group else 1)
        changes["usage"] = snapshot.usage | {kept.slice_id: idle}
    if code is KeptCode.STOCKOUT:
        changes["stockouts"] = {}
    idles = (KeptCode.BUSY, KeptCode.NEVER_REPORTED, KeptCode.IDLE_TIMEOUT)
    slices = (_aged(piece, LONG_AGO, idles=code in idles) if piece.id == kept.slice_id else piece for piece in snapshot.slices)
    return snapshot.model_copy(update=changes | {"slices": tuple(slices)})


def _aged(piece: Slice, since: datetime, *, idles: bool) -> Slice:
    """The slice, idle or not needed for ever, READY if its drain was cancelled, and without an operator's orders."""
    piece = piece.changed(kept_until=None, cordoned=False)
    if piece.state.in_flight:
        return piece.changed(unneeded_since=since)
    is_idle = idles or piece.idle_since is not None
    ready = piece.changed(state=SliceState.READY, returning=False) if idles and piece.returning else piece
    return ready.changed(idle_since=since if is_idle else None)


def reasons(kept: Kept) -> set[KeptCode]:
    return {reason.code for reason in kept.reasons}


@law
@given(used_snapshots(), st.sampled_from(ScaleDown))
def test_a_slice_leaves_or_is_kept_for_a_reason(snapshot: Snapshot, scale_down: ScaleDown) -> None:
    config = snapshot.config.model_copy(update={"scale_down": scale_down})
    snapshot = snapshot.model_copy(update={"config": config})
    decision = decide(snapshot)
    kept = kept_of(snapshot, decision)
    drained = {drain.slice_id for drain in decision.drains} if scale_down is ScaleDown.ON else set()
    stays = [piece for piece in snapshot.slices if piece.id not in drained and not is_leaving(piece)]
    expected = {piece.id for piece in stays} | set(decision.cancelled_drains)
    assert [each.slice_id for each in kept] == [piece.id for piece in snapshot.slices if piece.id in expected]
    assert all(each.reasons for each in kept)
    assert all(each.until is None or each.until > snapshot.now for each in kept)


@law
@given(used_snapshots(), st.data())
def test_a_slice_whose_reasons_are_taken_away_drains(snapshot: Snapshot, data: st.DataObject) -> None:
    """One after the other, for behind one reason there may be another; none is told again."""
    limited = snapshot.config.model_copy(update={"unclaimed_after_seconds": None})
    snapshot = snapshot.model_copy(update={"config": limited})
    first = [each for each in kept_of(snapshot, decide(snapshot)) if _can_go(each)]
    if not first or len(snapshot.slices) > MOST_DRAINS:
        return
    kept = data.draw(st.sampled_from(first))
    told: list[set[KeptCode]] = []
    for _ in KeptCode:
        told.append(reasons(kept))
        snapshot = without(snapshot, kept)
        decision = decide(snapshot)
        if kept.slice_id in {drain.slice_id for drain in decision.drains}:
            return
        kept = next(each for each in kept_of(snapshot, decision) if each.slice_id == kept.slice_id)
        if not _can_go(kept):
            return
    raise AssertionError(f"{kept.slice_id} stays: {told}")


def _can_go(kept: Kept) -> bool:
    return reasons(kept).isdisjoint((KeptCode.UNCLAIMED, KeptCode.TAKEN_BACK))


@law
@given(used_snapshots())
def test_a_slice_that_time_alone_keeps_goes_when_it_is_said_to_and_not_before(snapshot: Snapshot) -> None:
    found = [each for each in kept_of(snapshot, decide(snapshot)) if each.until is not None]
    alone = [each for each in found if reasons(each) <= {KeptCode.IDLE_TIMEOUT, KeptCode.CANCEL_AFTER}]
    if not alone:
        return
    kept = min(alone, key=lambda each: each.until or NOW)
    assert kept.until is not None
    unneeded = set(decide(snapshot).unneeded)
    marked = tuple(
        piece.changed(unneeded_since=(piece.unneeded_since or snapshot.now) if piece.id in unneeded else None)
        for piece in snapshot.slices
    )
    for at, goes in ((kept.until - timedelta(milliseconds=1), False), (kept.until, True)):
        later = snapshot.model_copy(update={"slices": marked, "now": at})
        drained = {drain.slice_id for drain in decide(later).drains}
        assert kept.slice_id not in drained if not goes else kept.slice_id in drained or _other_change(snapshot, at)


def _other_change(snapshot: Snapshot, at: datetime) -> bool:
    """Whether something else than this slice's time was up by then."""
    change = decide(snapshot).next_change_at
    return change is not None and change < at
