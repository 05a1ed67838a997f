"""Hypothesis strategies for small snapshots whose groups, slices and runs compete for the same capacity."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.model.cluster import ClusterConfig, GroupDevice, Limits, Placement, Pool, ScaleGroup
from penstock.model.constraints import Constraint, Operator
from penstock.model.demand import Workload
from penstock.model.demand_builder import DemandBuilder
from penstock.model.left_behind import LeftBehind
from penstock.model.resources import Resources
from penstock.model.runs import Fault, FaultCode, HostRef
from penstock.model.shape import Device, DeviceType, Gang, GangPlacement, Shape
from penstock.model.slices import (
    Availability,
    DrainTerms,
    Health,
    HostState,
    HostUsage,
    RecentLaunch,
    Slice,
    SliceState,
    StandingItem,
    StandingRequest,
)
from penstock.model.snapshot import Snapshot, SourceTerms

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE, GRACE = 600, 120
ZONES = ("us-a", "us-b", "eu-a")
VARIANTS = ("small", "large")
SOURCES = ("early", "late")
POOLS = ("pool-0", "pool-1")
BROKEN = "broken"
"""The message of faults."""

mostly = st.integers(0, 3).map(bool)
seldom = st.integers(0, 3).map(lambda number: number == 3)
rarely = st.integers(0, 24).map(lambda number: number == 24)
moments = st.integers(-8, 8).map(lambda step: NOW + timedelta(seconds=step * GRACE / 2))
past = st.sampled_from((0, 1, GRACE - 1, GRACE, GRACE + 1, PATIENCE - 1, PATIENCE, PATIENCE + 1)).map(
    lambda seconds: NOW - timedelta(seconds=seconds)
)


@st.composite
def limits(draw: DrawFn) -> Limits:
    if draw(mostly):
        return Limits()
    number = st.none() | st.integers(1, 3)
    return Limits(in_flight=draw(number), creates_per_minute=draw(number), growth=draw(st.none() | st.sampled_from((0.5, 1.0))))


@st.composite
def groups(draw: DrawFn, number: int, *, priced: bool, limited: bool) -> ScaleGroup:
    device = draw(st.sampled_from(DeviceType))
    accelerators = {} if device is DeviceType.CPU else {str(device): draw(st.integers(1, 4))}
    if device is DeviceType.CPU and draw(rarely):
        accelerators = {"gpu": 1}
    host = Resources(
        cpu=draw(st.sampled_from((2, 1, 3, 4))),
        memory=draw(st.sampled_from((4, 2, 3, 0))),
        disk=draw(st.sampled_from((0, 0, 4))),
        **accelerators,
    )
    price = st.sampled_from((0.0, 1.0, 1.0, 2.0, 3.5) if draw(seldom) else (1.0, 1.0, 2.0, 3.5))
    most = draw(st.sampled_from((2, 1, 3, 4, 4, 0)))
    quota_pool = draw(st.none() | st.sampled_from(("quota-0", "quota-1")))
    return ScaleGroup(
        name=f"g{number}",
        device=GroupDevice(type=device, variant=draw(st.sampled_from(VARIANTS)) if accelerators and device != "cpu" else None),
        host=host,
        hosts_per_slice=draw(st.integers(1, 3)),
        shared_tpu=draw(seldom),
        min_slices=draw(st.integers(0, most)) if draw(rarely) else 0,
        max_slices=most,
        warm_slices=draw(st.integers(0, 2)) if draw(seldom) else 0,
        priority=draw(st.sampled_from((100, 0, 1))),
        preemptible=draw(seldom),
        zone=draw(st.none() | st.sampled_from(ZONES)),
        attributes={"disk": draw(st.sampled_from(("ssd", 1, 2)))} if draw(seldom) else {},
        price_per_hour=draw(price) if priced or draw(mostly) else None,
        pool=draw(st.none() | st.sampled_from(POOLS)) if accelerators else None,
        quota_pool=quota_pool,
        quota_tier=draw(st.integers(0, 2)) if quota_pool else 0,
        watermark=draw(st.sampled_from((1, 34, 50, 99, 100))) if draw(seldom) else None,
        limits=draw(limits()) if limited else Limits(),
        patience=draw(st.none() | st.just(GRACE)),
    )


@st.composite
def configs(draw: DrawFn, placements: Sequence[Placement], *, limited: bool) -> ClusterConfig:
    placement = draw(st.sampled_from(placements))
    numbers = draw(st.permutations(range(draw(st.integers(1, 5)))))
    priced = placement is Placement.COST
    listed = tuple(draw(groups(number, priced=priced, limited=limited)) for number in numbers)
    floor = sum(group.min_slices for group in listed)
    pools = []
    for name in draw(st.permutations(POOLS)):
        chips = draw(st.sampled_from((8, 4, 6, 12, 16, 16, 0)))
        pools.append(Pool(name=name, chips=chips, system=draw(st.integers(0, chips)) if draw(seldom) else 0))
    return ClusterConfig(
        cluster="test",
        placement=placement,
        max_slices=draw(st.none() | st.integers(floor, floor + 6)),
        limits=draw(limits()) if limited else Limits(),
        conserve_accelerators=draw(mostly),
        patience=PATIENCE,
        ready_grace=GRACE,
        unclaimed_after=draw(st.none() | st.just(GRACE)),
        pools=tuple(pools),
        groups=listed,
    )


@st.composite
def constraints(draw: DrawFn) -> Constraint:
    zone = st.sampled_from(ZONES)
    soft = draw(mostly)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Constraint(attribute="zone", op=draw(st.sampled_from((Operator.EQ, Operator.NE))), values=(draw(zone),), soft=soft)
    if kind == 1:
        op = draw(st.sampled_from((Operator.IN, Operator.NOT_IN)))
        return Constraint(attribute="zone", op=op, values=tuple(draw(st.lists(zone, min_size=1, max_size=2))), soft=soft)
    if kind == 2:
        op = draw(st.sampled_from((Operator.EXISTS, Operator.NOT_EXISTS)))
        return Constraint(attribute=draw(st.sampled_from(("zone", "disk"))), op=op, soft=soft)
    if kind == 3:
        op = draw(st.sampled_from((Operator.GT, Operator.GE, Operator.LT, Operator.LE)))
        return Constraint(attribute="disk", op=op, values=(draw(st.integers(1, 2)),), soft=soft)
    attribute, value = draw(st.sampled_from((("region", "us"), ("variant", "small"), ("device", "gpu"), ("preemptible", True))))
    return Constraint(attribute=attribute, op=Operator.EQ, values=(value,), soft=soft)


@st.composite
def gangs(draw: DrawFn) -> Gang:
    placement = draw(st.sampled_from(GangPlacement))
    tasks_per_host = None if placement is GangPlacement.SPREAD else draw(st.none() | st.integers(1, 3))
    return Gang(size=draw(st.integers(1, 6)), placement=placement, tasks_per_host=tasks_per_host)


@st.composite
def requirements(draw: DrawFn, devices: Sequence[DeviceType]) -> dict[str, object]:
    """The fields of a shape, usually for a device that some group has."""
    device = draw(st.sampled_from((*devices, *devices, *devices, *DeviceType)))
    amounts: dict[str, object] = {"cpu": draw(st.sampled_from((0.5, 1, 0.3, 0, 1.5, 2)))}
    amounts["memory"] = draw(st.integers(0, 3)) if draw(seldom) else 0
    amounts["disk"] = draw(st.integers(1, 2)) if draw(rarely) else 0
    if device is DeviceType.GPU:
        amounts["gpu"] = draw(st.sampled_from((1, 0.5, 0.3, 1, 2, 0)))
    if device is DeviceType.TPU:
        amounts["tpu"] = draw(st.sampled_from((1, 1, 2, 4, 0)))
    variants = draw(st.lists(st.sampled_from(VARIANTS), max_size=2, unique=True)) if draw(seldom) and device != "cpu" else []
    return {
        "device": Device(type=device, variants=tuple(variants)),
        "resources": Resources(**amounts),
        "constraints": tuple(draw(st.lists(constraints(), max_size=2))) if draw(seldom) else (),
        "preemptible": draw(st.booleans()) if draw(rarely) else None,
        "gang": draw(gangs()) if draw(seldom) or draw(seldom) else None,
    }


@st.composite
def slices(draw: DrawFn, number: int, names: Sequence[str]) -> Slice:
    state = draw(st.sampled_from((SliceState.READY, SliceState.READY, SliceState.READY, *SliceState)))
    return Slice(
        id=f"s{number}",
        group=draw(st.sampled_from(names)),
        state=state,
        since=draw(st.none() | past),
        queued=state.in_flight and draw(seldom),
        started=state is not SliceState.REQUESTING or draw(mostly),
        drain=DrainTerms(cause="test") if draw(rarely) else None,
        unclaimed=draw(past) if draw(rarely) or draw(rarely) else None,
        left=draw(st.none() | st.builds(LeftBehind, pool=st.sampled_from(POOLS), chips=st.integers(0, 4))),
    )


@st.composite
def host_usages(draw: DrawFn) -> HostUsage:
    reserved = None
    if draw(seldom):
        reserved = Resources(
            cpu=draw(st.sampled_from((0, 0.5, 1))), memory=draw(st.integers(0, 1)), gpu=draw(st.sampled_from((0, 0.5, 1)))
        )
    return HostUsage(
        state=draw(st.sampled_from((HostState.IDLE, HostState.IDLE, HostState.IDLE, None, None, *HostState))),
        reserved=reserved,
        tasks=("running",) if draw(rarely) else (),
        gangs=("gang",) if draw(rarely) else (),
    )


@st.composite
def usages(draw: DrawFn, listed: Sequence[Slice], config: ClusterConfig) -> dict[str, tuple[HostUsage, ...]]:
    found = {}
    for each in draw(st.permutations(listed)):
        group = config.group(each.group)
        if not draw(mostly):
            continue
        hosts = group.hosts_per_slice if group and draw(mostly) else draw(st.integers(0, 3))
        found[each.id] = tuple(draw(host_usages()) for _ in range(hosts))
    return found


@st.composite
def workloads(draw: DrawFn, devices: Sequence[DeviceType], ready: Sequence[str]) -> Workload:
    shapes = [Shape(**draw(requirements(devices))) for _ in range(draw(st.integers(1, 5)))]
    builder = DemandBuilder()
    for _ in range(draw(st.integers(0, 10))):
        shape = draw(st.sampled_from(shapes))
        entries = draw(st.integers(1, 4))
        pending = draw(st.integers(1, shape.gang.size)) if shape.gang else 1
        apart: tuple[HostRef, ...] = ()
        if shape.gang and shape.gang.placement is GangPlacement.SPREAD and ready and draw(seldom):
            refs = st.builds(HostRef, st.sampled_from((*ready, "gone")), st.integers(0, 3))
            apart = tuple(draw(st.lists(refs, min_size=1, max_size=3, unique=True)))
        fault = Fault(code=draw(st.sampled_from(FaultCode)), message=BROKEN) if draw(rarely) else None
        source = draw(st.sampled_from(("", *SOURCES)))
        builder.add(shape, ["task"] * entries * pending, entries=entries, apart=apart, fault=fault, source=source)
    return builder.build().workload


@st.composite
def healths(draw: DrawFn, names: Sequence[str]) -> dict[str, Health]:
    possible = [a for a in Availability if a not in (Availability.AT_MAX, Availability.POOL_EXHAUSTED)]
    possible += [Availability.QUOTA_EXCEEDED] * 2
    unwell = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if draw(seldom) else []
    return {name: Health(availability=draw(st.sampled_from(possible)), until=draw(st.none() | moments)) for name in unwell}


@st.composite
def standing_requests(draw: DrawFn, devices: Sequence[DeviceType]) -> tuple[StandingRequest, ...]:
    if draw(mostly):
        return ()
    owners = draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1, max_size=3))
    found = []
    for owner in owners:
        fields = [draw(requirements(devices)) for _ in range(draw(st.integers(1, 2)))]
        wants = tuple(StandingItem(**each, count=draw(st.integers(1, 3))) for each in fields)
        found.append(StandingRequest(owner=owner, wants=wants, expires=draw(st.none() | moments)))
    return tuple(found)


@st.composite
def source_terms(draw: DrawFn) -> dict[str, SourceTerms]:
    """The terms of some sources of demand: leases and new epochs, over or not."""
    named = draw(st.lists(st.sampled_from(SOURCES), unique=True)) if draw(seldom) else []
    return {name: SourceTerms(lease_ends=draw(st.none() | moments), usage_due=draw(st.none() | moments)) for name in named}


@st.composite
def snapshots(draw: DrawFn, placements: Sequence[Placement] = tuple(Placement), *, limited: bool = False) -> Snapshot:
    """Any snapshot. `limited` adds launch limits."""
    config = draw(configs(placements, limited=limited))
    names = [group.name for group in config.groups]
    devices = [group.device.type for group in config.groups]
    owners = [*names, "forgotten"] if draw(seldom) else names
    listed = tuple(draw(slices(number, owners)) for number in range(draw(st.integers(0, 6))))
    ready = [each.id for each in listed if each.state is SliceState.READY]
    launched = st.builds(RecentLaunch, st.sampled_from(names), st.integers(1, 2), past)
    return Snapshot(
        config=config,
        now=NOW,
        workload=draw(workloads(devices, ready)),
        slices=listed,
        usage=draw(usages(listed, config)),
        sources=draw(source_terms()),
        health=draw(healths(names)),
        standing=draw(standing_requests(devices)),
        launched=tuple(draw(st.lists(launched, max_size=3))) if limited else (),
    )


@st.composite
def shapes_with_and_without_soft_constraints(draw: DrawFn) -> tuple[Shape, Shape]:
    """A shape with additional soft constraints, and the same shape with only its hard ones."""
    fields = draw(requirements(tuple(DeviceType)))
    drawn = draw(st.lists(constraints(), min_size=1, max_size=3))
    soft = tuple(each.model_copy(update={"soft": True}) for each in drawn)
    hard = tuple(each for each in draw(st.lists(constraints(), max_size=1)) if not each.soft)
    return Shape(**(fields | {"constraints": hard + soft})), Shape(**(fields | {"constraints": hard}))
