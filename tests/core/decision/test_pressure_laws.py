"""Laws of pressure: properties of any decision on groups of which reports of queue lengths drive some."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.keeping import kept_of
from penstock.model.cluster import Placement, ScaleDown
from penstock.model.decision import Cause, Decision, Kept, KeptCode
from penstock.model.elasticity import Drive
from penstock.model.pressure import PressureReport, PressureState
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import GRACE, NOW, PATIENCE, mostly, past, seldom, snapshots
from tests.core.decision.oracle import judge
from tests.core.decision.test_give_back_laws import after, by_id, future, serving, used_snapshots
from tests.core.decision.test_laws import law, moment_before, opened, orders, shares, verdict

numbers = st.sampled_from((0, 0, 1, 2, 3, 9))
reports = st.builds(PressureReport, queued=numbers, running=numbers, capacity=numbers, slices=numbers)


@st.composite
def states(draw: DrawFn) -> PressureState:
    """What is known of a group that pressure drives."""
    report = draw(st.none() | reports)
    at = draw(past)
    return PressureState(
        report=report,
        at=at,
        desired=draw(st.none() | st.integers(0, 4)),
        acted_at=draw(st.none() | past),
        idle_from=at if report is not None and report.idle else None,
        stale_at=draw(past | future) if draw(seldom) else None,
    )


@st.composite
def driven(draw: DrawFn, snapshot: Snapshot) -> Snapshot:
    """The snapshot with reports of pressure that drive some of its groups."""
    groups = []
    for group in snapshot.config.groups:
        fields = {
            "drive": Drive.PRESSURE,
            "slots_per_slice": draw(st.integers(0, 2)),
            "warm_slices": 0,
            "watermark": None,
            "grow_cooldown_seconds": draw(st.sampled_from((0.0, GRACE))),
            "shrink_cooldown_seconds": draw(st.sampled_from((0.0, GRACE))),
        }
        groups.append(group.model_copy(update=fields) if draw(mostly) else group)
    config = snapshot.config.model_copy(update={"groups": tuple(groups)})
    mine = [group.name for group in groups if group.drive is Drive.PRESSURE]
    pressure = {name: draw(states()) for name in mine if draw(mostly)}
    slices = tuple(piece.changed(unconfirmed_at=draw(past)) if draw(seldom) else piece for piece in snapshot.slices)
    return snapshot.model_copy(update={"config": config, "pressure": pressure, "slices": slices})


driven_snapshots = used_snapshots().flatmap(driven)


def by_pressure(snapshot: Snapshot) -> set[str]:
    return {group.name for group in snapshot.config.groups if group.drive is Drive.PRESSURE}


def remembered(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The snapshot once the decision was carried out: what reports want is kept, and when that changed."""
    pressure = dict(snapshot.pressure)
    have = serving(snapshot)
    for name, slices in decision.desired.items():
        said, group = snapshot.pressure[name], snapshot.config.group(name)
        assert group is not None
        before = have[name] if said.desired is None else said.desired
        acts = slices != min(group.max_slices, max(group.min_slices, before))
        pressure[name] = said.model_copy(update={"desired": slices, "acted_at": snapshot.now if acts else said.acted_at})
    return after(snapshot, decision).model_copy(update={"pressure": pressure})


@pytest.mark.parametrize("placement", Placement)
def test_fast_placing_equals_naive_placing_beside_groups_that_pressure_drives(placement: Placement) -> None:
    @law
    @given(snapshots([placement]).flatmap(driven))
    def check(snapshot: Snapshot) -> None:
        assert verdict(decide(snapshot)) == judge(snapshot)

    check()


@law
@given(driven_snapshots)
def test_no_entry_is_placed_on_a_group_that_pressure_drives_and_no_other_drains_for_pressure(snapshot: Snapshot) -> None:
    decision, slices, mine = decide(snapshot), by_id(snapshot), by_pressure(snapshot)
    assert mine.isdisjoint(placed.group for placed in decision.placed)
    assert all(launch.group in mine for launch in decision.launches if launch.cause is Cause.PRESSURE)
    assert all(launch.cause in (Cause.PRESSURE, Cause.MINIMUM) for launch in decision.launches if launch.group in mine)
    for drain in decision.drains:
        piece = slices[drain.slice_id]
        if drain.cause == DrainCause.PRESSURE or (piece.group in mine and piece.state is SliceState.READY):
            assert piece.group in mine
            assert piece.state is SliceState.READY
            assert drain.cause in (DrainCause.PRESSURE, DrainCause.UNCLAIMED)


@law
@given(driven_snapshots)
def test_what_is_wanted_is_within_the_bounds_and_the_oldest_slice_goes_only_if_that_is_none(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    going = {drain.slice_id for drain in decision.drains if drain.cause == DrainCause.PRESSURE}
    for described in decision.groups:
        group = snapshot.config.group(described.name)
        if group is None or group.drive is not Drive.PRESSURE:
            continue
        assert group.min_slices <= described.target <= group.max_slices
        assert group.min_slices <= decision.desired.get(group.name, group.min_slices) <= group.max_slices
        ready = [piece for piece in snapshot.slices if is_ready(piece, group.name)]
        if ready and described.target:
            assert ready[0].id not in going
        gone = sum(slices[slice_id].group == group.name for slice_id in going)
        assert described.have + described.in_flight - gone >= min(described.target, described.have + described.in_flight)


def is_ready(piece: Slice, group: str) -> bool:
    return piece.group == group and piece.state is SliceState.READY and piece.drain is None


@law
@given(driven_snapshots)
def test_without_a_fresh_report_a_group_neither_grows_beyond_its_minimum_nor_shrinks_below_its_maximum(
    snapshot: Snapshot,
) -> None:
    silent = snapshot.model_copy(
        update={
            "pressure": {name: said.model_copy(update={"stale_at": snapshot.now}) for name, said in snapshot.pressure.items()}
        }
    )
    decision, slices, have = decide(silent), by_id(silent), serving(silent)
    assert all(launch.cause is not Cause.PRESSURE for launch in decision.launches)
    going = Counter(slices[drain.slice_id].group for drain in decision.drains if drain.cause == DrainCause.PRESSURE)
    for name, count in going.items():
        group = silent.config.group(name)
        assert group is not None
        assert have[name] - count >= group.max_slices


@law
@given(driven_snapshots)
def test_a_decision_on_pressure_carried_out_leaves_nothing_to_do(snapshot: Snapshot) -> None:
    first = decide(snapshot)
    second = decide(remembered(snapshot, first))
    if not first.deferred:
        assert not opened(second)
        assert not second.cancelled_drains
        assert not second.drains
        assert second.desired == first.desired


@law
@given(driven_snapshots, shares)
def test_time_alone_changes_nothing_that_pressure_wants_before_next_change_at(snapshot: Snapshot, share: float) -> None:
    decision = decide(snapshot)
    assert decision.next_change_at is None or decision.next_change_at > snapshot.now
    later = moment_before(decision.next_change_at, snapshot.now, share)
    assert orders(decide(snapshot.model_copy(update={"now": later}))) == orders(decision)


IDLE_FOR_LONG = PressureState(
    report=PressureReport(queued=0, running=0, capacity=0, slices=0), at=NOW, idle_from=NOW - timedelta(seconds=100 * PATIENCE)
)


@law
@given(driven_snapshots, st.sampled_from(ScaleDown))
def test_every_slice_of_a_group_that_pressure_drives_leaves_or_is_kept_for_a_reason(
    snapshot: Snapshot, scale_down: ScaleDown
) -> None:
    snapshot = snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"scale_down": scale_down})})
    decision, mine = decide(snapshot), by_pressure(snapshot)
    drained = {drain.slice_id for drain in decision.drains} if scale_down is ScaleDown.ON else set()
    stays = [piece.id for piece in snapshot.slices if piece.group in mine and piece.id not in drained and not is_leaving(piece)]
    kept = {each.slice_id: each for each in kept_of(snapshot, decision)}
    assert set(stays) <= kept.keys()
    for slice_id in stays:
        reasons = {reason.code for reason in kept[slice_id].reasons}
        assert reasons
        assert reasons.isdisjoint({KeptCode.BUSY, KeptCode.DEMAND, KeptCode.IDLE_TIMEOUT, KeptCode.STANDING, KeptCode.WARM})


@law
@given(driven_snapshots, st.data())
def test_a_ready_slice_whose_reasons_are_taken_away_drains_for_pressure(snapshot: Snapshot, data: st.DataObject) -> None:
    """One after the other, for behind one reason there may be another; none is told again."""
    mine = by_pressure(snapshot)
    ready = [piece.id for piece in snapshot.slices if piece.group in mine and is_ready(piece, piece.group)]
    first = [each for each in kept_of(snapshot, decide(snapshot)) if each.slice_id in ready and can_go(each)]
    if not first:
        return
    kept = data.draw(st.sampled_from(first))
    told = []
    for _ in KeptCode:
        told.append([reason.code for reason in kept.reasons])
        for reason in kept.reasons:
            snapshot = without(snapshot, kept, reason.code)
        decision = decide(snapshot)
        if kept.slice_id in {drain.slice_id for drain in decision.drains}:
            return
        kept = next(each for each in kept_of(snapshot, decision) if each.slice_id == kept.slice_id)
        if not can_go(kept):
            return
    raise AssertionError(f"{kept.slice_id} stays: {told}")


def can_go(kept: Kept) -> bool:
    return {reason.code for reason in kept.reasons}.isdisjoint((KeptCode.UNCLAIMED, KeptCode.LAUNCHING))


def without(snapshot: Snapshot, kept: Kept, code: KeptCode) -> Snapshot:
    """The snapshot without one reason that keeps a slice of a group that pressure drives."""
    config, group = snapshot.config, kept.group
    pressure, usage, slices = dict(snapshot.pressure), dict(snapshot.usage), list(snapshot.slices)
    if code in (KeptCode.DESIRED, KeptCode.STALE, KeptCode.NEVER_REPORTED, KeptCode.HEAD):
        pressure[group] = IDLE_FOR_LONG
    if code in (KeptCode.MINIMUM, KeptCode.HEAD):
        groups = (each.model_copy(update={"min_slices": 0}) if each.name == group else each for each in config.groups)
        config = config.model_copy(update={"groups": tuple(groups)})
    if code is KeptCode.DO_NOT_DISRUPT:
        usage[kept.slice_id] = tuple(host.model_copy(update={"do_not_disrupt": False}) for host in usage[kept.slice_id])
    for i, piece in enumerate(slices):
        if piece.id == kept.slice_id:
            unconfirmed = None if code is KeptCode.UNCONFIRMED else piece.unconfirmed_at
            slices[i] = piece.changed(kept_until=None, cordoned=False, unconfirmed_at=unconfirmed)
    changes = {"config": config, "pressure": pressure, "usage": usage, "slices": tuple(slices)}
    return snapshot.model_copy(update=changes)
