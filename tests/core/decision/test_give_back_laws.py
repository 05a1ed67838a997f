"""Laws of giving back: properties of the drains, cancelled drains and unneeded slices of any decision."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.decision.decide import decide
from penstock.core.decision.effort import Effort
from penstock.core.decision.held_for_gangs import digest_of
from penstock.core.decision.match import exclusion
from penstock.core.decision.protections import is_protected
from penstock.model.cluster import ClusterConfig, ScaleDown, ScaleGroup
from penstock.model.decision import Cause, Code, Decision, Drain
from penstock.model.demand import Workload
from penstock.model.failures import Notice, NoticeKind
from penstock.model.shape import GangPlacement, Shape
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot, SourceTerms
from tests.core.decision.generators import BROKEN, GRACE, NOW, PATIENCE, mostly, past, rarely, seldom, snapshots
from tests.core.decision.test_laws import carried_out, law, moment_before, opened, orders, shares

IDLE = HostUsage(state=HostState.IDLE)
UNDISTURBED = HostUsage(state=HostState.IDLE, do_not_disrupt=True)
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
            usage[piece.id] = (draw(st.sampled_from((IDLE, IDLE, IDLE, UNDISTURBED))),) * (group.hosts_per_slice if group else 1)
        hosts = usage.get(piece.id, ())
        idle = len(hosts) == (group.hosts_per_slice if group else 1) and all(host.idle for host in hosts)
        slices.append(draw(used_slices(piece, number, idle=idle)))
    stale_at = {piece.id: draw(past | future) for piece in slices if piece.idle_since is not None and draw(seldom)}
    gangs = [shape for shape in snapshot.workload.shapes if shape.gang is not None]
    known = {"usage": usage, "slices": tuple(slices), "stale_at": stale_at, "sources": draw(sources_of(snapshot))}
    known["waiting_since"] = {digest_of(shape): draw(past) for shape in gangs if draw(mostly)}
    return snapshot.model_copy(update={"config": config} | known)


@st.composite
def sources_of(draw: DrawFn, snapshot: Snapshot) -> dict[str, SourceTerms]:
    """The terms of the sources, of which some lost demand."""
    lost = SourceTerms(resync="lost", lease_ends=draw(st.none() | past | future))
    return snapshot.sources | ({"lost": lost} if draw(rarely) or draw(rarely) else {})


@st.composite
def used_slices(draw: DrawFn, piece: Slice, number: int, *, idle: bool) -> Slice:
    idle_since = draw(past) if idle and piece.state.was_ready else None
    unneeded_since = draw(st.none() | past) if piece.state.in_flight else None
    drain = piece.drain
    if piece.state.was_ready and draw(seldom):
        drain = DrainTerms(cause=draw(st.sampled_from((*DrainCause, "operator"))), number=number, force=draw(seldom))
    returning = piece.state is SliceState.DRAINING and drain is None and draw(mostly)
    kept_until = draw(past | future) if draw(seldom) else None
    for_notice = drain is not None and drain.known_cause is DrainCause.NOTICE
    until = draw(future) if for_notice else None
    drain = drain.model_copy(update={"deadline": until}) if drain is not None else None
    piece = piece.changed(notice=None if until is None else Notice(kind=NoticeKind.MAINTENANCE, until=until))
    used = piece.changed(idle_since=idle_since, unneeded_since=unneeded_since, drain=drain, returning=returning)
    return used.changed(kept_until=kept_until, cordoned=draw(seldom) and draw(seldom))


def after(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The snapshot after the decision was carried out: drains are ordered, and others cancelled."""
    drained, cancelled = {drain.slice_id: drain for drain in decision.drains}, set(decision.cancelled_drains)
    kept = [
        piece.changed(drain=None, returning=True, idle_since=None)
        if piece.id in cancelled
        else piece.changed(drain=begun(drained[piece.id], snapshot.now), idle_since=None)
        if piece.id in drained
        else piece
        for piece in snapshot.slices
    ]
    waiting = snapshot.model_copy(update={"waiting_since": decision.waiting_since})
    marked = tuple(
        piece.changed(unneeded_since=(piece.unneeded_since or snapshot.now) if piece.id in decision.unneeded else None)
        for piece in kept
    )
    return carried_out(waiting.model_copy(update={"slices": marked}), decision)


def begun(drain: Drain, at: datetime) -> DrainTerms:
    """The terms of a drain that begins, as the ledger has them."""
    return DrainTerms(cause=drain.cause, deadline=None if drain.deadline is None else max(at, drain.deadline))


def by_id(snapshot: Snapshot) -> dict[str, Slice]:
    return {piece.id: piece for piece in snapshot.slices}


def serving(snapshot: Snapshot) -> Counter[str]:
    return Counter(piece.group for piece in snapshot.slices if (not piece.drains and piece.state.serves) or piece.returning)


def floor(config: ClusterConfig, name: str) -> int:
    group = config.group(name)
    return group.min_slices if group else 0


def is_idle(snapshot: Snapshot, piece: Slice) -> bool:
    group, hosts = snapshot.config.group(piece.group), snapshot.usage.get(piece.id, ())
    return len(hosts) == (group.hosts_per_slice if group else 1) and all(host.idle for host in hosts)


def has_lapsed(snapshot: Snapshot, source: str) -> bool:
    terms = snapshot.sources.get(source, SourceTerms())
    return terms.lease_ends is not None and terms.lease_ends <= snapshot.now


def needless(snapshot: Snapshot, decision: Decision) -> list[Drain]:
    """The drains of slices that no demand needs, beside those above a maximum, of removed groups and not joined."""
    causes = (DrainCause.IDLE, DrainCause.NOT_NEEDED)
    return [drain for drain in decision.drains if drain.cause in causes and snapshot.config.group(drain.group) is not None]


def without(snapshot: Snapshot, slice_ids: Iterable[str]) -> Snapshot:
    """The snapshot once slices are gone."""
    gone = set(slice_ids)
    return snapshot.model_copy(update={"slices": tuple(piece for piece in snapshot.slices if piece.id not in gone)})


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
        if drain.cause == DrainCause.ABOVE_MAXIMUM and (piece.state.in_flight or piece.id not in snapshot.usage):
            assert piece.state.in_flight or piece.is_unclaimed
            continue
        assert piece.state is SliceState.READY
        assert drain.idle_since == piece.idle_since is not None
        assert is_idle(snapshot, piece)
        assert snapshot.stale_at.get(piece.id, AT_THE_LATEST + NOW) > snapshot.now


@law
@given(used_snapshots(), st.sampled_from(ScaleDown))
def test_no_slice_drains_twice(snapshot: Snapshot, scale_down: ScaleDown) -> None:
    config = snapshot.config.model_copy(update={"scale_down": scale_down})
    decision = decide(snapshot.model_copy(update={"config": config}))
    drained = [drain.slice_id for drain in decision.drains]
    assert len(drained) == len({*drained, *decision.cancelled_drains}) - len(decision.cancelled_drains)
    assert len(decision.unneeded) == len(set(decision.unneeded))


@law
@given(used_snapshots())
def test_nothing_goes_for_lack_of_demand_while_demand_is_lost(snapshot: Snapshot) -> None:
    lost = [name for name, terms in snapshot.sources.items() if terms.resync is not None and not has_lapsed(snapshot, name)]
    decision, slices = decide(snapshot), by_id(snapshot)
    if lost:
        assert not needless(snapshot, decision)
        assert all(snapshot.config.group(slices[slice_id].group) is None for slice_id in decision.unneeded)


@law
@given(used_snapshots(), st.integers(0, 2000))
def test_what_was_not_tried_keeps_every_slice_that_it_might_need(snapshot: Snapshot, most: int) -> None:
    decision, slices = decide(snapshot, Effort(most=most)), by_id(snapshot)
    shapes = snapshot.workload.shapes
    untried: list[Shape] = []
    for unmet in decision.unmet:
        sources = {snapshot.workload.runs[span.run].source for span in unmet.spans}
        doubted = unmet.code is Code.NO_CAPACITY and unmet.message == BROKEN
        if (doubted or unmet.code is Code.EFFORT_SPENT) and not all(has_lapsed(snapshot, source) for source in sources):
            untried.append(shapes[unmet.shape])
    owners = {outcome.owner for outcome in decision.standing if outcome.code is Code.EFFORT_SPENT}
    untried += [item.alone() for request in snapshot.standing if request.owner in owners for item in request.wants]
    for drain in needless(snapshot, decision):
        group = snapshot.config.group(slices[drain.slice_id].group)
        assert group is not None
        assert all(exclusion(shape, group) for shape in untried)


@law
@given(used_snapshots())
def test_slices_that_an_incomplete_gang_would_use_stay_while_it_is_waited_for(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    gone = Counter(slices[drain.slice_id].group for drain in needless(snapshot, decision))
    groups = {group.name: group for group in decision.groups}
    for unmet in decision.unmet:
        shape = snapshot.workload.shapes[unmet.shape]
        since = decision.waiting_since.get(digest_of(shape))
        if shape.gang is None or shape.gang.placement is not GangPlacement.WHOLE_SLICES or since is None:
            continue
        for name in (name for name in unmet.groups if gone[name]):
            group = snapshot.config.group(name)
            assert group is not None
            needed = shape.gang.hosts // group.hosts_per_slice
            if since + timedelta(seconds=snapshot.config.patience_of(group)) > snapshot.now and needed <= group.max_slices:
                unused = groups[name].have - groups[name].busy + groups[name].in_flight - groups[name].required
                assert exclusion(shape, group) or is_never(snapshot, group, needed) or unused - gone[name] >= min(needed, unused)


def is_never(snapshot: Snapshot, group: ScaleGroup, slices: int) -> bool:
    """Whether the cluster's maximum or the group's pool never allows so many slices."""
    pools = [pool for pool in snapshot.config.pools if pool.name == group.pool]
    chips = any((pool.chips - pool.system) // group.chips_per_slice < slices for pool in pools)
    return chips or (snapshot.config.max_slices is not None and snapshot.config.max_slices < slices)


@law
@given(used_snapshots())
def test_what_was_called_off_is_not_ordered_again_for_a_floor_once_it_is_gone(snapshot: Snapshot) -> None:
    """Without demand and standing requests, for which what leaves makes room."""
    alone = snapshot.model_copy(update={"workload": Workload(), "standing": ()})
    first, slices = decide(alone), by_id(alone)
    called_off = [drain.slice_id for drain in first.drains if drain.cause == DrainCause.NOT_NEEDED]
    second = decide(without(after(alone, first), called_off))
    if not first.deferred:
        assert {slices[slice_id].group for slice_id in called_off}.isdisjoint(opened(second))


@law
@given(used_snapshots())
def test_no_protected_slice_drains(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    for drain in decision.drains:
        assert not is_protected(slices[drain.slice_id], snapshot.usage.get(drain.slice_id, ()), snapshot.now)


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
def test_drains_are_cancelled_only_if_they_may_be_and_within_the_maximums(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    back = Counter(slices[slice_id].group for slice_id in decision.cancelled_drains)
    for slice_id in decision.cancelled_drains:
        drain = slices[slice_id].drain
        assert drain is not None
        assert drain.known_cause is not None
        assert drain.known_cause.cancellable
        assert not drain.force
        assert slice_id in snapshot.usage
    above = Counter(slices[drain.slice_id].group for drain in decision.drains if drain.cause == DrainCause.ABOVE_MAXIMUM)
    serve = serving(snapshot) + back
    serve.subtract(above)
    for group in snapshot.config.groups:
        assert not back[group.name] or serve[group.name] <= group.max_slices
    assert not back or snapshot.config.max_slices is None or serve.total() <= snapshot.config.max_slices


@law
@given(used_snapshots())
def test_nothing_is_launched_in_a_group_that_has_a_drain_to_take_back(snapshot: Snapshot) -> None:
    """Idle slices are taken back for whatever needs a slice, busy ones for the minimum."""
    decision = decide(snapshot)
    launching = Counter(launch.group for launch in decision.launches)
    for_minimum = {launch.group for launch in decision.launches if launch.cause is Cause.MINIMUM}
    for piece in snapshot.slices:
        group = snapshot.config.group(piece.group)
        if group is None or not piece.reclaimable or piece.id not in snapshot.usage:
            continue
        if launching[group.name] if is_idle(snapshot, piece) else group.name in for_minimum:
            assert piece.id in decision.cancelled_drains or is_full(snapshot, decision, group)


def is_full(snapshot: Snapshot, decision: Decision, group: ScaleGroup) -> bool:
    """Whether no further slice of the group may serve."""
    slices = by_id(snapshot)
    serve = serving(snapshot) + Counter(slices[slice_id].group for slice_id in decision.cancelled_drains)
    most = snapshot.config.max_slices
    return serve[group.name] >= group.max_slices or (most is not None and serve.total() >= most)


@law
@given(used_snapshots())
def test_without_demand_no_group_keeps_idle_slices_above_its_target_in_the_end(snapshot: Snapshot) -> None:
    nothing = {"workload": Workload(), "standing": (), "stale_at": {}, "sources": {}}
    empty = snapshot.model_copy(update=nothing | {"now": NOW + AT_THE_LATEST})
    decision, slices = decide(empty), by_id(empty)
    above_maximum = {drain.slice_id for drain in decision.drains if drain.cause in AT_ONCE}
    gone = Counter(slices[drain.slice_id].group for drain in decision.drains if drain.slice_id not in above_maximum)
    idle = Counter(
        p.group
        for p in empty.slices
        if p.state is SliceState.READY and p.idle_since and not p.drains and p.id not in above_maximum and not p.cordoned
        if not is_protected(p, empty.usage.get(p.id, ()), empty.now)
    )
    for group in decision.groups:
        protected = empty.config.group(group.name)
        assert protected is not None
        left = idle[group.name] - gone[group.name]
        above = group.have + group.in_flight - gone[group.name] - group.target
        if not opened(decision)[group.name] and left > protected.protect_first:
            assert above <= len(decision.unneeded)
