"""Adversarial benchmark: the inputs that make an evaluation longest, as large as the limits of messages allow."""

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from bench.measuring import output_of, progress, timed
from bench.verdicts import Status, Verdict
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig, Placement, Pool, ScaleGroup
from penstock.model.demand_builder import DemandBuilder
from penstock.model.shape import Shape
from penstock.model.slices import HostState, HostUsage, Slice, SliceState, StandingRequest
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MIB = 1024**2
LONGEST_SECONDS = 30.0
"""Half of the time after which an attempt is given up."""


class Scale(NamedTuple):
    """How large the inputs are; tests use smaller ones."""

    tasks: int = 100_000
    slices: int = 5_000
    groups: int = 300


class AdversarialResult(Value):
    """One decision."""

    workload: str
    placement: Placement
    cpu_seconds: float
    placed: int
    unmet: int
    thorough: bool


Case = Callable[[Scale, Placement], Snapshot]


def run_adversarial(*, quick: bool) -> list[AdversarialResult]:
    """Decide every case with every placement, each in a process of its own."""
    found = []
    for name in QUICK if quick else CASES:
        for placement in Placement:
            result = AdversarialResult.model_validate_json(output_of("bench.adversarial", name, placement))
            progress(
                f"adversarial {name} {placement}: {result.cpu_seconds:.2f} s{'' if result.thorough else ', cheaper methods'}"
            )
            found.append(result)
    return found


def adversarial_verdicts(results: Sequence[AdversarialResult]) -> list[Verdict]:
    """The target: no input makes an evaluation longer than half of its timeout."""
    worst = max(results, key=lambda row: row.cpu_seconds)
    late = [row for row in results if row.cpu_seconds > LONGEST_SECONDS]
    return [
        Verdict(
            target=f"no input takes longer than {LONGEST_SECONDS:g} s to decide",
            status=Status.MISSED if late else Status.REACHED,
            figures=f"worst {worst.workload} {worst.placement}: {worst.cpu_seconds:.2f} s",
            misses=tuple(f"{row.workload} {row.placement}: {row.cpu_seconds:.2f} s" for row in late),
        )
    ]


def measure(name: str, placement: Placement) -> AdversarialResult:
    """Decide one case in this process."""
    seconds, decision = timed(lambda: CASES[name](Scale(), placement), decide, repeats=1)
    return AdversarialResult(
        workload=name,
        placement=placement,
        cpu_seconds=seconds[0],
        placed=sum(placed.span.entries for placed in decision.placed),
        unmet=sum(unmet.entries for unmet in decision.unmet),
        thorough=decision.thorough,
    )


# --- parts of inputs ---------------------------------------------------------------------------------------------


def _groups(count: int, *, hosts: int = 4, most: int = 1_000_000, pools: int = 0, **fields: Any) -> tuple[ScaleGroup, ...]:
    """Groups of which no two have equal hosts, prices or attributes."""
    draw = random.Random(1)
    return tuple(
        ScaleGroup(
            name=f"g{i:04d}",
            host={
                "cpu": 16 + i % 97,
                "memory": (64 + i % 89) * 1024 * MIB,
                "disk": (100 + i % 83) * 1024 * MIB,
                "gpu": 8 if pools else 0,
            },
            hosts_per_slice=hosts,
            max_slices=most,
            price_per_hour=round(draw.uniform(1, 2), 6),
            zone=f"zone{i}-{'abc'[i % 3]}",
            attributes={f"a{k}": i % (k + 2) for k in range(8)} | {"row": f"row-number-{i}"},
            pool=f"p{i % pools}" if pools else None,
            **fields,
        )
        for i in range(count)
    )


def _sizes(count: int) -> list[Shape]:
    """Shapes of which no two have the same size."""
    draw = random.Random(7)
    return [
        Shape(
            resources={
                "cpu": draw.randint(100, 8000) / 1000,
                "memory": (256 + i) * 65536,
                "disk": draw.randint(1, 20_000) * MIB,
            }
        )
        for i in range(count)
    ]


def _with(shapes: Sequence[Shape], make: Callable[[int], dict[str, Any]]) -> list[Shape]:
    """The shapes, each with further requirements by its number."""
    found = []
    for i, shape in enumerate(shapes):
        parsed = Shape(**make(i))
        found.append(shape.model_copy(update={name: getattr(parsed, name) for name in parsed.model_fields_set}))
    return found


def _snapshot(
    placement: Placement,
    groups: tuple[ScaleGroup, ...],
    shapes: Sequence[Shape],
    *,
    slices: int = 0,
    state: SliceState = SliceState.READY,
    standing: tuple[StandingRequest, ...] = (),
    **config: Any,
) -> Snapshot:
    """Demand of one task of every shape, or of whole gangs, with existing slices of all groups in turn."""
    builder = DemandBuilder()
    for i, shape in enumerate(shapes):
        gang = (f"gang-{i}",) if shape.gang else ()
        builder.add(shape, [f"t-{i}-{k}" for k in range(shape.gang.size if shape.gang else 1)], gang_ids=gang)
    pieces = tuple(Slice(id=f"s{i}", group=groups[i % len(groups)].name, state=state) for i in range(slices))
    usage = {piece.id: (HostUsage(state=HostState.IDLE),) for piece in pieces} if state is SliceState.READY else {}
    return Snapshot(
        config=ClusterConfig(cluster="bench", placement=placement, groups=groups, **config),
        now=NOW,
        workload=builder.build().workload,
        slices=pieces,
        usage=usage,
        standing=standing,
    )


# --- cases -------------------------------------------------------------------------------------------------------


def _distinct(scale: Scale, placement: Placement, *, state: SliceState | None, hosts: int = 4) -> Snapshot:
    slices = 0 if state is None else scale.slices
    groups = _groups(scale.groups, hosts=hosts)
    return _snapshot(placement, groups, _sizes(scale.tasks), slices=slices, state=state or SliceState.READY)


def _distinct_tight(scale: Scale, placement: Placement) -> Snapshot:
    return _snapshot(placement, _groups(scale.groups, most=3), _sizes(scale.tasks), slices=3 * scale.groups)


def _one_a_host(scale: Scale, placement: Placement) -> Snapshot:
    """Every task fills more than half of any host, so that as many slices are bought as there are tasks."""
    shapes = [Shape(resources={"cpu": 15.5, "memory": (40_000 * MIB) + i * 1024}) for i in range(scale.tasks)]
    return _snapshot(placement, _groups(scale.groups, hosts=1), shapes)


def _constrained(scale: Scale, placement: Placement, *, soft: bool) -> Snapshot:
    """Every task has constraints of its own, all of which every group satisfies."""

    def constraints(i: int) -> dict[str, Any]:
        return {
            "constraints": [
                {"attribute": f"a{k}", "op": "not_in", "values": [1000 + i, 2000 + k], "soft": soft} for k in range(8)
            ]
        }

    return _snapshot(placement, _groups(scale.groups), _with(_sizes(scale.tasks), constraints), slices=scale.slices)


def _unmatched(scale: Scale, placement: Placement) -> Snapshot:
    """Every task asks for a value that resembles those of all groups."""
    shapes = [Shape(constraints=[{"attribute": "row", "op": "eq", "value": f"row-numer-{i}"}]) for i in range(scale.tasks)]
    return _snapshot(placement, _groups(scale.groups), shapes, slices=scale.slices)


def _subsets(scale: Scale, placement: Placement) -> Snapshot:
    """Every task fits a few groups only, seldom the same ones as another."""
    draw = random.Random(3)

    def constraints(_: int) -> dict[str, Any]:
        rows = [f"row-number-{draw.randrange(scale.groups)}" for _ in range(6)]
        return {"constraints": [{"attribute": "row", "op": "in", "values": rows}]}

    return _snapshot(placement, _groups(scale.groups), _with(_sizes(scale.tasks), constraints))


def _long_lists(scale: Scale, placement: Placement) -> Snapshot:
    count = max(1, scale.tasks // 100)
    lists = ([f"x{k}-{i}" for k in range(count)] for i in range(count))
    shapes = [Shape(constraints=[{"attribute": "row", "op": "not_in", "values": values}]) for values in lists]
    return _snapshot(placement, _groups(scale.groups), shapes)


def _gangs(
    scale: Scale, placement: Placement, *, kind: str, state: SliceState | None, most: int = 1_000_000, largest: int = 10
) -> Snapshot:
    """Gangs of distinct shapes and many sizes."""
    sizes = [2 + i % (largest - 1) for i in range(scale.tasks)]
    count = next((i for i in range(len(sizes)) if sum(sizes[: i + 1]) > scale.tasks), len(sizes)) if largest < 100 else 200
    shapes = _with(_sizes(count), lambda i: {"gang": {"size": sizes[i], "placement": kind}})
    slices = 0 if state is None else scale.slices
    groups = _groups(scale.groups, hosts=1, most=most)
    return _snapshot(placement, groups, shapes, slices=slices, state=state or SliceState.READY)


def _impossible(scale: Scale, placement: Placement, *, kind: str) -> Snapshot:
    """Gangs of which each nearly fits into the maximum of the cluster."""
    size = max(2, scale.tasks // 1000)
    shapes = _with(_sizes(scale.tasks // size), lambda _: {"gang": {"size": size, "placement": kind}})
    return _snapshot(placement, _groups(scale.groups, hosts=1, most=size), shapes, max_slices=size - 1)


def _standing(scale: Scale, placement: Placement, *, owners: int, items: int, most: int) -> Snapshot:
    owners, items = min(owners, scale.tasks), min(items, scale.tasks)
    number = iter(range(owners * items))
    requests = tuple(
        StandingRequest(
            owner=f"o{i}", wants=[{"resources": {"cpu": (1000 + next(number)) / 1000}, "count": 5} for _ in range(items)]
        )
        for i in range(owners)
    )
    return _snapshot(placement, _groups(scale.groups, hosts=1, most=most), _sizes(scale.tasks // 100), standing=requests)


def _floors(scale: Scale, placement: Placement) -> Snapshot:
    hosts = 16
    return _snapshot(placement, _groups(scale.groups, hosts=hosts, min_slices=100), _sizes(scale.tasks // 100))


def _pooled(scale: Scale, placement: Placement, *, gangs: bool) -> Snapshot:
    """Pools that are exhausted, so that every reason names who holds them."""
    count = max(1, scale.groups // 3)
    pools = tuple(Pool(name=f"p{i}", chips=1600) for i in range(count))
    shapes = _sizes(scale.tasks // 5 if gangs else scale.tasks)
    shapes = _with(shapes, lambda i: {"gang": {"size": 201 + i % 5000}}) if gangs else shapes
    builder_size = shapes[: max(1, scale.tasks // 2700)] if gangs else shapes
    groups = _groups(scale.groups, hosts=1, most=100, pools=count)
    return _snapshot(placement, groups, builder_size, slices=scale.slices, pools=pools)


def _mixed(scale: Scale, placement: Placement) -> Snapshot:
    """Spread gangs, many of them unmet, beside spares and maxima that make a plan be made anew."""
    gangs = _with(_sizes(scale.tasks // 50), lambda i: {"gang": {"size": 2 + i % 50, "placement": "spread"}})
    groups = _groups(scale.groups, hosts=1, most=5, watermark=50, warm_slices=1)
    return _snapshot(placement, groups, [*gangs, *_sizes(scale.tasks // 20)], slices=scale.groups, max_slices=4 * scale.groups)


_STATES = {"ready": SliceState.READY, "in-flight": SliceState.BOOTING, "new": None}

CASES: dict[str, Case] = {
    **{f"distinct/{name}": partial(_distinct, state=state) for name, state in _STATES.items()},
    "distinct/large-slices": partial(_distinct, state=SliceState.READY, hosts=64),
    "distinct/tight": _distinct_tight,
    "distinct/one-a-host": _one_a_host,
    "constraints/hard": partial(_constrained, soft=False),
    "constraints/soft": partial(_constrained, soft=True),
    "constraints/unmatched": _unmatched,
    "constraints/subsets": _subsets,
    "constraints/long-lists": _long_lists,
    **{
        f"gangs/{kind}/{name}": partial(_gangs, kind=kind, state=state)
        for kind in ("whole_slices", "spread", "pack")
        for name, state in _STATES.items()
    },
    "gangs/large-spread": partial(_gangs, kind="spread", state=SliceState.READY, largest=1000),
    "gangs/large-pack": partial(_gangs, kind="pack", state=SliceState.READY, largest=1000),
    "gangs/tight": partial(_gangs, kind="whole_slices", state=SliceState.READY, most=17),
    "gangs/impossible-spread": partial(_impossible, kind="spread"),
    "gangs/impossible-pack": partial(_impossible, kind="pack"),
    "gangs/mixed": _mixed,
    "standing/owners": partial(_standing, owners=3000, items=1, most=1_000_000),
    "standing/items": partial(_standing, owners=1, items=5000, most=1_000_000),
    "standing/refused": partial(_standing, owners=3000, items=1, most=2),
    "floors": _floors,
    "pools": partial(_pooled, gangs=False),
    "pools/gangs": partial(_pooled, gangs=True),
}
QUICK = ("distinct/ready", "constraints/unmatched", "gangs/whole_slices/ready", "standing/refused")


def main() -> None:
    """Measure the case and placement named on the command line, for `run_adversarial`."""
    name, placement = sys.argv[1:]
    print(measure(name, Placement(placement)).model_dump_json())


if __name__ == "__main__":
    main()
