"""Laws of replacement: properties of the drains, orders and reasons of slices that are to be replaced."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import Fleet, is_leaving
from penstock.core.decision.keeping import kept_of
from penstock.core.decision.protections import is_protected
from penstock.model.cluster import ClusterConfig, ScaleDown
from penstock.model.decision import Cause, Decision, KeptCode
from penstock.model.demand import Workload
from penstock.model.elasticity import ReturnHome, Setback, Window, share_of
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainCause, HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import GRACE, NOW, PATIENCE, mostly, past, rarely, seldom
from tests.core.decision.test_give_back_laws import after, by_id, future, used_snapshots
from tests.core.decision.test_laws import law, moment_before, opened, orders, shares

CLOSED = Window(hours="02:00-03:00")
"""NOW is midnight."""
OPEN = Window(hours="23:00-01:00")
REPLACING = (DrainCause.NOTICE, DrainCause.DEGRADED, DrainCause.EXPIRY, DrainCause.DRIFT, DrainCause.RETURN_HOME)
IDLE = HostUsage(state=HostState.IDLE)
UNDISTURBED = HostUsage(state=HostState.BUSY, do_not_disrupt=True)
BUSY = HostUsage(state=HostState.BUSY)
GANG = HostUsage(state=HostState.BUSY, gangs=("gang",))
sizes = st.integers(0, 3)
budgets = st.sampled_from((1, 2, 3, 5, 5, 0, "50%", "100%"))
windows = st.sampled_from((None, None, None, OPEN, CLOSED))


@st.composite
def aging_snapshots(draw: DrawFn) -> Snapshot:
    """A snapshot most of whose slices are READY and are to be replaced, or are there to replace others."""
    snapshot = draw(used_snapshots())
    config = draw(replacing(snapshot.config))
    names = [group.name for group in config.groups]
    added = [Slice(id=f"t{i}", group=draw(st.sampled_from(names)), state=SliceState.READY, since=NOW) for i in range(draw(sizes))]
    usage = dict(snapshot.usage)
    slices = []
    for piece in (*snapshot.slices, *added):
        if piece.group in names and draw(mostly):
            piece = piece.changed(state=SliceState.READY, drain=None, queued=False, returning=False, idle_since=None)
            hosts = next(group.hosts_per_slice for group in config.groups if group.name == piece.group)
            usage[piece.id] = (draw(st.sampled_from((IDLE, BUSY, BUSY, GANG, UNDISTURBED))),) * hosts
            piece = piece.changed(idle_since=draw(past) if usage[piece.id][0].idle else None)
        slices.append(piece)
    ids = [piece.id for piece in slices]
    aging = tuple(draw(aged(piece, ids, config)) for piece in slices)
    had_setbacks = draw(seldom)
    setbacks = {name: Setback(at=draw(past), failed_returns=draw(st.integers(0, 2))) for name in names}
    facts = {"config": config, "slices": aging, "usage": usage, "setbacks": setbacks if had_setbacks else {}}
    return snapshot.model_copy(update=facts)


@st.composite
def replacing(draw: DrawFn, config: ClusterConfig) -> ClusterConfig:
    groups = [
        group.model_copy(
            update={
                "max_slices": group.max_slices + draw(sizes),
                "max_unavailable": draw(budgets),
                "window": draw(windows),
                "max_age_seconds": draw(st.sampled_from((None, None, GRACE, PATIENCE))),
                "degraded_after_seconds": draw(st.sampled_from((GRACE, PATIENCE))),
            }
        )
        for group in config.groups
    ]
    changes = {
        "groups": tuple(groups),
        "max_slices": config.max_slices if draw(rarely) else None,
        "max_unavailable": draw(budgets),
        "window": draw(windows),
        "replace_drifted": draw(mostly),
        "return_home": ReturnHome(settle=draw(st.sampled_from((0, GRACE)))) if draw(mostly) else None,
    }
    return config.model_copy(update=changes)


@st.composite
def aged(draw: DrawFn, piece: Slice, ids: Sequence[str], config: ClusterConfig) -> Slice:
    group = config.group(piece.group)
    now = "" if group is None else group.fingerprint
    others, names = [other for other in ids if other != piece.id], [each.name for each in config.groups]
    return piece.changed(
        fingerprint=draw(st.sampled_from(("", now, now, "old"))),
        created_at=draw(st.none() | past),
        degraded_since=draw(past) if draw(rarely) else None,
        notice=Notice(kind=draw(st.sampled_from(NoticeKind)), until=draw(future | past)) if draw(rarely) else None,
        unconfirmed_at=draw(past) if draw(rarely) else None,
        replaces=draw(st.sampled_from(others)) if bool(others) and draw(seldom) else "",
        home=draw(st.sampled_from(names)) if draw(seldom) else "",
    )


def replaced(decision: Decision) -> dict[str, str]:
    """The causes of drains for which slices are replaced, by slice."""
    return {drain.slice_id: drain.cause for drain in decision.drains if drain.cause in REPLACING}


def is_idle(snapshot: Snapshot, piece: Slice) -> bool:
    group, usage = snapshot.config.group(piece.group), snapshot.usage.get(piece.id, ())
    fits = group is not None and (len(usage) == group.hosts_per_slice or (len(usage) == 1 and usage[0].reserved is None))
    return fits and all(host.idle for host in usage)


@law
@given(aging_snapshots())
def test_no_more_slices_are_disrupted_than_the_budgets_of_group_and_cluster_allow(snapshot: Snapshot) -> None:
    decision, config, slices = decide(snapshot), snapshot.config, by_id(snapshot)
    begun = [slices[slice_id] for slice_id, cause in replaced(decision).items() if cause != DrainCause.NOTICE]
    ordered = [slices[launch.replaces] for launch in decision.launches if launch.replaces]
    new = [piece for piece in begun if not any(other.replaces == piece.id for other in snapshot.slices)]
    new += [piece for piece in ordered if replaced(decision).get(piece.id) != DrainCause.NOTICE]
    underway = [
        p for p in snapshot.slices if p.state.was_ready and p.drain and p.drain.known_cause and p.drain.known_cause.voluntary
    ]
    had = Counter(piece.group for piece in underway)
    for more in (new, begun):
        for group in config.groups:
            ready = sum(piece.group == group.name and piece.state.was_ready for piece in snapshot.slices)
            here = [piece for piece in more if piece.group == group.name]
            together = gangs_counted_as_one(snapshot, here)
            assert not here or had[group.name] + together <= share_of(group.max_unavailable, ready)
        ready = sum(piece.state.was_ready for piece in snapshot.slices)
        assert not more or len(underway) + gangs_counted_as_one(snapshot, more) <= share_of(config.max_unavailable, ready)


def gangs_counted_as_one(snapshot: Snapshot, slices: list[Slice]) -> int:
    """A gang's slices return home as one."""
    gangs = [frozenset(gang for host in snapshot.usage.get(piece.id, ()) for gang in host.gangs) for piece in slices]
    return sum(not gang for gang in gangs) + len({gang for gang in gangs if gang})


@law
@given(aging_snapshots())
def test_a_busy_slice_drains_only_once_its_replacement_is_ready_or_for_a_notice(snapshot: Snapshot) -> None:
    slices = by_id(snapshot)
    there = {piece.replaces for piece in snapshot.slices if piece.state is SliceState.READY and not piece.drains}
    for slice_id, cause in replaced(decide(snapshot)).items():
        assert cause == DrainCause.NOTICE or is_idle(snapshot, slices[slice_id]) or slice_id in there


@law
@given(aging_snapshots())
def test_outside_the_window_only_notices_drain(snapshot: Snapshot) -> None:
    decision, config = decide(snapshot), snapshot.config
    for slice_id, cause in replaced(decision).items():
        group = config.group(by_id(snapshot)[slice_id].group)
        windows = [window for window in (config.window, group.window if group else None) if window is not None]
        assert cause == DrainCause.NOTICE or all(window.is_open(NOW) for window in windows)


@law
@given(aging_snapshots())
def test_a_notice_drains_at_once_with_its_deadline_whatever_protects_the_slice(snapshot: Snapshot) -> None:
    drains = {drain.slice_id: drain for drain in decide(snapshot).drains}
    for piece in snapshot.slices:
        if piece.notice is not None and piece.state.live and piece.drain is None:
            assert drains[piece.id].cause == DrainCause.NOTICE
            assert drains[piece.id].deadline == piece.notice.until


@law
@given(aging_snapshots())
def test_a_protected_slice_is_not_replaced(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    for slice_id, cause in replaced(decision).items():
        assert cause == DrainCause.NOTICE or not is_protected(slices[slice_id], snapshot.usage.get(slice_id, ()), NOW)


@law
@given(aging_snapshots())
def test_a_replacement_takes_no_demand_before_the_slice_that_it_replaces_drains(snapshot: Snapshot) -> None:
    reserved = Fleet(snapshot).replacements.reserved
    assert set(decide(snapshot).holding).isdisjoint(reserved)


@law
@given(aging_snapshots())
def test_no_slice_is_replaced_twice_and_every_replacement_has_a_slice_to_replace(snapshot: Snapshot) -> None:
    decision, slices = decide(snapshot), by_id(snapshot)
    ordered = [launch for launch in decision.launches if launch.replaces]
    assert len({launch.replaces for launch in ordered}) == len(ordered)
    for launch in ordered:
        assert launch.cause in (Cause.REPLACEMENT, Cause.RETURN_HOME)
        assert launch.slices == 1
        assert slices[launch.replaces].state is SliceState.READY


@law
@given(aging_snapshots())
def test_replacement_exceeds_no_maximum(snapshot: Snapshot) -> None:
    wanted = opened(decide(snapshot))
    existing = Counter(piece.group for piece in snapshot.slices)
    for group in snapshot.config.groups:
        assert not wanted[group.name] or existing[group.name] + wanted[group.name] <= group.max_slices
    most = snapshot.config.max_slices
    assert most is None or not wanted.total() or len(snapshot.slices) + wanted.total() <= most


@law
@given(aging_snapshots())
def test_once_carried_out_no_further_slice_is_replaced(snapshot: Snapshot) -> None:
    first = decide(snapshot)
    second = decide(after(snapshot, first))
    if not first.deferred and KeptCode.NO_REPLACEMENT not in {each.code for each in first.withheld}:
        assert not replaced(second)
        assert not any(launch.replaces for launch in second.launches)


@law
@given(aging_snapshots(), shares)
def test_time_alone_replaces_nothing_before_next_change_at(snapshot: Snapshot, share: float) -> None:
    decision = decide(snapshot)
    assert decision.next_change_at is None or decision.next_change_at > snapshot.now
    later = moment_before(decision.next_change_at, snapshot.now, share)
    assert orders(decide(snapshot.model_copy(update={"now": later}))) == orders(decision)


@law
@given(aging_snapshots())
def test_a_slice_goes_once_what_it_waits_for_is_taken_away(snapshot: Snapshot) -> None:
    """With a budget for all, no windows, no heads, and nothing that runs there."""
    waits = (KeptCode.BUDGET, KeptCode.WINDOW, KeptCode.REPLACEMENT, KeptCode.NO_REPLACEMENT, KeptCode.UNCONFIRMED)
    reasons, slices = Fleet(snapshot).replacements.reasons, by_id(snapshot)
    waiting = [each.slice_id for each in decide(snapshot).withheld if each.code in waits and each.slice_id in reasons]
    free = {"max_unavailable": 1000, "window": None}
    groups = tuple(group.model_copy(update=free | {"protect_first": False}) for group in snapshot.config.groups)
    config = snapshot.config.model_copy(update=free | {"groups": groups, "return_home": None})
    for slice_id in (each for each in waiting if reasons[each].cause is not DrainCause.RETURN_HOME):
        group = config.group(slices[slice_id].group)
        assert group is not None
        idle = slices[slice_id].changed(idle_since=NOW, unconfirmed_at=None, replaces="")
        changes = {
            "config": config,
            "slices": tuple(idle if piece.id == slice_id else piece for piece in snapshot.slices),
            "usage": snapshot.usage | {slice_id: (IDLE,) * group.hosts_per_slice},
            "stale_at": {},
        }
        assert slice_id in {drain.slice_id for drain in decide(snapshot.model_copy(update=changes)).drains}


@law
@given(aging_snapshots(), st.sampled_from(ScaleDown))
def test_every_slice_leaves_or_is_kept_for_a_reason(snapshot: Snapshot, scale_down: ScaleDown) -> None:
    snapshot = snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"scale_down": scale_down})})
    decision = decide(snapshot)
    kept = kept_of(snapshot, decision)
    drained = {drain.slice_id for drain in decision.drains} if scale_down is ScaleDown.ON else set()
    expected = {p.id for p in snapshot.slices if p.id not in drained and not is_leaving(p)} | set(decision.cancelled_drains)
    assert {each.slice_id for each in kept} == expected
    assert all(each.reasons for each in kept)


@law
@given(aging_snapshots())
def test_with_scale_down_observe_no_replacement_is_ordered_and_no_slice_waits_for_one(snapshot: Snapshot) -> None:
    observing = snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"scale_down": ScaleDown.OBSERVE})})
    assert not any(launch.replaces for launch in decide(observing).launches)
    assert not Fleet(observing).replacements.reserved


@law
@given(aging_snapshots())
def test_at_most_one_slice_or_gang_returns_home_at_a_time_and_only_to_a_better_group(snapshot: Snapshot) -> None:
    decision, config, slices = decide(snapshot), snapshot.config, by_id(snapshot)
    returning = [slices[launch.replaces] for launch in decision.launches if launch.cause is Cause.RETURN_HOME]
    assert gangs_counted_as_one(snapshot, returning) <= 1
    for piece in returning:
        home, here = config.group(piece.home), config.group(piece.group)
        assert home is not None
        assert here is not None
        assert home.price_per_hour is not None
        assert here.price_per_hour is not None
        assert home.priority < here.priority or home.price < here.price


def test_the_windows_of_these_laws_are_open_and_closed_now() -> None:
    assert OPEN.is_open(NOW)
    assert not CLOSED.is_open(NOW)
    assert CLOSED.next_edge(NOW) == NOW + timedelta(hours=2)


@law
@given(aging_snapshots())
def test_a_notice_for_a_busy_slice_orders_one_more_at_most_if_nothing_waits(snapshot: Snapshot) -> None:
    """Its replacement is also what the floors of its group lack without it. No other slice is to be replaced."""
    slices = tuple(p.changed(fingerprint="", replaces="", home="", notice=None, degraded_since=None) for p in snapshot.slices)
    alone = {"workload": Workload(), "standing": (), "sources": {}, "slices": slices, "config": as_small_as_it_may(snapshot)}
    quiet = snapshot.model_copy(update=alone)
    before = Counter(decide(quiet).launched())
    for piece in quiet.slices:
        works = any(not host.idle for host in quiet.usage.get(piece.id, ()))
        if works and piece.state is SliceState.READY and piece.drain is None:
            taken = piece.changed(notice=Notice(kind=NoticeKind.MAINTENANCE, until=NOW + timedelta(minutes=5)))
            slices = tuple(taken if each is piece else each for each in quiet.slices)
            after = Counter(decide(quiet.model_copy(update={"slices": slices})).launched())
            assert after.total() <= before.total() + 1, (piece.id, before, after)


def as_small_as_it_may(snapshot: Snapshot) -> ClusterConfig:
    """The configuration with all slices that serve as the minimums of their groups, and room for more."""
    had = Counter(piece.group for piece in snapshot.slices if piece.state.serves and not piece.drains)
    groups = (
        group.model_copy(
            update={"min_slices": had[group.name], "max_slices": group.max_slices + len(snapshot.slices), "max_age_seconds": None}
        )
        for group in snapshot.config.groups
    )
    return snapshot.config.model_copy(update={"groups": tuple(groups), "max_slices": None})
