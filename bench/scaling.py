"""Scaling benchmark: single tasks of distinct sizes, and `pack` gangs on many idle slices, each with twice as many again."""

import random
import sys
from datetime import UTC, datetime

from bench.measuring import output_of, progress, timed
from bench.verdicts import Status, Verdict
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig, Placement, ScaleGroup
from penstock.model.decision import Decision
from penstock.model.demand_builder import DemandBuilder
from penstock.model.shape import Shape
from penstock.model.slices import HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

GIB = 1024**3
NOW = datetime(2026, 11, 1, tzinfo=UTC)
"""Arbitrary: nothing in these workloads has a deadline."""

TASKS = (10_000, 20_000)
GROUPS = 200
KINDS = (1, 8, 200)
"""Distinct machines among the groups; with more than one, every group has a price of its own."""
GANGS = (2_000, 4_000)
GANG_SIZE = 4
IDLE_SLICES = 5_000
REPEATS = 3

DISTINCT_SECONDS = 5.0
GANG_SECONDS = 0.5
TWICE = 2.5
"""The most that twice the tasks may cost, as a multiple of the time."""


class ScalingResult(Value):
    """One placement of one workload, and of the workload with twice the entries."""

    workload: str
    placement: Placement
    entries: int
    cpu_seconds: float
    cpu_seconds_of_twice: float
    slices: int
    cost: float
    thorough: bool

    @property
    def ratio(self) -> float:
        """Time of twice the entries divided by the time."""
        return self.cpu_seconds_of_twice / self.cpu_seconds


def run_scaling(*, quick: bool) -> list[ScalingResult]:
    """Measure every workload with every placement, each in a process of its own."""
    found = []
    for workload in ("pack", *(f"distinct/{kinds}" for kinds in (KINDS[:1] if quick else KINDS))):
        for placement in Placement:
            result = ScalingResult.model_validate_json(output_of("bench.scaling", workload, placement))
            progress(f"scaling {workload} {placement}: {result.cpu_seconds:.3f} s, twice: {result.cpu_seconds_of_twice:.3f} s")
            found.append(result)
    return found


def scaling_verdicts(results: list[ScalingResult]) -> list[Verdict]:
    """Targets for both kinds of workload."""
    distinct = [row for row in results if row.workload != "pack"]
    gangs = [row for row in results if row.workload == "pack"]
    tasks = f"{TASKS[0]:,} distinct sizes × {GROUPS} groups"
    idle = f"{GANGS[0]:,} pack gangs on {IDLE_SLICES:,} idle slices"
    return [
        _at_most(f"{tasks} in {DISTINCT_SECONDS:g} s", [(row, row.cpu_seconds) for row in distinct], DISTINCT_SECONDS),
        _at_most(f"{tasks}: twice the tasks at most {TWICE:g} times", [(row, row.ratio) for row in distinct], TWICE),
        _at_most(f"{idle} in {GANG_SECONDS:g} s", [(row, row.cpu_seconds) for row in gangs], GANG_SECONDS),
    ]


def measure(workload: str, placement: Placement) -> ScalingResult:
    """Measure one workload in this process."""

    def decided(entries: int) -> tuple[float, Decision]:
        def prepare() -> Snapshot:
            if workload == "pack":
                return pack_gangs(entries, placement)
            return distinct_sizes(entries, int(workload.partition("/")[2]), placement)

        seconds, decision = timed(prepare, decide, repeats=REPEATS)
        assert not decision.unmet, f"{workload}: not everything is placed"
        return min(seconds), decision

    once, twice = GANGS if workload == "pack" else TASKS
    seconds, decision = decided(once)
    return ScalingResult(
        workload=workload,
        placement=placement,
        entries=once,
        cpu_seconds=seconds,
        cpu_seconds_of_twice=decided(twice)[0],
        slices=sum(decision.launched().values()),
        cost=round(decision.cost_per_hour.after, 2),
        thorough=decision.thorough,
    )


def distinct_sizes(tasks: int, kinds: int, placement: Placement) -> Snapshot:
    """Single tasks, no two of one size, for groups of `kinds` machines."""
    draw, prices = random.Random(7), random.Random(1)
    sizes: dict[tuple[int, int], None] = {}
    while len(sizes) < tasks:
        sizes[draw.randint(100, 8_000), draw.randint(256, 16_384)] = None
    builder = DemandBuilder()
    for i, (cpu, mebibytes) in enumerate(sizes):
        amounts = {"cpu": cpu / 1000, "memory": mebibytes * 1024**2, "disk": draw.randint(1, 20) * GIB}
        builder.add(Shape(resources=amounts), [f"task-{i}"])
    groups = tuple(_machine(i, i % kinds, 1.0 if kinds == 1 else prices.uniform(1.0, 1.2)) for i in range(GROUPS))
    return Snapshot(config=_cluster(groups, placement), now=NOW, workload=builder.build().workload)


def pack_gangs(gangs: int, placement: Placement) -> Snapshot:
    """Gangs that fill two hosts each, and idle slices of four hosts that hold them all."""
    builder = DemandBuilder()
    shape = Shape(resources={"cpu": 8, "memory": GIB}, gang={"size": GANG_SIZE, "placement": "pack"})
    for i in range(gangs):
        builder.add(shape, [f"task-{i}-{k}" for k in range(GANG_SIZE)], gang_ids=(f"gang-{i}",))
    groups = tuple(
        ScaleGroup(name=f"g{i}", host={"cpu": 16, "memory": "64GiB"}, hosts_per_slice=4, max_slices=5_000, price_per_hour=1)
        for i in range(5)
    )
    slices = tuple(Slice(id=f"s{i}", group=f"g{i % 5}", state=SliceState.READY) for i in range(IDLE_SLICES))
    usage = {each.id: (HostUsage(state=HostState.IDLE),) for each in slices}
    workload = builder.build().workload
    return Snapshot(config=_cluster(groups, placement), now=NOW, workload=workload, slices=slices, usage=usage)


def _machine(number: int, kind: int, dearer: float) -> ScaleGroup:
    cpu = 16 + 4 * (kind % 20)
    return ScaleGroup(
        name=f"g{number:03d}",
        host={"cpu": cpu, "memory": (32 + 8 * (kind // 4)) * GIB, "disk": 200 * GIB},
        hosts_per_slice=1 + kind % 2,
        max_slices=10_000,
        price_per_hour=round(cpu * 0.05 * dearer, 4),
    )


def _cluster(groups: tuple[ScaleGroup, ...], placement: Placement) -> ClusterConfig:
    return ClusterConfig(cluster="bench", placement=placement, groups=groups)


def _at_most(target: str, figures: list[tuple[ScalingResult, float]], most: float) -> Verdict:
    if not figures:
        return Verdict(target=target, status=Status.NOT_RUN, figures="")
    worst, figure = max(figures, key=lambda item: item[1])
    misses = tuple(f"{row.workload} {row.placement}: {value:.3f}" for row, value in figures if value > most)
    status = Status.MISSED if misses else Status.REACHED
    return Verdict(target=target, status=status, figures=f"worst {worst.workload} {worst.placement}: {figure:.3f}", misses=misses)


def main() -> None:
    """Measure the workload and placement named on the command line, for `run_scaling`."""
    workload, placement = sys.argv[1:]
    print(measure(workload, Placement(placement)).model_dump_json())


if __name__ == "__main__":
    main()
