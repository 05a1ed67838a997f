"""Laws of consolidation: what holds for the moves of any finished plan."""

from collections import Counter, defaultdict
from datetime import timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.core.decision.decide import decide
from penstock.core.decision.prices import cost_of
from penstock.model.cluster import ClusterConfig, GroupDevice, ScaleGroup
from penstock.model.demand import Workload
from penstock.model.demand_builder import DemandBuilder
from penstock.model.elasticity import Consolidation
from penstock.model.resources import Resources
from penstock.model.shape import DeviceType, Shape
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.consolidating import consolidated
from tests.core.decision.generators import NOW, mostly, rarely, seldom
from tests.core.decision.test_laws import law, moment_before, opened, shares

SETTLE = 600
past = st.sampled_from((0, 1, SETTLE - 1, SETTLE, SETTLE + 1)).map(lambda seconds: NOW - timedelta(seconds=seconds))
future = st.sampled_from((1, SETTLE)).map(lambda seconds: NOW + timedelta(seconds=seconds))
leavings = st.sets(st.integers(0, 9), max_size=2).map(lambda numbers: [f"s{number}" for number in sorted(numbers)])


@st.composite
def groups(draw: DrawFn, number: int) -> ScaleGroup:
    tpu = draw(rarely) or draw(rarely)
    gpus = 0 if tpu else draw(st.sampled_from((0, 0, 0, 2)))
    device = DeviceType.TPU if tpu else DeviceType.GPU if gpus else DeviceType.CPU
    most = draw(st.sampled_from((10, 10, 4, 2)))
    return ScaleGroup(
        name=f"g{number}",
        device=GroupDevice(type=device),
        host=Resources(
            cpu=draw(st.sampled_from((4, 4, 8))), memory=draw(st.sampled_from((8, 8, 4))), gpu=gpus, tpu=4 if tpu else 0
        ),
        hosts_per_slice=draw(st.sampled_from((1, 1, 1, 2, 3))),
        min_slices=draw(st.sampled_from((0, 0, 0, 1))),
        max_slices=most,
        warm_slices=draw(st.sampled_from((0, 0, 0, 1))),
        watermark=draw(st.sampled_from((None, None, None, 80))),
        protect_first=draw(seldom),
        zone=draw(st.sampled_from((None, None, None, "us-a"))),
        price_per_hour=draw(st.sampled_from((1.0, 2.0, 2.5, 0.0))),
        priority=draw(st.sampled_from((100, 0))),
    )


@st.composite
def hosts(draw: DrawFn, group: ScaleGroup) -> HostUsage:
    """Usage of a host that reserves no more than there is."""
    if draw(seldom):
        return HostUsage(state=HostState.IDLE)
    offer = group.host
    tasks = draw(st.integers(1, 3))
    reserved = Resources(
        cpu=draw(st.sampled_from((0.5, 1, 1, 2, 3, 4))),
        memory=draw(st.integers(0, 4)),
        gpu=draw(st.sampled_from((0, 0.5, 1, 2))) if offer.gpu_milli else 0,
        tpu=draw(st.sampled_from((0, 4))) if offer.tpu_chips else 0,
    )
    return HostUsage(
        state=HostState.DEGRADED if draw(rarely) else None,
        tasks=() if draw(rarely) else tuple(f"t{n}" for n in range(tasks)),
        reserved=None if draw(rarely) else reserved,
        gangs=("gang",) if draw(rarely) else (),
        do_not_disrupt=draw(rarely),
    )


@st.composite
def pieces(draw: DrawFn, number: int, config: ClusterConfig) -> Slice:
    state = SliceState.READY if draw(mostly) or draw(mostly) else draw(st.sampled_from(SliceState))
    drain = DrainTerms(cause=draw(st.sampled_from((DrainCause.CONSOLIDATION, DrainCause.IDLE))), number=number)
    return Slice(
        id=f"s{number}",
        group=draw(st.sampled_from([group.name for group in config.groups])),
        state=state,
        since=draw(st.none() | past) if draw(seldom) else None,
        received_at=draw(past) if draw(seldom) else None,
        drain=drain if state.was_ready and draw(rarely) else None,
        kept_until=draw(past | future) if draw(rarely) else None,
        cordoned=draw(rarely),
    )


@st.composite
def busy_snapshots(draw: DrawFn) -> Snapshot:
    """A snapshot of slices with named loads that compete for each other's room."""
    listed = tuple(draw(groups(number)) for number in draw(st.permutations(range(draw(st.integers(1, 4))))))
    settings = Consolidation(settle=SETTLE, least_saving_per_hour=draw(st.sampled_from((0, 0, 2))))
    config = ClusterConfig(cluster="test", groups=listed, consolidation=settings)
    slices = tuple(draw(pieces(number, config)) for number in range(draw(st.integers(2, 10))))
    by_name = {group.name: group for group in listed}
    usage = {}
    for piece in slices:
        group = by_name[piece.group]
        if not draw(rarely):
            usage[piece.id] = tuple(draw(hosts(group)) for _ in range(group.hosts_per_slice))
    stale_at = {piece.id: draw(past | future) for piece in slices if draw(rarely)}
    return Snapshot(
        config=config,
        now=NOW,
        slices=slices,
        usage=usage,
        stale_at=stale_at,
        workload=draw(workloads()) if draw(seldom) else Workload(),
    )


@st.composite
def workloads(draw: DrawFn) -> Workload:
    builder = DemandBuilder()
    for _ in range(draw(st.integers(1, 2))):
        entries = draw(st.integers(1, 3))
        shape = Shape(resources=Resources(cpu=draw(st.sampled_from((0.5, 1, 2)))))
        builder.add(shape, ["task"] * entries, entries=entries)
    return builder.build().workload


def by_id(snapshot: Snapshot) -> dict[str, Slice]:
    return {piece.id: piece for piece in snapshot.slices}


def group_of(snapshot: Snapshot, slice_id: str) -> ScaleGroup:
    group = snapshot.config.group(by_id(snapshot)[slice_id].group)
    assert group is not None
    return group


def ended(snapshot: Snapshot, gone: set[str]) -> Snapshot:
    return snapshot.model_copy(update={"slices": tuple(piece for piece in snapshot.slices if piece.id not in gone)})


@law
@given(busy_snapshots())
def test_the_loads_of_all_moves_fit_their_receivers_together(snapshot: Snapshot) -> None:
    found = consolidated(snapshot)
    coming: dict[tuple[str, int], list[HostUsage]] = defaultdict(list)
    for move in found.moves:
        busy = [host for host in snapshot.usage[move.piece.id] if not host.idle]
        for ref, load in zip(move.hosts, busy, strict=True):
            coming[ref].append(load)
    for (slice_id, i), loads in coming.items():
        group, here = group_of(snapshot, slice_id), snapshot.usage[slice_id][i]
        present = [] if here.idle else [here]
        vectors = [host.reserved.vector for host in (*present, *loads) if host.reserved is not None]
        assert len(vectors) == len(present) + len(loads)
        for d, offer in enumerate(group.host.vector):
            assert sum(vector[d] for vector in vectors) <= offer
        if group.hosts_alone and any(vector[-1] for vector in vectors):
            assert len(vectors) == 1, "a host whose chips are used is used by one load"


@law
@given(busy_snapshots(), leavings)
def test_no_receiver_is_emptied_or_leaves_and_each_is_busy_and_of_the_same_kind(snapshot: Snapshot, leaving: list[str]) -> None:
    moves = consolidated(snapshot, leaving=leaving).moves
    receivers = {slice_id for move in moves for slice_id in move.receivers}
    assert receivers.isdisjoint(move.piece.id for move in moves)
    assert not receivers & set(leaving)
    assert not {move.piece.id for move in moves} & set(leaving)
    slices = by_id(snapshot)
    for move in moves:
        giver = group_of(snapshot, move.piece.id)
        for slice_id in move.receivers:
            piece, group = slices[slice_id], group_of(snapshot, slice_id)
            assert piece.state is SliceState.READY
            assert piece.drain is None
            assert not piece.cordoned
            assert any(not host.idle for host in snapshot.usage[slice_id])
            assert not any(host.state is HostState.DEGRADED for host in snapshot.usage[slice_id])
            assert snapshot.stale_at.get(slice_id, NOW + timedelta(days=1)) > NOW
            assert (group.device, group.zone, group.preemptible) == (giver.device, giver.zone, giver.preemptible)


@law
@given(busy_snapshots())
def test_only_ready_slices_with_named_loads_that_nothing_keeps_are_emptied(snapshot: Snapshot) -> None:
    for move in consolidated(snapshot).moves:
        piece, usage = move.piece, snapshot.usage[move.piece.id]
        busy = [host for host in usage if not host.idle]
        assert piece.state is SliceState.READY
        assert piece.drain is None
        assert not piece.cordoned
        assert piece.kept_until is None or piece.kept_until <= NOW
        assert busy
        assert all(host.tasks and host.reserved is not None for host in busy)
        assert not any(host.gangs or host.do_not_disrupt or host.state is HostState.DEGRADED for host in usage)
        assert snapshot.stale_at.get(piece.id, NOW + timedelta(days=1)) > NOW
        for moment in (piece.received_at, piece.since):
            assert moment is None or moment + timedelta(seconds=SETTLE) <= NOW


@law
@given(busy_snapshots(), st.integers(0, 3))
def test_the_cost_falls_by_exactly_what_the_moves_save(snapshot: Snapshot, most: int) -> None:
    moves = consolidated(snapshot, most=most).moves
    assert len(moves) <= most
    settings = snapshot.config.consolidation
    assert settings is not None
    for move in moves:
        assert move.saving > 0
        assert move.saving >= settings.least_saving_per_hour
    left = ended(snapshot, {move.piece.id for move in moves})
    saved = cost_of(snapshot.slices, snapshot.config) - cost_of(left.slices, snapshot.config)
    assert round(saved, 9) == round(sum(move.saving for move in moves), 9)


@law
@given(busy_snapshots())
def test_without_consolidation_nothing_moves(snapshot: Snapshot) -> None:
    off = snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"consolidation": None})})
    found = consolidated(off)
    assert (found.moves, found.outgrown, found.next_at) == ((), (), None)


@law
@given(busy_snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_groups_and_of_reports_is_irrelevant(snapshot: Snapshot, random: Random) -> None:
    listed, named = list(snapshot.config.groups), list(snapshot.usage.items())
    random.shuffle(listed)
    random.shuffle(named)
    config = snapshot.config.model_copy(update={"groups": tuple(listed)})
    assert consolidated(snapshot.model_copy(update={"config": config, "usage": dict(named)})) == consolidated(snapshot)


@law
@given(busy_snapshots())
def test_once_the_moves_are_made_nothing_is_launched_and_every_floor_holds(snapshot: Snapshot) -> None:
    moves = consolidated(snapshot).moves
    if not moves:
        return
    usage = dict(snapshot.usage)
    for move in moves:
        busy = [host for host in usage[move.piece.id] if not host.idle]
        for ref, load in zip(move.hosts, busy, strict=True):
            there = list(usage[ref.slice_id])
            there[ref.host] = joined(there[ref.host], load)
            usage[ref.slice_id] = tuple(there)
    gone = {move.piece.id for move in moves}
    groups = {move.piece.group for move in moves}
    after = decide(ended(snapshot, gone).model_copy(update={"usage": {k: v for k, v in usage.items() if k not in gone}}))
    assert groups.isdisjoint(opened(after))
    have = Counter(
        piece.group for piece in snapshot.slices if piece.id not in gone and piece.state.serves and piece.drain is None
    )
    for name in groups:
        group = snapshot.config.group(name)
        assert group is not None
        assert have[name] >= group.min_slices


def joined(here: HostUsage, load: HostUsage) -> HostUsage:
    """The usage of a host once a load has moved there."""
    assert load.reserved is not None
    vectors = [host.reserved.vector for host in (here, load) if host.reserved is not None]
    cpu, memory, disk, gpu, tpu = (sum(column) for column in zip(*vectors, strict=True))
    tasks = (*here.tasks, *load.tasks)
    return here.model_copy(update={"state": None, "tasks": tasks, "reserved": Resources.of((cpu, memory, disk, gpu, tpu))})


@law
@given(busy_snapshots())
def test_what_was_ordered_still_fits_at_the_next_decision_and_no_receiver_is_emptied_then(snapshot: Snapshot) -> None:
    alone = snapshot.model_copy(update={"workload": Workload()})
    alone = ended(alone, {piece.id for piece in alone.slices if piece.drain is not None})
    first = consolidated(alone)
    moving, receivers = {move.piece.id for move in first.moves}, {s for move in first.moves for s in move.receivers}
    terms = DrainTerms(cause=DrainCause.CONSOLIDATION)
    slices = [piece.changed(drain=terms) if piece.id in moving else piece for piece in alone.slices]
    carried = tuple(piece.changed(received_at=NOW) if piece.id in receivers else piece for piece in slices)
    second = consolidated(alone.model_copy(update={"slices": carried}))
    assert second.outgrown == ()
    assert receivers.isdisjoint(move.piece.id for move in second.moves)
    again = consolidated(alone.model_copy(update={"slices": carried, "now": NOW + timedelta(seconds=SETTLE - 1)}))
    assert receivers.isdisjoint(move.piece.id for move in again.moves)


@law
@given(busy_snapshots(), shares)
def test_time_alone_changes_no_move_before_the_moment_that_is_named(snapshot: Snapshot, share: float) -> None:
    found = consolidated(snapshot)
    assert found.next_at is None or found.next_at > NOW
    ends = [piece.kept_until for piece in snapshot.slices if piece.kept_until is not None and piece.kept_until > NOW]
    ends += [] if found.next_at is None else [found.next_at]
    later = moment_before(min(ends, default=None), NOW, share)
    again = consolidated(snapshot.model_copy(update={"now": later}))
    assert (again.moves, again.outgrown) == (found.moves, found.outgrown)
