"""Remedy benchmark: a full-size cluster at its maximums, one asker's remedy and the remedies of `plan`."""

import random
import sys
import time
from datetime import UTC, datetime, timedelta

from bench.measuring import output_of, progress
from penstock.core.answers.remedy import Asked, remedies_for, remedy_for
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig, Placement, ScaleGroup
from penstock.model.demand_builder import DemandBuilder
from penstock.model.resources import Resources
from penstock.model.shape import Shape
from penstock.model.slices import HostState, HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

TASKS = 100_000
SLICES = 5_000
SHAPES = 1_200
GROUPS = 200

_NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


class RemedyResult(Value):
    """CPU seconds of one placement: the decision, remedies for an early, a late and the last asker, and those of `plan`."""

    placement: Placement
    tasks: int
    decide_seconds: float
    asker_seconds: float
    plan_seconds: float
    remedy: str
    found: int


def run_remedies(*, quick: bool) -> list[RemedyResult]:
    """Measure each placement in a separate process; `packing` and `cost` with a hundredth of the tasks."""
    found = []
    for placement, tasks in ((Placement.PRIORITY, TASKS), (Placement.PACKING, TASKS // 100), (Placement.COST, TASKS // 100)):
        size = tasks // 10 if quick else tasks
        result = RemedyResult.model_validate_json(output_of("bench.remedies", placement, str(size)))
        progress(
            f"remedies {placement} {size:,} tasks: decision {result.decide_seconds:.2f} s, one asker"
            f" {result.asker_seconds:.2f} s, plan {result.plan_seconds:.2f} s"
        )
        found.append(result)
    return found


def crowded(placement: Placement, tasks: int) -> Snapshot:
    """Every slice busy, room for about half of the demand, every task a run of its own."""
    chance = random.Random(7)
    slices = SLICES * tasks // TASKS
    most = slices // GROUPS + tasks // GROUPS // 16
    groups = tuple(
        ScaleGroup(
            name=f"g{i:03}",
            host={"cpu": 16, "memory": "64GiB", "disk": "200GiB"},
            max_slices=most,
            priority=i % 20,
            price_per_hour=1 + i % 7,
        )
        for i in range(GROUPS)
    )
    ready = tuple(
        Slice(id=f"s{i}", group=f"g{i % GROUPS:03}", state=SliceState.READY, since=_NOW - timedelta(hours=1 + i % 50))
        for i in range(slices)
    )
    shapes = [
        Shape(resources=Resources(cpu=1 + i % 4, memory=f"{2 + i // 4 % 15}GiB", disk=f"{1 + i // 60}GiB")) for i in range(SHAPES)
    ]
    builder = DemandBuilder()
    for i in range(tasks):
        builder.add(chance.choice(shapes), (f"t{i}",))
    return Snapshot(
        config=ClusterConfig(cluster="crowded", groups=groups, placement=placement),
        now=_NOW,
        workload=builder.build().workload,
        slices=ready,
        usage={piece.id: (HostUsage(state=HostState.BUSY),) for piece in ready},
    )


def measure(placement: Placement, tasks: int) -> RemedyResult:
    """Measure in this process: the slowest of three askers, and the ten largest unmet shapes."""
    snapshot = crowded(placement, tasks)
    start = time.process_time()
    decision = decide(snapshot)
    decided = time.process_time() - start
    unmet = decision.unmet
    askers = []
    spans = sorted(((span, i) for i, item in enumerate(unmet) for span in item.spans), key=lambda pair: pair[0])
    for span, i in (spans[0], spans[len(spans) // 2], spans[-1]):
        start = time.process_time()
        found = remedy_for(snapshot, decision, unmet[i], asked=Asked(span.run, span.first))
        askers.append((time.process_time() - start, found))
    start = time.process_time()
    remedies = remedies_for(snapshot, decision)
    return RemedyResult(
        placement=placement,
        tasks=tasks,
        decide_seconds=decided,
        asker_seconds=max(seconds for seconds, _ in askers),
        plan_seconds=time.process_time() - start,
        remedy="; ".join(found.text for _, found in askers),
        found=sum(search.remedy is not None for search in remedies.values()),
    )


if __name__ == "__main__":
    print(measure(Placement(sys.argv[1]), int(sys.argv[2])).model_dump_json())
