"""Laws of giving back: properties of the drains, cancelled drains and unneeded slices of any decision."""

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Decision
from penstock.model.demand import Workload
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import GRACE, NOW, PATIENCE, mostly, past, seldom, snapshots
from tests.core.decision.test_laws import carried_out, law, moment_before, opened, orders, shares

IDLE = HostUsage(state=HostState.IDLE)
AT_ONCE = (DrainCause.ABOVE_MAXIMUM, DrainCause.UNCLAIMED)
"""Causes of drains of slices that are no capacity in this decision already."""
AT_THE_LATEST = timedelta(seconds=10 * PATIENCE)
"""Longer than every timeout of the configurations here."""
future = past.map(lambda moment: NOW + (NOW - moment))


@st.composite
def used_snapshots(draw: DrawFn) -> Snapshot:
    """A snapshot whose slices have been idle, unneeded or draining for a while."""
    snapshot = draw(snapshots(limited=True))
    groups = tuple(
        group.model_copy(
            update={
                "idle_timeout_seconds": draw(st.sampled_from((GRACE, PATIENCE, 0.0))),
                "cancel_after_seconds": draw(st.sampled_from((GRACE, 0.0))),
                "protect_first": draw(seldom),
                "keep_queued": draw(seldom),
            }
        )
        for group in snapshot.config.groups
    )
    config = snapshot.config.model_copy(update={"groups": groups})
    usage = dict(snapshot.usage)
    slices = []
    for number, piece in enumerate(snapshot.slices):
        group = config.group(piece.group)
        if draw(mostly):
            usage[piece.id] = (IDLE,) * (group.hosts_per_slice if group else 1)
        hosts = usage.get(piece.id, ())
        idle = len(hosts) == (group.hosts_per_slice if group else 1) and all(host.idle for host in hosts)
        slices.append(draw(used_slices(piece, number, idle=idle)))
    stale_at = {piece.id: draw(past | future) for piece in slices if piece.idle_since is not None and draw(seldom)}
    return snapshot.model_copy(update={"config": config, "usage": usage, "slices": tuple(slices), "stale_at": stale_at})


@st.composite
def used_slices(draw: DrawFn, piece: Slice, number: int, *, idle: bool) -> Slice:
    idle_since = draw(past) if idle and piece.state.was_ready else None
    unneeded_since = draw(st.none() | past) if piece.state.in_flight else None
    drain = piece.drain
    if piece.state.was_ready and draw(seldom):
        drain = DrainTerms(cause=draw(st.sampled_from((*DrainCause, "operator"))), number=number, force=draw(seldom))
    returning = piece.state is SliceState.DRAINING and drain is None and draw(mostly)
    return piece.changed(idle_since=idle_since, unneeded_since=unneeded_since, drain=drain, returning=returning)


def after(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The snapshot after the decision was carried out: drains are ordered, and others cancelled."""
    drained, cancelled = {drain.slice_id: drain for drain in decision.drains}, set(decision.cancelled_drains)
    kept = [
        piece.changed(drain=None, returning=True, idle_since=None)
        if piece.id in cancelled
        else piece.changed(drain=DrainTerms(cause=drained[piece.id].cause), idle_since=None)
        if piece.id in drained
        else piece
        for piece in snapshot.slices
    ]
    marked = tuple(
        piece.changed(unneeded_since=(piece.unneeded_since or snapshot.now) if piece.id in decision.unneeded else None)
        for piece in kept
    )
    return carried_out(snapshot.model_copy(update={"slices": marked}), decision)


def by_id(snapshot: Snapshot) -> dict[str, Slice]:
    return {piece.id: piece for piece in snapshot.slices}


def serving(snapshot: Snapshot) -> Counter[str]:
    return Counter(piece.group for piece in snapshot.slices if (not piece.drains and piece.state.serves) or piece.returning)


def floor(config: ClusterConfig, name: str) -> int:
    group = config.group(name)
    return group.min_slices if group else 0


@law
@given(used_snapshots())
def test_only_idle_slices_drain_for_idleness_and_only_slices_on_their_way_are_called_off(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    for drain in decision.drains:
        piece = slices[drain.slice_id]
        assert piece.drain is None
        if drain.cause == DrainCause.NOT_NEEDED:
            assert piece.state.in_flight
            continue
        if drain.cause == DrainCause.UNCLAIMED:
            assert piece.id not in snapshot.usage
            continue
        if drain.cause != DrainCause.ABOVE_MAXIMUM or piece.state is SliceState.READY:
            assert piece.state is SliceState.READY
            assert piece.idle_since is not None
            assert all(host.idle for host in snapshot.usage[piece.id])
        if drain.cause in (DrainCause.IDLE, DrainCause.GROUP_REMOVED):
            assert snapshot.stale_at.get(piece.id, AT_THE_LATEST + NOW) > snapshot.now


@law
@given(used_snapshots())
def test_a_group_never_launches_and_drains_in_one_decision(snapshot: Snapshot) -> None:
    """Except for slices that did not join, which are replaced."""
    decision, slices = decide(snapshot), by_id(snapshot)
    draining = {slices[drain.slice_id].group for drain in decision.drains if drain.cause != DrainCause.UNCLAIMED}
    assert draining.isdisjoint(opened(decision))
    assert draining.isdisjoint(slices[slice_id].group for slice_id in decision.cancelled_drains)


@law
@given(used_snapshots())
def test_no_group_falls_below_its_target_by_draining(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    gone = Counter(slices[drain.slice_id].group for drain in decision.drains if drain.cause not in AT_ONCE)
    for group in decision.groups:
        if gone[group.name]:
            left = group.have + group.in_flight + group.stalled - gone[group.name]
            assert left >= min(group.target, group.have + group.in_flight)
            assert left >= floor(snapshot.config, group.name)


@law
@given(used_snapshots())
def test_a_decision_carried_out_leaves_nothing_to_launch_drain_or_take_back(snapshot: Snapshot) -> None:
    first = decide(snapshot)
    second = decide(after(snapshot, first))
    if not first.deferred:
        assert not opened(second)
        assert not second.cancelled_drains
        assert not second.drains


@law
@given(used_snapshots(), shares)
def test_time_alone_drains_nothing_before_next_change_at(snapshot: Snapshot, share: float) -> None:
    decision = decide(snapshot)
    assert decision.next_change_at is None or decision.next_change_at > snapshot.now
    later = moment_before(decision.next_change_at, snapshot.now, share)
    assert orders(decide(snapshot.model_copy(update={"now": later}))) == orders(decision)


@law
@given(used_snapshots())
def test_drains_are_cancelled_only_if_they_may_be_and_within_the_maximum(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    back = Counter(slices[slice_id].group for slice_id in decision.cancelled_drains)
    for slice_id in decision.cancelled_drains:
        drain = slices[slice_id].drain
        assert drain is not None
        assert drain.known_cause is not None
        assert drain.known_cause.cancellable
        assert not drain.force
    for group in decision.groups:
        configured = snapshot.config.group(group.name)
        assert configured is not None
        if back[group.name]:
            assert group.have + group.in_flight + group.stalled + back[group.name] <= configured.max_slices


@law
@given(used_snapshots())
def test_nothing_is_launched_in_a_group_that_has_a_drain_to_take_back(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    launching = Counter(launch.group for launch in decision.launches)
    for piece in snapshot.slices:
        group = snapshot.config.group(piece.group)
        usage = snapshot.usage.get(piece.id)
        if group is None or not piece.reclaimable or usage is None or len(usage) != group.hosts_per_slice:
            continue
        if all(host.idle for host in usage) and launching[group.name]:
            back = Counter(slices[slice_id].group for slice_id in decision.cancelled_drains)
            have = serving(snapshot)[group.name] + back[group.name]
            assert piece.id in decision.cancelled_drains or have >= group.max_slices


@law
@given(used_snapshots())
def test_without_demand_no_group_keeps_idle_slices_above_its_target_in_the_end(snapshot: Snapshot) -> None:
    empty = snapshot.model_copy(update={"workload": Workload(), "standing": (), "stale_at": {}, "now": NOW + AT_THE_LATEST})
    decision, slices = decide(empty), by_id(empty)
    above_maximum = {drain.slice_id for drain in decision.drains if drain.cause in AT_ONCE}
    gone = Counter(slices[drain.slice_id].group for drain in decision.drains if drain.slice_id not in above_maximum)
    idle = Counter(
        p.group
        for p in empty.slices
        if p.state is SliceState.READY and p.idle_since and not p.drains and p.id not in above_maximum
    )
    for group in decision.groups:
        protected = empty.config.group(group.name)
        assert protected is not None
        left = idle[group.name] - gone[group.name]
        above = group.have + group.in_flight - gone[group.name] - group.target
        if not opened(decision)[group.name] and left > protected.protect_first:
            assert above <= len(decision.unneeded)
